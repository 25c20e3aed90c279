//! Tokens, operators, web sessions and the audit log.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The state of an API token or a web session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenState {
    Active,
    Expired,
    Revoked,
}

impl TokenState {
    /// The wire value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl From<margrave_core::model::TokenState> for TokenState {
    fn from(state: margrave_core::model::TokenState) -> Self {
        use margrave_core::model::TokenState as Domain;
        match state {
            Domain::Active => Self::Active,
            Domain::Expired => Self::Expired,
            Domain::Revoked => Self::Revoked,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    pub id: String,
    pub name: String,
    pub state: TokenState,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Only in the response that creates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// `POST /api/tokens`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    pub seq: i64,
    pub at: String,
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub action: String,
    pub subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<serde_json::Value>,
    pub previous_hash: String,
    pub hash: String,
}

/// `GET /api/audit/verify`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerification {
    pub intact: bool,
    pub records: u64,
    /// The first invalid record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_at: Option<i64>,
}

/// `GET /api/whoami`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoAmI {
    pub actor: String,
    pub server_version: String,
}

/// An operator who signs in with a name and a password.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operator {
    pub name: String,
    pub created_at: String,
    pub password_set_at: String,
}

/// `PUT /api/operators/{name}/password`
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetPassword {
    /// 12 to 200 characters.
    pub password: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Without the password.
impl fmt::Debug for SetPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetPassword").field("comment", &self.comment).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasswordSet {
    pub name: String,
    /// Web sessions that were ended.
    pub sessions_ended: u64,
}

/// A web session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub id: String,
    /// Its owner: `operator:admin`, `token:ci`.
    pub actor: String,
    /// Ended sessions are not listed.
    pub state: TokenState,
    pub address: String,
    pub browser: String,
    pub created_at: String,
    pub seen_at: String,
    pub expires_at: String,
}

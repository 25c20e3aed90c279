//! External registries and their credentials.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An external registry. Its password is stored sealed and never shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedRegistry {
    /// Name and port, as in references.
    pub host: String,
    /// The user; with a user, a password is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// PEM of additional CAs to trust for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Connections are not encrypted; for loopback addresses only.
    pub plain_http: bool,
    pub added_by: String,
    pub added_at: String,
    pub revision: i64,
    /// The result of the last check since it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check: Option<RegistryCheck>,
}

/// `PUT /api/registries/{host}`
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutRegistry {
    /// The user; anonymous unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Stored sealed, used for this registry only, never shown. When the registry is updated with the same user, an
    /// omitted password stays unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "password")]
    pub password: Option<String>,
    /// PEM of additional CAs to trust for this registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Use HTTP instead of HTTPS; accepted for loopback addresses only.
    #[serde(default)]
    pub plain_http: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The password must not reach a log through `{:?}`.
impl std::fmt::Debug for PutRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PutRegistry")
            .field("username", &self.username)
            .field("plain_http", &self.plain_http)
            .finish_non_exhaustive()
    }
}

/// `POST /api/registries/{host}/check`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckRegistry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The result of a registry check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryCheck {
    pub at: String,
    pub outcome: CheckOutcome,
    /// Details in words.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckOutcome {
    /// It is reachable, and accepts the user and password if it requires any.
    Reachable,
    /// Its name cannot be resolved.
    NameUnknown,
    /// It does not respond, or not now.
    Unreachable,
    /// Its certificate is invalid, or not issued by a trusted CA.
    Untrusted,
    /// It requires a user and password, or rejects the given ones.
    Denied,
    /// The host is not a registry.
    NoRegistry,
}

impl CheckOutcome {
    pub fn is_good(self) -> bool {
        self == Self::Reachable
    }
}

/// How a registry was used in an import or a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryUse {
    pub host: String,
    /// The user; anonymous unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// User and password are the stored ones of this registry.
    pub saved_login: bool,
    /// The stored CA or plain HTTP setting of this registry was used.
    pub saved_connection: bool,
}

impl RegistryUse {
    /// A sentence about the stored settings that were used, if any.
    pub fn sentence(&self) -> Option<String> {
        let host = &self.host;
        match &self.username {
            Some(user) if self.saved_login => Some(format!("Signed in to {host} as {user}, as stored under Settings.")),
            _ if self.saved_connection => Some(format!("Connected to {host} as stored under Settings.")),
            _ => None,
        }
    }
}

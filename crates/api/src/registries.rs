//! Registries besides the server's own, and what they are asked with.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A registry packages come from. Its password is kept sealed and never shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedRegistry {
    /// Name and port, as references write it.
    pub host: String,
    /// Who it is asked as; where there is a user, a password is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// PEM of further CAs to trust for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// It is spoken to without encryption; for loopback addresses only.
    pub plain_http: bool,
    pub added_by: String,
    pub added_at: String,
    pub revision: i64,
    /// What came of the last check since it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check: Option<RegistryCheck>,
}

/// `PUT /api/registries/{host}`
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutRegistry {
    /// Who it is asked as; nobody unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Kept sealed, used for this registry only, never shown. When the registry is changed and the user stays, a password that
    /// is left out stays as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "password")]
    pub password: Option<String>,
    /// PEM of further CAs to trust for this registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Speak HTTP instead of HTTPS; accepted for loopback addresses only.
    #[serde(default)]
    pub plain_http: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The password must not reach a log by way of `{:?}`.
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
    pub reason: Option<String>,
}

/// What came of asking a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryCheck {
    pub at: String,
    pub outcome: CheckOutcome,
    /// What it said, or why it cannot be used, in words.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckOutcome {
    /// It is there, and takes the user and password if it wants any.
    Answered,
    /// Its name is not found.
    NameUnknown,
    /// It does not answer, or not now.
    Unreachable,
    /// Its certificate is not good, or of no CA that is trusted.
    Untrusted,
    /// It wants a user and password, or refuses those it was given.
    Denied,
    /// Something answers that is no registry.
    NoRegistry,
}

impl CheckOutcome {
    pub fn is_good(self) -> bool {
        self == Self::Answered
    }
}

/// How a registry was asked in an import or a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryUse {
    pub host: String,
    /// Who it was asked as; nobody unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// User and password are those kept for this registry.
    pub saved_login: bool,
    /// The CA or the plain HTTP kept for this registry was used.
    pub saved_connection: bool,
}

impl RegistryUse {
    /// What was used of what is kept, in a sentence; nothing when nothing was.
    pub fn sentence(&self) -> Option<String> {
        let host = &self.host;
        match &self.username {
            Some(user) if self.saved_login => Some(format!("Signed in to {host} as {user}, as kept under Settings.")),
            _ if self.saved_connection => Some(format!("Reached {host} as kept under Settings.")),
            _ => None,
        }
    }
}

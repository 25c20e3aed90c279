//! External registries.

use crate::time::Timestamp;

/// An external registry, without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedRegistry {
    /// Name and port, in lower case.
    pub host: String,
    /// The user to sign in as; a user always has a password.
    pub username: Option<String>,
    /// PEM of certificate authorities to trust in addition to the system's.
    pub ca: Option<String>,
    pub plain_http: bool,
    pub added_by: String,
    pub added_at: Timestamp,
    pub revision: i64,
    /// For this revision.
    pub last_check: Option<RegistryCheck>,
}

/// The result of a registry check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryCheck {
    pub at: Timestamp,
    pub outcome: CheckOutcome,
    /// One sentence for people.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckOutcome {
    Reachable,
    NameUnknown,
    Unreachable,
    /// Its certificate is invalid or not trusted.
    Untrusted,
    /// It rejects the user and password, or requires them.
    Denied,
    /// The server that responds is not a registry.
    NoRegistry,
}

impl CheckOutcome {
    pub const ALL: [Self; 6] =
        [Self::Reachable, Self::NameUnknown, Self::Unreachable, Self::Untrusted, Self::Denied, Self::NoRegistry];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::NameUnknown => "name-unknown",
            Self::Unreachable => "unreachable",
            Self::Untrusted => "untrusted",
            Self::Denied => "denied",
            Self::NoRegistry => "no-registry",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }
}

//! Registries besides the server's own.

use crate::time::Timestamp;

/// A registry besides the server's own, without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedRegistry {
    /// Name and port, in small letters.
    pub host: String,
    /// Who it is asked as; where there is a user there is a password.
    pub username: Option<String>,
    /// PEM of certificate authorities to trust besides the system's.
    pub ca: Option<String>,
    pub plain_http: bool,
    pub added_by: String,
    pub added_at: Timestamp,
    pub revision: i64,
    /// Of this revision.
    pub last_check: Option<RegistryCheck>,
}

/// What came of asking a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryCheck {
    pub at: Timestamp,
    pub outcome: CheckOutcome,
    /// One sentence for people.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckOutcome {
    Answered,
    NameUnknown,
    Unreachable,
    /// Its certificate is not good, or of nobody we trust.
    Untrusted,
    /// It does not take the user and password, or wants some.
    Denied,
    /// Something answers that is none.
    NoRegistry,
}

impl CheckOutcome {
    pub const ALL: [Self; 6] =
        [Self::Answered, Self::NameUnknown, Self::Unreachable, Self::Untrusted, Self::Denied, Self::NoRegistry];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
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

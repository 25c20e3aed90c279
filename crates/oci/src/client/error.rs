//! Errors of a registry.

/// The kind of error, by what an operator can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request is invalid.
    Setup,
    /// The given certificates are unusable.
    Ca,
    /// No response, or one that says that the registry is unavailable.
    Unreachable,
    /// Its host name does not resolve.
    NameUnknown,
    /// Its certificate is invalid or not trusted.
    Untrusted,
    /// The server that responds is not a registry.
    NoRegistry,
    Denied,
    NotFound,
    Busy,
    /// Understood and rejected.
    Refused,
    /// Content with the wrong digest.
    Damaged,
    TooLarge,
}

/// A message for people; it never contains credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OciError {
    pub kind: Kind,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, OciError>;

impl OciError {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::NameUnknown | Kind::Untrusted | Kind::Busy)
    }
}

/// An error with its causes, in one line, without the prefixes that the HTTP client adds to every error.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    for common in ["error sending request: ", "client error (Connect): "] {
        if let Some(rest) = text.strip_prefix(common) {
            text = rest.to_owned();
        }
    }
    text
}

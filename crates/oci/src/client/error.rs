//! What can go wrong with a registry.

/// What somebody can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The question makes no sense.
    Setup,
    /// The certificates given cannot be used.
    Ca,
    /// No answer, or one that says that it cannot answer now.
    Unreachable,
    /// Nobody knows its name.
    NameUnknown,
    /// Its certificate is not good, or of nobody we trust.
    Untrusted,
    /// Something answers that is no registry.
    NoRegistry,
    Denied,
    NotFound,
    Busy,
    /// Understood and refused.
    Refused,
    /// Something arrived with the wrong digest.
    Damaged,
    TooLarge,
}

/// A message for people; it never holds credentials.
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
    /// Whether the same may go well a moment later.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::NameUnknown | Kind::Untrusted | Kind::Busy)
    }
}

/// An error with its causes, in one line, without what the client below says of every one.
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

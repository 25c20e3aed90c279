//! A broken promise.

use std::fmt;

/// What did not hold, and the details that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The promise, in a few words that stay the same.
    pub rule: &'static str,
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

impl std::error::Error for Violation {}

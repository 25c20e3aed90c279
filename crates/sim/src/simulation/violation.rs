//! A violated invariant.

use std::fmt;

/// The violated rule with details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule, as a fixed text.
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

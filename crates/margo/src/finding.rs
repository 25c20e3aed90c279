//! Errors and warnings that a reader finds in a document, with their positions.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// The document is usable; something in it is outdated, unusual or ignored.
    Warning,
}

/// One finding about one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// Path of the field, such as `deploymentProfiles[0].components[1].name`; empty for the document itself.
    pub path: String,
    /// Line in the source text, counted from 1, if known.
    pub line: Option<usize>,
    /// What is wrong and what would be right, as one sentence without the path.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl Finding {
    /// The last finding of a truncated list: how many problems are not listed.
    pub(crate) fn closing(left_out: usize) -> Self {
        let message = format!("{CLOSING}, which are not listed: {left_out}");
        Self { severity: Severity::Error, path: String::new(), line: None, message }
    }
    /// Whether this is that finding.
    pub fn is_closing(&self) -> bool {
        self.path.is_empty() && self.line.is_none() && self.message.starts_with(CLOSING)
    }
}

const CLOSING: &str = "there are more problems like these";

/// All findings of an unusable document: all problems at once, never just the first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    pub fn one(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self(vec![Finding { severity: Severity::Error, path: path.into(), line: None, message: message.into() }])
    }
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Error)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}

/// A usable document, with the warnings found.
#[derive(Debug, Clone, PartialEq)]
pub struct Read<T> {
    pub document: T,
    pub warnings: Vec<Finding>,
}

pub type ReadResult<T> = Result<Read<T>, Findings>;

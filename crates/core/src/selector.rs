//! Label selectors: `site=berlin,line in (1,2),!spare`.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// All must hold; none means everything.
    pub requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    Equals(String, String),
    NotEquals(String, String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("selector `{text}`: {problem} (write for example `site=berlin,line in (1,2),!spare`)")]
pub struct SelectorError {
    pub text: String,
    pub problem: String,
}

impl LabelSelector {
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let _ = text;
        todo!()
    }

    /// `labels` answers with every value a key has: the operator's, the device's, or the elements of an array label.
    pub fn matches<'a>(&self, labels: impl Fn(&str) -> Vec<&'a str>) -> bool {
        let _ = labels;
        todo!()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        todo!()
    }
}

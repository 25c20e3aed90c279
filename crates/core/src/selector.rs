//! Label selectors: `site=berlin,line in (1,2),!spare`.

mod parser;
#[cfg(test)]
mod tests;

use std::fmt;

pub use parser::SELECTOR_BYTES_MAX;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// All must match; an empty list matches everything.
    pub requirements: Vec<Requirement>,
}

/// Keys are never empty and a set has at least one value; the parser ensures it.
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
    /// Accepts the syntax of `kubectl`, and quoted keys and values: labels of devices may hold any character.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parser::parse(text)
    }

    /// `labels` returns every value of a key: the operator's, the device's, or the elements of an array label.
    pub fn matches<'a>(&self, labels: impl Fn(&str) -> Vec<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(&labels(requirement.key())))
    }
}

/// Whether a word needs no quotes in a selector.
pub fn is_plain(word: &str) -> bool {
    parser::is_bare(word)
}

impl Requirement {
    pub fn key(&self) -> &str {
        match self {
            Self::Equals(key, _)
            | Self::NotEquals(key, _)
            | Self::In(key, _)
            | Self::NotIn(key, _)
            | Self::Exists(key)
            | Self::DoesNotExist(key) => key,
        }
    }

    /// Whether it matches a key with these values. As with `kubectl`, an absent key differs from every value.
    pub fn holds(&self, values: &[&str]) -> bool {
        match self {
            Self::Equals(_, wanted) => values.contains(&wanted.as_str()),
            Self::NotEquals(_, unwanted) => !values.contains(&unwanted.as_str()),
            Self::In(_, wanted) => values.iter().any(|value| wanted.iter().any(|wanted| wanted == value)),
            Self::NotIn(_, unwanted) => !values.iter().any(|value| unwanted.iter().any(|unwanted| unwanted == value)),
            Self::Exists(_) => !values.is_empty(),
            Self::DoesNotExist(_) => values.is_empty(),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(key, value) => write!(f, "{}={}", Quoted(key), Quoted(value)),
            Self::NotEquals(key, value) => write!(f, "{}!={}", Quoted(key), Quoted(value)),
            Self::In(key, values) => write!(f, "{} in ({})", Quoted(key), QuotedList(values)),
            Self::NotIn(key, values) => write!(f, "{} notin ({})", Quoted(key), QuotedList(values)),
            Self::Exists(key) => write!(f, "{}", Quoted(key)),
            Self::DoesNotExist(key) => write!(f, "!{}", Quoted(key)),
        }
    }
}

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if parser::is_bare(self.0) {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", self.0.replace('\\', "\\\\").replace('"', "\\\""))
        }
    }
}

struct QuotedList<'a>(&'a [String]);

impl fmt::Display for QuotedList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            Quoted(word).fmt(f)?;
        }
        Ok(())
    }
}

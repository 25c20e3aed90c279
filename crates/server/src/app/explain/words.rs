//! Converts facts into sentences. Pure, and the only place that does.

pub(super) mod application;
pub(super) mod deployment;
pub(super) mod device;

use margrave_api::explain::Fact;
use margrave_core::time::Timestamp;
use serde_json::Value;

/// The agent's error codes, with their meaning and next action.
const ERRORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md"));

pub(super) fn fact(code: &str, sentence: impl Into<String>) -> Fact {
    Fact {
        code: code.to_owned(),
        sentence: sentence.into(),
        since: None,
        about: None,
        command: None,
        values: indexmap::IndexMap::new(),
    }
}

/// For a device whose agent simulates workloads: the states are real, the workloads are not.
pub(super) const SIMULATED: &str =
    "nothing is really installed on this device: its agent runs with the simulated runtime";

/// Builder methods of a fact.
pub(super) trait With: Sized {
    fn since(self, at: Timestamp) -> Self;
    fn about(self, what: String) -> Self;
    fn command(self, command: String) -> Self;
    fn value(self, name: &str, value: impl Into<Value>) -> Self;
}

impl With for Fact {
    fn since(mut self, at: Timestamp) -> Self {
        self.since = Some(at.to_string());
        self
    }
    fn about(mut self, what: String) -> Self {
        self.about = Some(what);
        self
    }
    fn command(mut self, command: String) -> Self {
        self.command = Some(command);
        self
    }
    fn value(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }
}

/// Sentences show no fractions of a second.
pub(super) fn second(at: Timestamp) -> Timestamp {
    Timestamp(at.0.div_euclid(1_000_000) * 1_000_000)
}

/// The next action of an error code, from the list that documents it.
pub fn next_action(code: &str) -> Option<&'static str> {
    if code.is_empty() || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let heading = format!("\n## {code} ");
    let (_, section) = ERRORS.split_once(&heading)?;
    let section = section.split("\n## ").next().unwrap_or_default();
    section.lines().find_map(|line| line.strip_prefix("Next action: "))
}

/// All deployments are as desired.
pub(super) fn all_fine(total: u64) -> String {
    match total {
        1 => "the one deployment is as desired".to_owned(),
        total => format!("all {total} deployments are as desired"),
    }
}

/// `1 device`, `3 devices`.
pub(super) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Sentences are the same for every reader, so commands are in a field of their own.
#[cfg(test)]
#[track_caller]
pub(super) fn without_commands(explanation: &margrave_api::explain::Explanation) {
    let margrave_api::explain::Explanation { desired, observed, waiting_for, next_steps, .. } = explanation;
    for fact in [desired, observed, waiting_for, next_steps].into_iter().flatten() {
        assert!(!fact.sentence.contains("margrave "), "{fact:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_code_has_a_next_action() {
        let action = next_action("102").unwrap();
        assert!(action.starts_with("restore the child"), "{action}");
        assert_eq!(next_action("999"), None);
        assert_eq!(next_action("image-pull"), None);
        assert_eq!(next_action(""), None);
    }

    #[test]
    fn pluralizes_counts() {
        assert_eq!((count(1, "device"), count(0, "device")), ("1 device".to_owned(), "0 devices".to_owned()));
    }
}

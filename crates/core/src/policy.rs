//! What a device does about drift, failure and removal of one deployment. Set by the operator, carried in the
//! deployment document as an extension that other agents ignore (EXT-01, DEP-02; ADR 17).

#[cfg(test)]
mod tests;

use margo::deployment::ApplicationDeployment;
use margo::description::Extensions;
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// The extension on `spec` of a deployment document.
pub const EXTENSION: &str = "x-margrave-extensions";

const MEMBER: &str = "policy";
const DRIFT: &str = "drift";
const ON_FAILURE: &str = "onFailure";
const ON_REMOVAL: &str = "onRemoval";
const ATTEMPT: &str = "attempt";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    pub drift: Drift,
    pub on_failure: OnFailure,
    pub on_removal: OnRemoval,
    /// How often an operator requested a retry. The number has no meaning for a device: it changes the document, and
    /// every agent applies a changed document.
    pub attempt: u32,
}

/// What the device does when the running state differs from the applied one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Drift {
    /// Correct it, and report what differed.
    #[default]
    Correct,
    /// Report what differs; change nothing.
    Report,
    Ignore,
}

/// What the device does when a component cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnFailure {
    /// Keeps what was applied and retries the rest while the manifest stays.
    #[default]
    KeepPartial,
    /// Rolls back to the last revision of this deployment that ran.
    Rollback,
    /// Stops until the manager changes something.
    Stop,
}

/// What the device does with data when the deployment leaves the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnRemoval {
    /// Keeps data volumes.
    #[default]
    Keep,
    Purge,
}

/// The policies to change; `None` keeps the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyUpdate {
    pub drift: Option<Drift>,
    pub on_failure: Option<OnFailure>,
    pub on_removal: Option<OnRemoval>,
    pub attempt: Option<u32>,
}

impl PolicyUpdate {
    /// The resulting policy of a deployment with the policy `present`.
    #[must_use]
    pub fn over(self, present: Policy) -> Policy {
        Policy {
            drift: self.drift.unwrap_or(present.drift),
            on_failure: self.on_failure.unwrap_or(present.on_failure),
            on_removal: self.on_removal.unwrap_or(present.on_removal),
            attempt: self.attempt.unwrap_or(present.attempt),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Text such as `drift=report onFailure=stop`, for records; empty if nothing changes.
    pub fn to_text(&self) -> String {
        let Self { drift, on_failure, on_removal, attempt } = self;
        let words = [
            drift.map(|word| format!("{DRIFT}={word}")),
            on_failure.map(|word| format!("{ON_FAILURE}={word}")),
            on_removal.map(|word| format!("{ON_REMOVAL}={word}")),
            attempt.map(|number| format!("{ATTEMPT}={number}")),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Reads [`PolicyUpdate::to_text`]; `None` if it has an unknown key or value.
    pub fn parse(text: &str) -> Option<Self> {
        let mut patch = Self::default();
        for word in text.split_whitespace() {
            match word.split_once('=')? {
                (DRIFT, word) => patch.drift = Some(word.parse().ok()?),
                (ON_FAILURE, word) => patch.on_failure = Some(word.parse().ok()?),
                (ON_REMOVAL, word) => patch.on_removal = Some(word.parse().ok()?),
                (ATTEMPT, number) => patch.attempt = Some(number.parse().ok()?),
                _ => return None,
            }
        }
        Some(patch)
    }
}

/// Everything that differs from the default.
impl From<Policy> for PolicyUpdate {
    fn from(policy: Policy) -> Self {
        let Policy { drift, on_failure, on_removal, attempt } = policy;
        Self {
            drift: (drift != Drift::default()).then_some(drift),
            on_failure: (on_failure != OnFailure::default()).then_some(on_failure),
            on_removal: (on_removal != OnRemoval::default()).then_some(on_removal),
            attempt: (attempt != 0).then_some(attempt),
        }
    }
}

/// A word that is not one of the allowed words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not one of {}", allowed.join(", "))]
pub struct UnknownValue {
    found: String,
    allowed: Vec<&'static str>,
}

/// Longer words are cut in messages.
const WORD_CHARS_MAX: usize = 40;

macro_rules! words {
    ($name:ident: $($variant:ident = $word:literal, $meaning:literal;)*) => {
        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// What the device does, for people, in the imperative.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }

            /// As it is written in documents and commands.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl FromStr for $name {
            type Err = UnknownValue;
            fn from_str(text: &str) -> Result<Self, UnknownValue> {
                Self::ALL.iter().copied().find(|known| known.as_str() == text).ok_or_else(|| UnknownValue {
                    found: text.chars().take(WORD_CHARS_MAX).collect(),
                    allowed: vec![$($word),*],
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(Drift:
    Correct = "correct", "correct and report";
    Report = "report", "report only";
    Ignore = "ignore", "ignore";
);
words!(OnFailure:
    KeepPartial = "keep-partial", "keep running parts and retry";
    Rollback = "rollback", "roll back";
    Stop = "stop", "stop";
);
words!(OnRemoval:
    Keep = "keep", "keep data";
    Purge = "purge", "delete data";
);

fn or_default<T: FromStr + Default>(word: Option<&str>) -> T {
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}

impl Policy {
    /// The policy in a document; the default where it has none or an unknown value (EXT-02).
    pub fn of(document: &ApplicationDeployment) -> Self {
        Self::read(&document.spec.extensions)
    }

    pub fn read(extensions: &Extensions) -> Self {
        let said = extensions.get(EXTENSION).and_then(|ours| ours.get(MEMBER));
        let word = |key: &str| said.and_then(|policy| policy.get(key)).and_then(Value::as_str);
        Self {
            drift: or_default(word(DRIFT)),
            on_failure: or_default(word(ON_FAILURE)),
            on_removal: or_default(word(ON_REMOVAL)),
            attempt: extensions
                .get(EXTENSION)
                .and_then(|ours| ours.get(ATTEMPT))
                .and_then(Value::as_u64)
                .and_then(|number| number.try_into().ok())
                .unwrap_or_default(),
        }
    }

    /// Writes only what differs from the default: a document with default policies stays as the standard defines it.
    pub fn write(&self, extensions: &mut Extensions) {
        let Self { drift, on_failure, on_removal, attempt } = *self;
        let mut policy = Map::new();
        let mut put = |key: &str, word: Option<&str>| {
            if let Some(word) = word {
                policy.insert(key.to_owned(), word.into());
            }
        };
        put(DRIFT, (drift != Drift::default()).then(|| drift.as_str()));
        put(ON_FAILURE, (on_failure != OnFailure::default()).then(|| on_failure.as_str()));
        put(ON_REMOVAL, (on_removal != OnRemoval::default()).then(|| on_removal.as_str()));
        let mut ours = match extensions.shift_remove(EXTENSION) {
            Some(Value::Object(ours)) => ours,
            _ => Map::new(),
        };
        ours.remove(MEMBER);
        ours.remove(ATTEMPT);
        if !policy.is_empty() {
            ours.insert(MEMBER.to_owned(), Value::Object(policy));
        }
        if attempt != 0 {
            ours.insert(ATTEMPT.to_owned(), attempt.into());
        }
        if !ours.is_empty() {
            extensions.insert(EXTENSION.to_owned(), Value::Object(ours));
        }
    }

    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `drift correct, on failure keep-partial, on removal keep`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { drift, on_failure, on_removal, attempt: _ } = self;
        write!(f, "drift {drift}, on failure {on_failure}, on removal {on_removal}")
    }
}

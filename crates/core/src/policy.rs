//! What a device does by itself about one deployment: drift, failure, removal. Chosen by the operator, carried in the
//! deployment document as an extension that other agents ignore (EXT-01, DEP-02; ADR 17).

#[cfg(test)]
mod tests;

use margo::deployment::ApplicationDeployment;
use margo::description::Extensions;
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// Stands on `spec` of a deployment document.
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
    /// How often the manager has asked to try again what was given up. The number means nothing to a device: it makes the
    /// document another one, which every agent takes up anew.
    pub attempt: u32,
}

/// What runs is not what was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Drift {
    /// Repair it, and say what differed.
    #[default]
    Correct,
    /// Say what differs; touch nothing.
    Report,
    Ignore,
}

/// A component could not be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnFailure {
    /// What was applied stays; the rest is tried again while the manifest stands.
    #[default]
    KeepPartial,
    /// Back to the last revision of this deployment that ran.
    Rollback,
    /// Stop until the manager changes something.
    Hold,
}

/// The deployment leaves the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnRemoval {
    /// Data volumes stay.
    #[default]
    Keep,
    Purge,
}

/// What somebody asks for; what is left out stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wish {
    pub drift: Option<Drift>,
    pub on_failure: Option<OnFailure>,
    pub on_removal: Option<OnRemoval>,
    pub attempt: Option<u32>,
}

impl Wish {
    /// What it comes to for a deployment that has this policy.
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

    /// Words such as `drift=report onFailure=hold`, for records; empty when nothing is asked for.
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

    /// Reads [`Wish::to_text`]; `None` when it says something this program does not know.
    pub fn parse(text: &str) -> Option<Self> {
        let mut wish = Self::default();
        for word in text.split_whitespace() {
            match word.split_once('=')? {
                (DRIFT, word) => wish.drift = Some(word.parse().ok()?),
                (ON_FAILURE, word) => wish.on_failure = Some(word.parse().ok()?),
                (ON_REMOVAL, word) => wish.on_removal = Some(word.parse().ok()?),
                (ATTEMPT, number) => wish.attempt = Some(number.parse().ok()?),
                _ => return None,
            }
        }
        Some(wish)
    }
}

/// Everything that differs from the default.
impl From<Policy> for Wish {
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

/// A word that is none of those allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not one of {}", allowed.join(", "))]
pub struct UnknownWord {
    found: String,
    allowed: Vec<&'static str>,
}

/// Longer words are cut in messages.
const WORD_CHARS_MAX: usize = 40;

macro_rules! words {
    ($name:ident: $($variant:ident = $word:literal, $meaning:literal;)*) => {
        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// What the device does then, for people: an order to it.
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
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|known| known.as_str() == text).ok_or_else(|| UnknownWord {
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
    Correct = "correct", "put it right and report it";
    Report = "report", "report it, touch nothing";
    Ignore = "ignore", "leave it and say nothing";
);
words!(OnFailure:
    KeepPartial = "keep-partial", "keep what works, try the rest again";
    Rollback = "rollback", "go back to what ran before";
    Hold = "hold", "stop until somebody changes it";
);
words!(OnRemoval:
    Keep = "keep", "keep its data on the device";
    Purge = "purge", "delete its data as well";
);

fn or_default<T: FromStr + Default>(word: Option<&str>) -> T {
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}

impl Policy {
    /// What a document says; where it says nothing, or nothing this program knows, the default (EXT-02).
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

    /// Only what differs from the default is written: a document without wishes stays as the standard has it.
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

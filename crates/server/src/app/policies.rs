//! What devices do by themselves, as operators are asked about it and told of it.

use super::deployments;
use super::drafts::{Draft, Kind};
use super::error::{AppError, AppResult};
use crate::state::ServerState;
use margrave_api::policies::PolicyWish;
use margrave_core::policy::{Drift, OnFailure, OnRemoval, Policy, UnknownWord, Wish};

const DRIFT: &str = "when it is changed by hand";
const ON_FAILURE: &str = "when it fails";
const ON_REMOVAL: &str = "when it is removed";

/// One of the things that can be chosen, with everything needed to ask for it.
#[derive(Debug, Clone)]
pub struct Choice {
    /// As the API calls it.
    pub name: &'static str,
    pub question: &'static str,
    pub hint: &'static str,
    pub options: Vec<Meaning>,
    /// What the draft asks for; none leaves it as it is.
    pub wanted: Option<Meaning>,
    /// What it is now, or for something new if nothing is asked for; none where each device may have another.
    pub present: Option<Meaning>,
    /// There is nothing yet that could be left as it is.
    pub is_new: bool,
}

impl Choice {
    /// Whether this is what stands in the form.
    pub fn stands(&self, option: &Meaning) -> bool {
        let beginning = self.present.filter(|_| self.is_new);
        self.wanted.or(beginning) == Some(*option)
    }
}

/// One of them as it is, or as it would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub question: &'static str,
    /// None where each device may have another.
    pub meaning: Option<&'static str>,
    /// Somebody has just chosen it.
    pub chosen: bool,
    /// How it compares with what is there.
    pub note: Option<String>,
}

impl From<(&'static str, &'static str)> for Rule {
    fn from((question, meaning): (&'static str, &'static str)) -> Self {
        Self { question, meaning: Some(meaning), chosen: false, note: None }
    }
}

impl From<Choice> for Rule {
    fn from(choice: Choice) -> Self {
        let Choice { question, wanted, present, is_new, .. } = choice;
        let meaning = wanted.or(present).map(|meaning| meaning.text);
        let note = match (wanted, present.filter(|_| !is_new)) {
            (Some(_), Some(present)) => Some(format!("instead of: {}", present.text)),
            (None, Some(_)) => Some("as it is now".to_owned()),
            (_, None) => None,
        };
        Self { question, meaning, chosen: wanted.is_some(), note }
    }
}

/// One way to go about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// As the API writes it.
    pub word: &'static str,
    /// In words for people.
    pub text: &'static str,
    pub is_default: bool,
}

macro_rules! meaning {
    ($($name:ident),*) => {
        $(impl From<$name> for Meaning {
            fn from(chosen: $name) -> Self {
                Self { word: chosen.as_str(), text: chosen.meaning(), is_default: chosen == $name::default() }
            }
        })*
    };
}
meaning!(Drift, OnFailure, OnRemoval);

fn choice<T: Copy + Into<Meaning>>(
    (name, question, hint): (&'static str, &'static str, &'static str),
    all: &[T],
    wanted: Option<T>,
    present: Option<T>,
    is_new: bool,
) -> Choice {
    Choice {
        name,
        question,
        hint,
        options: all.iter().copied().map(Into::into).collect(),
        wanted: wanted.map(Into::into),
        present: present.map(Into::into),
        is_new,
    }
}

/// What a draft asks for, beside what is there; see [`before`].
pub fn choices(draft: &Draft, present: Option<Policy>) -> [Choice; 3] {
    let Wish { drift, on_failure, on_removal, attempt: _ } = draft.policy.into();
    let is_new = draft.kind == Kind::Create;
    [
        choice(
            ("drift", DRIFT, "Somebody at the device stops, removes or changes what runs."),
            Drift::ALL,
            drift,
            present.map(|policy| policy.drift),
            is_new,
        ),
        choice(
            (
                "onFailure",
                ON_FAILURE,
                "A part of it cannot be installed or started. Where nothing ran before, going back means trying again.",
            ),
            OnFailure::ALL,
            on_failure,
            present.map(|policy| policy.on_failure),
            is_new,
        ),
        choice(
            ("onRemoval", ON_REMOVAL, "Its volumes on the device. What was deleted cannot be brought back."),
            OnRemoval::ALL,
            on_removal,
            present.map(|policy| policy.on_removal),
            is_new,
        ),
    ]
}

/// What a deployment has, in words: what happens, and what the device does then.
pub fn shown(policy: Policy) -> [(&'static str, &'static str); 3] {
    let Policy { drift, on_failure, on_removal, attempt: _ } = policy;
    [(DRIFT, drift.meaning()), (ON_FAILURE, on_failure.meaning()), (ON_REMOVAL, on_removal.meaning())]
}

/// What is there before a draft: of a new deployment the default, of several deployments nothing that could be told.
pub async fn before(state: &ServerState, draft: &Draft) -> AppResult<Option<Policy>> {
    match (draft.kind, draft.single()) {
        (Kind::Create, _) => Ok(Some(Policy::default())),
        (_, Some(only)) => Ok(Some(deployments::existing(state, only).await?.deployment.policy)),
        _ => Ok(None),
    }
}

/// What was chosen, by the names of the API, without what is so already; empty leaves it as it is.
pub fn read<'a>(word: impl Fn(&str) -> &'a str, present: Option<Policy>) -> AppResult<PolicyWish> {
    let drift = one("drift", word("drift"), present.map(|policy| policy.drift))?;
    let on_failure = one("onFailure", word("onFailure"), present.map(|policy| policy.on_failure))?;
    let on_removal = one("onRemoval", word("onRemoval"), present.map(|policy| policy.on_removal))?;
    Ok(PolicyWish {
        drift: drift.map(Into::into),
        on_failure: on_failure.map(Into::into),
        on_removal: on_removal.map(Into::into),
    })
}

fn one<T: std::str::FromStr<Err = UnknownWord> + PartialEq>(
    field: &str,
    word: &str,
    present: Option<T>,
) -> AppResult<Option<T>> {
    if word.is_empty() {
        return Ok(None);
    }
    let wanted = word.parse().map_err(|error: UnknownWord| AppError::invalid(field, error.to_string()))?;
    Ok(Some(wanted).filter(|wanted| present.as_ref() != Some(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use margrave_api::policies as wire;

    fn words(drift: &'static str, on_failure: &'static str) -> impl Fn(&str) -> &'static str {
        move |name| match name {
            "drift" => drift,
            "onFailure" => on_failure,
            _ => "",
        }
    }

    #[test]
    fn only_what_differs_is_asked_for() {
        let held = Policy { on_failure: OnFailure::Hold, ..Policy::default() };
        let wish = read(words("report", "hold"), Some(held)).unwrap();
        assert_eq!(wish, PolicyWish { drift: Some(wire::Drift::Report), ..PolicyWish::default() });
        assert!(read(words("correct", "keep-partial"), Some(Policy::default())).unwrap().is_empty());
        // Of several nobody knows what each has: what is chosen is asked for.
        let wish = read(words("correct", ""), None).unwrap();
        assert_eq!(wish, PolicyWish { drift: Some(wire::Drift::Correct), ..PolicyWish::default() });
    }

    #[test]
    fn a_word_nobody_knows_is_refused_with_those_that_are_known() {
        let error = read(words("", "panic"), None).unwrap_err();
        let AppError::Refused { errors, .. } = error else { panic!("{error:?}") };
        assert_eq!(errors[0].field, "onFailure");
        assert_eq!(errors[0].message, "`panic` is not one of keep-partial, rollback, hold");
    }

    #[test]
    fn everything_that_can_be_chosen_is_told_apart() {
        let told = |all: Vec<Meaning>| all.iter().map(|one| one.text).collect::<std::collections::HashSet<_>>().len();
        assert_eq!(told(Drift::ALL.iter().copied().map(Meaning::from).collect()), 3);
        assert_eq!(told(OnFailure::ALL.iter().copied().map(Meaning::from).collect()), 3);
        assert_eq!(told(OnRemoval::ALL.iter().copied().map(Meaning::from).collect()), 2);
    }
}

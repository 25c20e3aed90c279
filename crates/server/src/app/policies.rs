//! Deployment policies, as pages offer and show them.

use super::deployments;
use super::drafts::{Draft, Kind};
use super::error::{AppError, AppResult};
use crate::state::ServerState;
use margrave_api::policies::PolicyPatch;
use margrave_core::policy::{Drift, OnFailure, OnRemoval, Policy, PolicyUpdate, UnknownValue};

const DRIFT: &str = "drift";
const ON_FAILURE: &str = "on failure";
const ON_REMOVAL: &str = "on removal";

/// One policy, with everything needed to render its form field.
#[derive(Debug, Clone)]
pub struct PolicyField {
    /// Field name in the API.
    pub name: &'static str,
    pub title: &'static str,
    pub hint: &'static str,
    pub options: Vec<PolicyOption>,
    /// The value set by the draft; none leaves the policy unchanged.
    pub requested: Option<PolicyOption>,
    /// The current value, or the default for a new deployment; none if deployments may differ.
    pub present: Option<PolicyOption>,
    /// A new deployment, which has no current value to keep.
    pub is_new: bool,
}

impl PolicyField {
    /// Whether this option is selected in the form.
    pub fn stands(&self, option: &PolicyOption) -> bool {
        let beginning = self.present.filter(|_| self.is_new);
        self.requested.or(beginning) == Some(*option)
    }
}

/// One policy for display, current or reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub title: &'static str,
    /// None if deployments may differ.
    pub meaning: Option<&'static str>,
    /// The draft sets it.
    pub chosen: bool,
    /// Comparison with the current value.
    pub note: Option<String>,
}

impl From<(&'static str, &'static str)> for Rule {
    fn from((title, meaning): (&'static str, &'static str)) -> Self {
        Self { title, meaning: Some(meaning), chosen: false, note: None }
    }
}

impl From<PolicyField> for Rule {
    fn from(choice: PolicyField) -> Self {
        let PolicyField { title, requested, present, is_new, .. } = choice;
        let meaning = requested.or(present).map(|meaning| meaning.text);
        let note = match (requested, present.filter(|_| !is_new)) {
            (Some(_), Some(present)) => Some(format!("instead of: {}", present.text)),
            (None, Some(_)) => Some("unchanged".to_owned()),
            (_, None) => None,
        };
        Self { title, meaning, chosen: requested.is_some(), note }
    }
}

/// One option of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyOption {
    /// Value in the API.
    pub word: &'static str,
    /// Text on pages.
    pub text: &'static str,
    pub is_default: bool,
}

macro_rules! meaning {
    ($($name:ident),*) => {
        $(impl From<$name> for PolicyOption {
            fn from(chosen: $name) -> Self {
                Self { word: chosen.as_str(), text: chosen.meaning(), is_default: chosen == $name::default() }
            }
        })*
    };
}
meaning!(Drift, OnFailure, OnRemoval);

fn choice<T: Copy + Into<PolicyOption>>(
    (name, title, hint): (&'static str, &'static str, &'static str),
    all: &[T],
    requested: Option<T>,
    present: Option<T>,
    is_new: bool,
) -> PolicyField {
    PolicyField {
        name,
        title,
        hint,
        options: all.iter().copied().map(Into::into).collect(),
        requested: requested.map(Into::into),
        present: present.map(Into::into),
        is_new,
    }
}

/// The policies of a draft, with the current ones; see [`before`].
pub fn choices(draft: &Draft, present: Option<Policy>) -> [PolicyField; 3] {
    let PolicyUpdate { drift, on_failure, on_removal, attempt: _ } = draft.policy.into();
    let is_new = draft.kind == Kind::Create;
    [
        choice(
            ("drift", DRIFT, "Applies when workloads are stopped, removed or changed on the device."),
            Drift::ALL,
            drift,
            present.map(|policy| policy.drift),
            is_new,
        ),
        choice(
            (
                "onFailure",
                ON_FAILURE,
                "Applies when a component cannot be installed or started. Without a previous revision, a rollback means a retry.",
            ),
            OnFailure::ALL,
            on_failure,
            present.map(|policy| policy.on_failure),
            is_new,
        ),
        choice(
            ("onRemoval", ON_REMOVAL, "Applies to the volumes on the device. Deleted data cannot be restored."),
            OnRemoval::ALL,
            on_removal,
            present.map(|policy| policy.on_removal),
            is_new,
        ),
    ]
}

/// The policies of a deployment as name and text.
pub fn shown(policy: Policy) -> [(&'static str, &'static str); 3] {
    let Policy { drift, on_failure, on_removal, attempt: _ } = policy;
    [(DRIFT, drift.meaning()), (ON_FAILURE, on_failure.meaning()), (ON_REMOVAL, on_removal.meaning())]
}

/// The policies before a draft: the default for a new deployment, none for several deployments.
pub async fn before(state: &ServerState, draft: &Draft) -> AppResult<Option<Policy>> {
    match (draft.kind, draft.single()) {
        (Kind::Create, _) => Ok(Some(Policy::default())),
        (_, Some(only)) => Ok(Some(deployments::existing(state, only).await?.deployment.policy)),
        _ => Ok(None),
    }
}

/// The submitted policies, by API name, without those that are already set; empty leaves a policy unchanged.
pub fn read<'a>(word: impl Fn(&str) -> &'a str, present: Option<Policy>) -> AppResult<PolicyPatch> {
    let drift = one("drift", word("drift"), present.map(|policy| policy.drift))?;
    let on_failure = one("onFailure", word("onFailure"), present.map(|policy| policy.on_failure))?;
    let on_removal = one("onRemoval", word("onRemoval"), present.map(|policy| policy.on_removal))?;
    Ok(PolicyPatch {
        drift: drift.map(Into::into),
        on_failure: on_failure.map(Into::into),
        on_removal: on_removal.map(Into::into),
    })
}

fn one<T: std::str::FromStr<Err = UnknownValue> + PartialEq>(
    field: &str,
    word: &str,
    present: Option<T>,
) -> AppResult<Option<T>> {
    if word.is_empty() {
        return Ok(None);
    }
    let requested = word.parse().map_err(|error: UnknownValue| AppError::invalid(field, error.to_string()))?;
    Ok(Some(requested).filter(|requested| present.as_ref() != Some(requested)))
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
    fn reads_only_policies_that_differ() {
        let held = Policy { on_failure: OnFailure::Stop, ..Policy::default() };
        let patch = read(words("report", "stop"), Some(held)).unwrap();
        assert_eq!(patch, PolicyPatch { drift: Some(wire::Drift::Report), ..PolicyPatch::default() });
        assert!(read(words("correct", "keep-partial"), Some(Policy::default())).unwrap().is_empty());
        // The current policies of several deployments are unknown: submitted values are always set.
        let patch = read(words("correct", ""), None).unwrap();
        assert_eq!(patch, PolicyPatch { drift: Some(wire::Drift::Correct), ..PolicyPatch::default() });
    }

    #[test]
    fn rejects_an_unknown_value_and_lists_the_valid_ones() {
        let error = read(words("", "panic"), None).unwrap_err();
        let AppError::Refused { errors, .. } = error else { panic!("{error:?}") };
        assert_eq!(errors[0].field, "onFailure");
        assert_eq!(errors[0].message, "`panic` is not one of keep-partial, rollback, stop");
    }

    #[test]
    fn all_policy_options_have_distinct_texts() {
        let described =
            |all: Vec<PolicyOption>| all.iter().map(|one| one.text).collect::<std::collections::HashSet<_>>().len();
        assert_eq!(described(Drift::ALL.iter().copied().map(PolicyOption::from).collect()), 3);
        assert_eq!(described(OnFailure::ALL.iter().copied().map(PolicyOption::from).collect()), 3);
        assert_eq!(described(OnRemoval::ALL.iter().copied().map(PolicyOption::from).collect()), 2);
    }
}

//! A rollout in terms of parameters: which values change and how, for people. The documents contain the exact
//! difference.

use super::plan::{PlannedTarget, Request};
use crate::app::compose::composed_values;
use crate::app::mask::{Sensitive, is_nothing};
use crate::app::{policies, value_format};
use margo::description::ApplicationDescription;
use margrave_core::policy::Policy;
use serde_json::Value;

/// One value or policy, and its change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedValue {
    /// The name of the parameter, from the application.
    pub label: String,
    /// `None` for a new deployment or a new parameter.
    pub before: Option<String>,
    pub after: String,
}

/// All values of a new deployment, or the changed values and policies of an existing deployment.
pub(super) fn answered(request: &Request, planned: &PlannedTarget) -> Vec<ChangedValue> {
    let Some(description) = &planned.to else { return Vec::new() };
    let profile = &planned.target.profile;
    let Ok(values) = composed_values(description, profile, &request.values, planned.before()) else {
        return Vec::new();
    };
    let sensitive = planned.sensitive();
    let present = planned.present.as_ref();
    let mut changed = Vec::new();
    for (parameter, label) in labels(description) {
        let Some(after) = values.get(parameter) else { continue };
        let before = present.and_then(|present| present.values.get(parameter));
        if present.is_some() && before == Some(after) {
            continue;
        }
        let after = match word(&sensitive, parameter, after) {
            // Both are hidden, but the change must be visible.
            hidden if hidden == HIDDEN && before.is_some_and(|before| !is_nothing(before)) => {
                "another hidden value".to_owned()
            }
            shown => shown,
        };
        let before = before.map(|before| word(&sensitive, parameter, before));
        changed.push(ChangedValue { label: label.to_owned(), before, after });
    }
    changed.extend(present.into_iter().flat_map(|present| changed_policies(request, present.policy)));
    changed
}

/// The policies that the rollout replaces.
fn changed_policies(request: &Request, before: Policy) -> impl Iterator<Item = ChangedValue> {
    let after = policies::shown(request.policy.over(before));
    policies::shown(before).into_iter().zip(after).filter(|(before, after)| before != after).map(
        |((name, before), (_, after))| ChangedValue {
            label: format!("Policy {name}"),
            before: Some(before.to_owned()),
            after: after.to_owned(),
        },
    )
}

const HIDDEN: &str = "set, hidden";

fn word(sensitive: &Sensitive, parameter: &str, value: &Value) -> String {
    if sensitive.has(parameter) && !is_nothing(value) {
        return HIDDEN.to_owned();
    }
    value_format::answer(value)
}

/// Parameters with their names, each once and in order.
fn labels(description: &ApplicationDescription) -> Vec<(&str, &str)> {
    let sections = description.configuration.iter().flat_map(|configuration| &configuration.sections);
    let mut found: Vec<(&str, &str)> = Vec::new();
    for setting in sections.flat_map(|section| &section.settings) {
        if !found.iter().any(|(known, _)| *known == setting.parameter) {
            found.push((&setting.parameter, &setting.name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn formats_values_and_masks_secrets() {
        let sensitive = Sensitive::Some(vec!["password".to_owned()]);
        for (parameter, value, changed) in [
            ("name", json!("Press 7"), "Press 7"),
            ("rate", json!(7), "7"),
            ("rejects", json!(true), "yes"),
            ("bearings", json!(["fan", "gearbox"]), "fan, gearbox"),
            ("name", json!(""), "not set"),
            ("password", json!("hunter2"), HIDDEN),
            ("password", json!(""), "not set"),
        ] {
            assert_eq!(word(&sensitive, parameter, &value), changed);
        }
    }
}

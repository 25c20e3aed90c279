//! Compatibility of an application version with every device: compatible, incompatible or unknown, with the reason per
//! rule.

use super::applications::{application_id, described};
use super::devices::{self, KeyText};
use super::error::AppResult;
use super::paging::{Paging, page};
use crate::state::ServerState;
use indexmap::IndexMap;
use margo::constraints::{Outcome, Reason};
use margo::description::ApplicationDescription;
use margrave_api::applications as wire;
use margrave_api::devices::DeviceName;
use margrave_api::page::Page;
use margrave_core::model::Device;
use margrave_core::placement::{Placement, place_with_reasons};
use margrave_store::DeviceFilter;

pub async fn list(
    state: &ServerState,
    id: &str,
    version: &str,
    selector: Option<&str>,
    paging: &Paging,
) -> AppResult<Page<wire::DeviceCompatibility>> {
    let (_, description) = described(state, &application_id(id)?, version).await?;
    let filter = DeviceFilter { client: None, selector: devices::selector(selector)? };
    let limit = paging.limit()?;
    let after = paging.after::<KeyText>()?;
    let rows = state.store.devices_page(&filter, after.as_ref().map(|key| &key.0), limit + 1).await?;
    let key = |device: &Device| KeyText(device.key.clone()).to_string();
    Ok(page(rows, limit, key, |device| evaluate(&description, &device, None)))
}

/// Stands for a rule where a device has not reported its capabilities, or they cannot be read.
pub const NO_CAPABILITIES: &str = "no-capabilities";

/// The rules that decide that a device is not certainly compatible.
pub fn deciding_rules(evaluated: &wire::DeviceCompatibility) -> impl Iterator<Item = &str> {
    let unreported = evaluated.profiles.is_empty().then_some(NO_CAPABILITIES);
    let certain = evaluated.outcome == wire::Compatibility::Compatible;
    let reasons = evaluated
        .profiles
        .iter()
        .filter(move |_| !certain)
        .flat_map(|profile| profile.reasons.iter().filter(|reason| reason.outcome == profile.outcome));
    unreported.into_iter().chain(reasons.map(|reason| reason.rule.as_str()))
}

/// With `requested` only that profile counts.
pub(crate) fn evaluate(
    description: &ApplicationDescription,
    device: &Device,
    requested: Option<&str>,
) -> wire::DeviceCompatibility {
    let reference = DeviceName { client: device.key.client.to_string(), device: device.key.device.to_string() };
    let Some(capabilities) = devices::capabilities(device) else {
        return wire::DeviceCompatibility {
            device: reference,
            outcome: wire::Compatibility::Unknown,
            profile: None,
            profiles: Vec::new(),
        };
    };
    let Placement { outcome, profile, profiles } = place_with_reasons(description, &capabilities.document, requested);
    let profiles = profiles
        .into_iter()
        .map(|evaluated| wire::ProfileCompatibility {
            profile: evaluated.profile,
            profile_type: evaluated.profile_type.as_str().to_owned(),
            outcome: outcome_to_wire(evaluated.compatibility.outcome),
            reasons: evaluated
                .compatibility
                .reasons
                .iter()
                .map(|reason| to_wire(reason, &device.operator_labels))
                .collect(),
        })
        .collect();
    wire::DeviceCompatibility { device: reference, outcome: outcome_to_wire(outcome), profile, profiles }
}

fn to_wire(reason: &Reason, operator_labels: &IndexMap<String, String>) -> wire::CompatibilityReason {
    let message = reason_text(reason, operator_labels);
    wire::CompatibilityReason { rule: reason.rule.clone(), outcome: outcome_to_wire(reason.outcome), message }
}

/// The reason, and a note when an operator label of the same name does not help.
pub(crate) fn reason_text(reason: &Reason, operator_labels: &IndexMap<String, String>) -> String {
    let missing = reason.label.as_ref().filter(|_| reason.outcome == Outcome::No);
    match missing.and_then(|label| operator_labels.get_key_value(label)) {
        Some((name, value)) => format!(
            "{} (the operator's label `{name}={value}` does not count here: only labels reported by the device do)",
            reason.message
        ),
        None => reason.message.clone(),
    }
}

fn outcome_to_wire(outcome: Outcome) -> wire::Compatibility {
    match outcome {
        Outcome::Yes => wire::Compatibility::Compatible,
        Outcome::No => wire::Compatibility::Incompatible,
        Outcome::Unknown => wire::Compatibility::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_an_operator_label_that_does_not_count() {
        let labels: IndexMap<String, String> = [("line".to_owned(), "7".to_owned())].into_iter().collect();
        let reason = |label: &str, outcome| Reason {
            rule: "eligibilityRules[0]".to_owned(),
            outcome,
            message: "needs it".to_owned(),
            label: Some(label.to_owned()),
        };
        assert_eq!(
            reason_text(&reason("line", Outcome::No), &labels),
            "needs it (the operator's label `line=7` does not count here: only labels reported by the device do)"
        );
        assert_eq!(reason_text(&reason("line", Outcome::Yes), &labels), "needs it");
        assert_eq!(reason_text(&reason("hall", Outcome::No), &labels), "needs it");
    }
}

//! Devices: the list, a single device, approval and decommissioning.

pub(super) mod add;
pub(super) mod client;
pub(super) mod detail;
pub(super) mod filter;
mod delete_record;
mod label;
pub(super) mod list;

use crate::app::fleet::{Listed, PlacedDeployment, Running};
use crate::app::value_format::plain;
use crate::ui::markup::{self, Markup};
use crate::ui::routes::query::device_link;
use crate::ui::words;
use indexmap::IndexMap;
use margrave_api::clients::ClientState;
use margrave_api::deployments::DeploymentState;
use std::collections::HashMap;

/// A device as a row.
pub(super) struct Row {
    pub(super) listed: Listed,
    pub(super) state: Markup,
    pub(super) link: String,
    pub(super) site: Option<String>,
    /// Vendor and model, if reported.
    pub(super) kind: Option<String>,
    /// Desired applications, each with its state; failed ones first.
    pub(super) placed: Vec<Markup>,
    /// The applications after the first one, as text.
    pub(super) placed_more: Vec<String>,
    pub(super) running: Running,
    pub(super) labels: Vec<Label>,
}

/// A label, set by an operator or reported by the device.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) text: String,
    pub(super) own: bool,
    /// Its origin, if operator and device have different values for this name.
    pub(super) whose: Option<&'static str>,
}

impl Row {
    /// Labels without the site, which has a column of its own.
    pub(super) fn other_labels(&self) -> Vec<&Label> {
        let site = self.site.as_ref().map(|site| format!("site={site}"));
        self.labels.iter().filter(|label| label.whose.is_some() || Some(&label.text) != site.as_ref()).collect()
    }

    /// How many of the desired applications the device reports as running; `None` without desired applications.
    pub(super) fn runs(&self) -> Option<String> {
        let Running { desired, running, .. } = self.running;
        (desired > 0).then(|| format!("{running}/{desired} running"))
    }

    /// What the device reports about the desired applications, by state.
    pub(super) fn reported(&self) -> Vec<Markup> {
        let Running { running, failed, in_progress, unreported, .. } = self.running;
        let kinds = [
            (running, "installed", "good", "check", "running"),
            (in_progress, "installing", "busy", "turning", "in progress"),
            (failed, "failed", "bad", "cross", "failed"),
            (unreported, "unknown", "idle", "clock", "not reported yet"),
        ];
        let present = kinds.into_iter().filter(|(count, ..)| *count > 0);
        present
            .map(|(count, key, tone, symbol, words)| markup::state(key, tone, symbol, &format!("{count} {words}")))
            .collect()
    }
}

pub(super) fn row(mut listed: Listed, names: &HashMap<String, String>) -> Row {
    listed.placed.sort_by_key(|placed| placed.deployment_state != DeploymentState::Failed);
    let device = &listed.device;
    let labels = labels(&device.operator_labels, &device.device_labels);
    let site = device.operator_labels.get("site").cloned().or_else(|| device.device_labels.get("site").map(plain));
    Row {
        state: if listed.waiting {
            client_state(ClientState::Pending)
        } else {
            words::device_state(listed.device.state)
        },
        link: device_link(&device.client, &device.device),
        site,
        kind: device.made_by(),
        placed: listed.placed.iter().map(|placed| chip(placed, names)).collect(),
        placed_more: listed.placed.iter().skip(1).map(|placed| chip_text(placed, names)).collect(),
        running: Running::of(&listed.placed),
        labels,
        listed,
    }
}

/// Labels from both sides. Equal labels are shown once; different values show their origin.
pub(super) fn labels(own: &IndexMap<String, String>, reported: &IndexMap<String, serde_json::Value>) -> Vec<Label> {
    let differs = |name: &String| {
        let value = reported.get(name).map(plain);
        own.get(name).zip(value).is_some_and(|(own, value)| *own != value)
    };
    let mut labels: Vec<Label> = own
        .iter()
        .map(|(name, value)| Label {
            text: format!("{name}={value}"),
            own: true,
            whose: differs(name).then_some("by an operator"),
        })
        .collect();
    labels.extend(reported.iter().filter(|(name, _)| !own.contains_key(*name) || differs(name)).map(
        |(name, value)| {
            let whose = differs(name).then_some("by the device");
            Label { text: format!("{name}={}", plain(value)), own: false, whose }
        },
    ));
    labels
}

/// The state of a client, with the label that all pages use.
pub(super) fn client_state(state: ClientState) -> Markup {
    let (tone, symbol, word) = match state {
        ClientState::Pending => ("warn", "clock", "Pending approval"),
        ClientState::Accepted => ("good", "check", "Accepted"),
        ClientState::Rejected => ("mute", "lock", "Rejected"),
        ClientState::Decommissioned => ("mute", "lock", "Decommissioned"),
    };
    markup::state(state.as_str(), tone, symbol, word)
}

/// The same as [`chip`], as text.
fn chip_text(placed: &PlacedDeployment, names: &HashMap<String, String>) -> String {
    let name = names.get(&placed.application).unwrap_or(&placed.application);
    let style = words::deployment_state_badge(placed.deployment_state);
    format!("{name} {}, {}", placed.version, style.word)
}

/// A desired application, with its state.
fn chip(placed: &PlacedDeployment, names: &HashMap<String, String>) -> Markup {
    let name = names.get(&placed.application).unwrap_or(&placed.application);
    let style = words::deployment_state_badge(placed.deployment_state);
    Markup::trusted(format!(
        "<a class=\"chip tone-{}\" data-state=\"{}\" href=\"/deployments/{}\" title=\"{}\">{}{} {}<span class=\"unseen\">, {}</span></a>",
        style.tone,
        style.key,
        markup::escape(&placed.id),
        markup::escape(style.word),
        markup::icon(style.symbol),
        markup::escape(name),
        markup::escape(&placed.version),
        markup::escape(style.word)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn different_values_of_a_label_show_their_origin() {
        let own = IndexMap::from([("line".to_owned(), "7".to_owned()), ("site".to_owned(), "graz".to_owned())]);
        let reported = IndexMap::from([("line".to_owned(), json!(7)), ("site".to_owned(), json!("nord"))]);
        let shown: Vec<_> = labels(&own, &reported).into_iter().map(|one| (one.text, one.whose)).collect();
        let expected = [("line=7", None), ("site=graz", Some("by an operator")), ("site=nord", Some("by the device"))];
        assert_eq!(shown, expected.map(|(text, whose)| (text.to_owned(), whose)));
    }
}

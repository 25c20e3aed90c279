//! Devices: the list, one of them, letting them in and out.

pub(super) mod add;
pub(super) mod client;
pub(super) mod detail;
pub(super) mod list;

use crate::app::fleet::{Listed, Placed};
use crate::ui::markup::{self, Markup};
use crate::ui::routes::query::device_link;
use crate::ui::words;
use std::collections::HashMap;

/// A device as a row.
pub(super) struct Row {
    pub(super) listed: Listed,
    pub(super) state: Markup,
    pub(super) link: String,
    pub(super) site: Option<String>,
    /// Vendor and model, where the device knows them.
    pub(super) kind: Option<String>,
    pub(super) placed: Vec<Markup>,
    pub(super) labels: Vec<Label>,
}

/// One label, of the operator or of the device itself.
pub(super) struct Label {
    pub(super) text: String,
    pub(super) own: bool,
}

pub(super) fn row(listed: Listed, names: &HashMap<String, String>) -> Row {
    let device = &listed.device;
    let mut labels: Vec<Label> = device
        .operator_labels
        .iter()
        .map(|(name, value)| Label { text: format!("{name}={value}"), own: true })
        .collect();
    labels.extend(
        device.device_labels.iter().map(|(name, value)| Label { text: format!("{name}={}", plain(value)), own: false }),
    );
    let site = device.operator_labels.get("site").cloned().or_else(|| device.device_labels.get("site").map(plain));
    Row {
        state: words::device_state(listed.state),
        link: device_link(&device.client, &device.device),
        site,
        kind: device.made_by(),
        placed: listed.placed.iter().map(|placed| chip(placed, names)).collect(),
        labels,
        listed,
    }
}

/// What runs, with how it does.
fn chip(placed: &Placed, names: &HashMap<String, String>) -> Markup {
    let name = names.get(&placed.application).unwrap_or(&placed.application);
    let look = words::of_convergence(placed.convergence, placed.removing);
    Markup::trusted(format!(
        "<a class=\"chip tone-{}\" href=\"/deployments/{}\" title=\"{}\">{}{} {}<span class=\"unseen\">, {}</span></a>",
        look.tone,
        markup::escape(&placed.id),
        markup::escape(look.word),
        markup::icon(look.symbol),
        markup::escape(name),
        markup::escape(&placed.version),
        markup::escape(look.word)
    ))
}

pub(super) fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

//! Devices: the list, one of them, letting them in and out.

pub(super) mod add;
pub(super) mod client;
pub(super) mod detail;
pub(super) mod filter;
mod forget;
mod label;
pub(super) mod list;

use crate::app::fleet::{Listed, Placed, Running};
use crate::app::shown::plain;
use crate::ui::markup::{self, Markup};
use crate::ui::routes::query::device_link;
use crate::ui::words;
use indexmap::IndexMap;
use margrave_api::clients::ClientState;
use std::collections::HashMap;

/// A device as a row.
pub(super) struct Row {
    pub(super) listed: Listed,
    pub(super) state: Markup,
    pub(super) link: String,
    pub(super) site: Option<String>,
    /// Vendor and model, where the device knows them.
    pub(super) kind: Option<String>,
    /// What should run, each with how it does.
    pub(super) placed: Vec<Markup>,
    pub(super) running: Running,
    pub(super) labels: Vec<Label>,
}

/// One label, of the operator or of the device itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) text: String,
    pub(super) own: bool,
    /// Whose it is, where both sides have one of this name and they differ.
    pub(super) whose: Option<&'static str>,
}

impl Row {
    /// How much of what should run the device says it runs; none where nothing should.
    pub(super) fn runs(&self) -> Option<String> {
        let Running { wanted, running, .. } = self.running;
        match (wanted, running) {
            (0, _) => None,
            (wanted, running) if wanted == running => Some("reported running".to_owned()),
            (1, _) => Some("not reported running".to_owned()),
            (wanted, running) => Some(format!("{running} of {wanted} reported running")),
        }
    }

    /// What the device says of what should run, kind by kind.
    pub(super) fn reported(&self) -> Vec<Markup> {
        let Running { running, failed, under_way, unheard, .. } = self.running;
        let kinds = [
            (running, "good", "check", "reported running"),
            (under_way, "busy", "turning", "reported under way"),
            (failed, "bad", "cross", "reported failed"),
            (unheard, "idle", "clock", "unknown: nothing reported yet"),
        ];
        let said = kinds.into_iter().filter(|(count, ..)| *count > 0);
        said.map(|(count, tone, symbol, words)| markup::state(tone, symbol, &format!("{count} {words}"))).collect()
    }
}

pub(super) fn row(listed: Listed, names: &HashMap<String, String>) -> Row {
    let device = &listed.device;
    let labels = labels(&device.operator_labels, &device.device_labels);
    let site = device.operator_labels.get("site").cloned().or_else(|| device.device_labels.get("site").map(plain));
    Row {
        state: if listed.waiting { client_state(ClientState::Pending) } else { words::device_state(listed.state) },
        link: device_link(&device.client, &device.device),
        site,
        kind: device.made_by(),
        placed: listed.placed.iter().map(|placed| chip(placed, names)).collect(),
        running: Running::of(&listed.placed),
        labels,
        listed,
    }
}

/// Labels of both sides. The same from both stands once; where they differ, each says whose it is.
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

/// How a client stands, in the words every page uses.
pub(super) fn client_state(state: ClientState) -> Markup {
    let (tone, symbol, word) = match state {
        ClientState::Pending => ("warn", "clock", "Waiting to be accepted"),
        ClientState::Accepted => ("good", "check", "Accepted"),
        ClientState::Retired => ("mute", "lock", "Retired"),
    };
    markup::state(tone, symbol, word)
}

/// What should run, with how it does.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_two_labels_that_differ_each_says_whose_it_is() {
        let own = IndexMap::from([("line".to_owned(), "7".to_owned()), ("site".to_owned(), "graz".to_owned())]);
        let reported = IndexMap::from([("line".to_owned(), json!(7)), ("site".to_owned(), json!("nord"))]);
        let shown: Vec<_> = labels(&own, &reported).into_iter().map(|one| (one.text, one.whose)).collect();
        let expected = [("line=7", None), ("site=graz", Some("by an operator")), ("site=nord", Some("by the device"))];
        assert_eq!(shown, expected.map(|(text, whose)| (text.to_owned(), whose)));
    }
}

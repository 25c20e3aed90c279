//! The device filter, with the same fields on all pages.

use crate::app::error::AppResult;
use crate::app::fleet::{self, Search};
use crate::app::groups;
use crate::app::paging::Paging;
use crate::state::ServerState;
use crate::ui::routes::query::link;
use margrave_core::model::DeviceState;

/// Groups offered in the filter.
const GROUPS_MAX: u32 = 500;

/// The values of the fields.
#[derive(Default, Clone)]
pub(in crate::ui::routes) struct Filter {
    pub(in crate::ui::routes) text: String,
    pub(in crate::ui::routes) labels: String,
    pub(in crate::ui::routes) site: String,
    pub(in crate::ui::routes) group: String,
    pub(in crate::ui::routes) state: String,
}

impl Filter {
    pub(in crate::ui::routes) fn of(read: impl Fn(&str) -> String) -> Self {
        let state = DeviceState::parse(&read("state")).map_or_else(String::new, |state| state.as_str().to_owned());
        Self { text: read("q"), labels: read("labels"), site: read("site"), group: read("group"), state }
    }

    pub(in crate::ui::routes) fn search(&self) -> Search {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Search {
            text: some(&self.text),
            labels: some(&self.labels),
            site: some(&self.site),
            group: some(&self.group),
            state: DeviceState::parse(&self.state),
        }
    }

    /// The values of the fields, by their names in an address.
    pub(in crate::ui::routes) fn members(&self) -> Vec<(&'static str, &str)> {
        let mut members = vec![
            ("q", self.text.as_str()),
            ("labels", &self.labels),
            ("site", &self.site),
            ("group", &self.group),
            ("state", &self.state),
        ];
        members.retain(|(_, value)| !value.is_empty());
        members
    }

    /// The same filter in an order, on the page after `after`.
    pub(in crate::ui::routes) fn link(&self, path: &str, sort: &str, after: &str) -> String {
        let mut members = self.members();
        members.extend([("sort", sort), ("after", after)]);
        link(path, &members)
    }
}

/// The options of the filter.
pub(in crate::ui::routes) struct Offers {
    pub(in crate::ui::routes) sites: Vec<String>,
    pub(in crate::ui::routes) groups: Vec<String>,
    pub(in crate::ui::routes) states: &'static [(&'static str, &'static str)],
}

/// Blocked devices come last.
const STATES: [(&str, &str); 6] = [
    ("failed", "Failed"),
    ("degraded", "Degraded"),
    ("offline", "Offline"),
    ("updating", "Updating"),
    ("online", "Online"),
    ("blocked", "Blocked"),
];

impl Offers {
    /// `all`: also devices that cannot get deployments.
    pub(in crate::ui::routes) async fn read(state: &ServerState, all: bool) -> AppResult<Self> {
        let names = groups::list(state, &Paging { limit: Some(GROUPS_MAX), after: None }).await?;
        Ok(Self {
            sites: fleet::sites(state).await?,
            groups: names.items.into_iter().map(|group| group.name).collect(),
            states: if all { &STATES } else { &STATES[..STATES.len() - 1] },
        })
    }
}

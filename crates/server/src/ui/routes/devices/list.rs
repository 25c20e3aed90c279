//! All devices, a page at a time, filtered by what stands in the address.

use super::{Row, row};
use crate::app::clients::Invitation;
use crate::app::fleet::{self, Search};
use crate::app::paging::Paging;
use crate::app::{clients, groups, overview};
use crate::ui::errors::UiError;
use crate::ui::markup::Markup;
use crate::ui::routes::query::{Asked, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::clients::{Client, ClientState};
use margrave_core::model::DeviceState;

/// Groups offered in the filter.
const GROUPS_MAX: u32 = 500;
/// Clients that wait and are named; the page of clients has them all.
const WAITING_MAX: u32 = 5;
/// Invited devices that are named.
const INVITED_MAX: usize = 10;

#[derive(Template)]
#[template(path = "devices/list.html", blocks = ["live", "nav"])]
struct ListPage {
    shell: Shell,
    text: String,
    labels: String,
    site: String,
    group: String,
    state: String,
    sites: Vec<String>,
    groups: Vec<String>,
    tiles: Vec<Tile>,
    /// Of all states together.
    total: u64,
    all_link: String,
    matching: u64,
    rows: Vec<Row>,
    next: Option<String>,
    first: Option<String>,
    /// Why the filter cannot be used.
    wrong: Option<String>,
    filtered: bool,
    known: u64,
    /// Some who ask and are not let in yet.
    waiting: Vec<Client>,
    /// Who is invited and has not come, when there is nobody else to show.
    invited: Vec<String>,
}
pages!(ListPage);

/// Names in the invitations that are open.
pub(in crate::ui::routes) async fn invited(visit: &Visit) -> Result<Vec<String>, UiError> {
    let all = clients::invitations(&visit.state).await?;
    let mut names: Vec<String> = all.items.into_iter().filter(Invitation::is_open).map(|one| one.client).collect();
    names.dedup();
    names.truncate(INVITED_MAX);
    Ok(names)
}

struct Tile {
    count: u64,
    state: Markup,
    tone: &'static str,
    link: String,
    chosen: bool,
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    let state = &visit.state;
    let search = Search {
        text: asked.get("q"),
        labels: asked.get("labels"),
        site: asked.get("site"),
        group: asked.get("group"),
        state: asked.get("state").and_then(|word| DeviceState::parse(&word)),
    };
    let overview = overview::get(state).await?;
    let known: u64 = overview.devices.values().sum();
    let found = fleet::list(state, &search, &asked.paging()).await;
    // A selector that is being typed is often wrong for a moment; the page stays and says why.
    let (page, wrong) = match found {
        Ok(page) => (page, None),
        Err(crate::app::error::AppError::Refused { detail, .. }) => {
            (crate::app::paging::whole(Vec::new()), Some(detail))
        }
        Err(other) => return Err(other.into()),
    };
    let counts =
        if wrong.is_none() { fleet::counted(state, &search).await? } else { std::collections::BTreeMap::new() };
    let at = |state_word: &str, after: &str| {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (q, labels, site, group) =
            (text(&search.text), text(&search.labels), text(&search.site), text(&search.group));
        let members = [
            ("q", q.as_str()),
            ("labels", &labels),
            ("site", &site),
            ("group", &group),
            ("state", state_word),
            ("after", after),
        ];
        link("/devices", &members)
    };
    let chosen = search.state.map_or("", DeviceState::as_str);
    let tiles = DeviceState::ALL
        .into_iter()
        .map(|one| Tile {
            count: counts.get(&one).copied().unwrap_or_default(),
            state: words::device_state(one),
            tone: words::of_device(one).tone,
            link: at(if search.state == Some(one) { "" } else { one.as_str() }, ""),
            chosen: search.state == Some(one),
        })
        .filter(|tile| tile.count > 0 || tile.chosen)
        .collect();
    let total = counts.values().sum();
    let matching = search.state.map_or(total, |one| counts.get(&one).copied().unwrap_or_default());
    let names = groups::list(state, &Paging { limit: Some(GROUPS_MAX), after: None }).await?;
    let few = Paging { limit: Some(WAITING_MAX), after: None };
    let waiting = clients::list_in(state, Some(ClientState::Pending), &few).await?;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let shell = visit.shell(Section::Devices, format!("{} - Devices", words::count(matching, "device"))).await?;
    let listing = ListPage {
        text: text(&search.text),
        labels: text(&search.labels),
        site: text(&search.site),
        group: text(&search.group),
        state: chosen.to_owned(),
        sites: fleet::sites(state).await?,
        groups: names.items.into_iter().map(|group| group.name).collect(),
        tiles,
        total,
        all_link: at("", ""),
        matching,
        rows: page.items.into_iter().map(|listed| row(listed, &overview.names)).collect(),
        next: page.next.map(|next| at(chosen, &next)),
        first: asked.get("after").map(|_| at(chosen, "")),
        wrong,
        filtered: !search.is_everything(),
        known,
        waiting: waiting.items,
        invited: if known == 0 { invited(&visit).await? } else { Vec::new() },
        shell,
    };
    visit.show(&listing)
}

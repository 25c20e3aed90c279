//! The device list, paged, with the filter in the address.

use super::filter::{Filter, Offers};
use super::{Row, row};
use crate::app::clients::EnrollmentToken;
use crate::app::fleet;
use crate::app::paging::{Listing, Paging};
use crate::app::sorting::Order;
use crate::app::{clients, overview};
use crate::ui::errors::UiError;
use crate::ui::routes::heads::Heads;
use crate::ui::routes::query::Params;
use crate::ui::routes::tiles::Tile;
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::clients::{Client, ClientState};
use margrave_core::model::DeviceState;

/// Pending clients that are listed; the page of clients shows all of them.
const WAITING_MAX: u32 = 5;
/// Devices with an active enrollment token that are listed.
const INVITED_MAX: usize = 10;

#[derive(Template)]
#[template(path = "devices/list.html", blocks = ["live", "nav"])]
struct ListPage {
    shell: Shell,
    filter: Filter,
    heads: Heads,
    /// The devices are still being sorted.
    in_progress: bool,
    offers: Offers,
    tiles: Vec<Tile>,
    /// All states together.
    total: u64,
    all_link: String,
    matching: u64,
    rows: Vec<Row>,
    /// All devices on this page are simulated, so that is said once.
    simulated: bool,
    next: Option<String>,
    first: Option<String>,
    /// Why the filter cannot be used.
    wrong: Option<String>,
    filtered: bool,
    all_devices: u64,
    /// The first pending clients.
    waiting: Vec<Client>,
    /// The number of pending clients.
    waiting_all: u64,
    /// Devices with an active enrollment token, if there are no devices yet.
    awaiting_enrollment: Vec<String>,
}
pages!(ListPage);

/// Names in active enrollment tokens.
pub(in crate::ui::routes) async fn awaiting_enrollment(visit: &Visit) -> Result<Vec<String>, UiError> {
    let all = clients::enrollment_tokens(&visit.state).await?;
    let mut names: Vec<String> = all.items.into_iter().filter(EnrollmentToken::is_open).map(|one| one.client).collect();
    names.dedup();
    names.truncate(INVITED_MAX);
    Ok(names)
}

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    let state = &visit.state;
    let filter = Filter::of(|name| params.text(name));
    let search = filter.search();
    let overview = overview::get(state).await?;
    let all_devices: u64 = overview.devices.values().sum();
    let order = Order::of_page(&params.text("sort"));
    let sort = order.sort.map(|sort| sort.to_string()).unwrap_or_default();
    let found = fleet::list(state, &search, order, &params.paging()).await;
    // A selector is often invalid while it is being typed; the page stays and shows why.
    let (page, wrong) = match found {
        Ok(page) => (page, None),
        Err(crate::app::error::AppError::Refused { detail, .. }) => (Listing::default(), Some(detail)),
        Err(other) => return Err(other.into()),
    };
    let counts =
        if wrong.is_none() { fleet::counted(state, &search).await? } else { std::collections::BTreeMap::new() };
    let at =
        |state: &str, after: &str| Filter { state: state.to_owned(), ..filter.clone() }.link("/devices", &sort, after);
    let chosen = filter.state.as_str();
    let tiles = DeviceState::ALL
        .into_iter()
        .map(|one| {
            let chosen = search.state == Some(one);
            let link = at(if chosen { "" } else { one.as_str() }, "");
            Tile::new(counts.get(&one).copied().unwrap_or_default(), words::device_badge(one.into()), link, chosen)
        })
        .filter(Tile::is_shown)
        .collect();
    let total = counts.values().sum();
    let matching = search.state.map_or(total, |one| counts.get(&one).copied().unwrap_or_default());
    let few = Paging { limit: Some(WAITING_MAX), after: None };
    let waiting = clients::list_in(state, Some(ClientState::Pending), &few).await?;
    let shell = visit.shell(Section::Devices, format!("{} - Devices", words::count(matching, "device"))).await?;
    let rows: Vec<Row> = page.items.into_iter().map(|listed| row(listed, &overview.names)).collect();
    let listing = ListPage {
        offers: Offers::read(state, true).await?,
        tiles,
        total,
        all_link: at("", ""),
        matching,
        simulated: !rows.is_empty() && rows.iter().all(|row| row.listed.device.simulated),
        rows,
        next: page.next.map(|next| at(chosen, &next)),
        first: params.get("after").map(|_| at(chosen, "")),
        wrong,
        filtered: !search.is_everything(),
        heads: Heads::new("/devices", &filter.members(), &sort),
        in_progress: page.in_progress,
        filter: filter.clone(),
        all_devices,
        waiting_all: if waiting.next.is_some() { shell.pending } else { waiting.items.len() as u64 },
        waiting: waiting.items,
        awaiting_enrollment: if all_devices == 0 { awaiting_enrollment(&visit).await? } else { Vec::new() },
        shell,
    };
    visit.show(&listing)
}

//! All deployments, page by page; failed deployments first.

use crate::app::by_location::{self, Part};
use crate::app::deployments::{self, Query};
use crate::app::error::{AppError, AppResult};
use crate::app::fleet::{self, Search};
use crate::app::overview;
use crate::app::paging::{Listing, Paging};
use crate::app::sorting::Order;
use crate::state::ServerState;
use crate::ui::markup::Markup;
use crate::ui::routes::heads::Heads;
use crate::ui::routes::query::{Params, device_link, link};
use crate::ui::routes::tiles::Tile;
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::deployments::{Deployment, DeploymentState, Desired, StatusError};
use margrave_core::sort::DeploymentColumn;
use std::collections::{HashMap, HashSet};

#[derive(Template)]
#[template(path = "deployments/list.html", blocks = ["live", "nav"])]
struct ListPage {
    shell: Shell,
    heads: Heads,
    /// The operator chose the order.
    sorted: bool,
    /// The deployments are still being sorted.
    in_progress: bool,
    rows: Vec<Row>,
    /// All deployments on this page are simulated, so that is said once.
    simulated: bool,
    tiles: Vec<Tile>,
    total: u64,
    state: String,
    application: String,
    version: String,
    applications: Vec<(String, String)>,
    device: String,
    site: String,
    sites: Vec<String>,
    /// Number of matching deployments, if known without counting.
    matching: Option<u64>,
    next: Option<String>,
    first: Option<String>,
    wrong: Option<String>,
}
pages!(ListPage);

/// A deployment as a row.
pub(in crate::ui::routes) struct Row {
    pub(in crate::ui::routes) name: String,
    pub(in crate::ui::routes) state: Markup,
    /// Its removal is not complete.
    pub(in crate::ui::routes) removing: bool,
    pub(in crate::ui::routes) device_link: String,
    pub(in crate::ui::routes) error: Option<String>,
    pub(in crate::ui::routes) components: Vec<(String, Markup)>,
    pub(in crate::ui::routes) deployment: Deployment,
}

pub(in crate::ui::routes) fn row(deployment: Deployment, names: &HashMap<String, String>) -> Row {
    let mut errors = deployment.said_wrong().into_iter().flat_map(|status| {
        status.components.iter().filter_map(|component| component.error.as_ref()).chain(status.error.as_ref())
    });
    let components = deployment.reported.iter().flat_map(|status| &status.components);
    Row {
        name: names.get(&deployment.application).unwrap_or(&deployment.application).clone(),
        state: words::deployment_state_badge(deployment.state).into(),
        removing: deployment.desired == Desired::Absent && !deployment.state.is_done(),
        device_link: device_link(&deployment.client, deployment.device.trim_end_matches("/*")),
        error: unexplained_error(&deployment.explanation, errors.next()),
        components: components.map(|component| (component.name.clone(), words::reported(&component.state))).collect(),
        deployment,
    }
}

/// Whether all of them are simulated.
pub(in crate::ui::routes) fn are_simulated(deployments: &[Deployment]) -> bool {
    !deployments.is_empty() && deployments.iter().all(|deployment| deployment.simulated)
}

/// The error, unless the sentence about the deployment already contains it.
pub(in crate::ui::routes) fn unexplained_error(sentence: &str, error: Option<&StatusError>) -> Option<String> {
    let error = error.filter(|error| !sentence.contains(&error.message))?;
    Some(format!("{} (code {})", error.message, error.code))
}

/// Removals listed first on the first page; a tile leads to all of them.
const REMOVING_FIRST_MAX: u32 = 10;

/// Deployments that are listed by device, after the failed ones, unless the operator sorts them otherwise: rows keep their
/// place while devices update. In a larger fleet they are in order of id: sorting reads all of them, and this page is open
/// all day.
pub(in crate::ui::routes) const BY_DEVICE_MAX: u64 = 10_000;

/// The first page without filters: failed deployments, removals, then the rest.
async fn beginning(
    state: &ServerState,
    query: &Query,
    order: Order<DeploymentColumn>,
    params: &Params,
) -> AppResult<Listing<Deployment>> {
    let mut page = deployments::list_in_order(state, query, None, order, &params.paging()).await?;
    let failed = Query { state: Some(DeploymentState::Failed), ..query.clone() };
    let mut first = deployments::list_in_order(state, &failed, None, order, &params.paging()).await?.items;
    let removing = Paging { limit: Some(REMOVING_FIRST_MAX), after: None };
    first.extend(deployments::removals(state, query, false, &removing).await?.items);
    page.items.retain(|deployment| deployment.state != DeploymentState::Failed);
    page.items.splice(0..0, first);
    let mut known = HashSet::new();
    page.items.retain(|deployment| known.insert(deployment.id.clone()));
    Ok(page)
}

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    let state = &visit.state;
    let overview = overview::get(state).await?;
    let word = params.text("state");
    let asked_state = DeploymentState::ALL.into_iter().find(|known| known.as_str() == word);
    // Removals have lists of their own, with those that failed or wait for an offline device.
    let part = match asked_state {
        Some(DeploymentState::Removing) => Part::Going,
        Some(DeploymentState::Removed) => Part::Gone,
        _ => Part::Present,
    };
    let deployment_state = asked_state.filter(|_| part == Part::Present);
    let query = Query {
        application: params.get("application"),
        version: params.get("version"),
        state: deployment_state,
        ..Query::default()
    };
    let search = Search { text: params.get("device"), site: params.get("site"), ..Search::default() };
    let counts = overview.counts(query.application.as_deref(), query.version.as_deref());
    let named = Order::of_page(&params.text("sort"));
    let by_device = counts.total() <= BY_DEVICE_MAX;
    let order = if named.sort.is_none() && by_device { Order::of_page("device") } else { named };
    let removals = part != Part::Present;
    let sort = order.sort.filter(|_| !removals).map(|sort| sort.to_string()).unwrap_or_default();
    let shown_sort = named.sort.map(|sort| sort.to_string()).unwrap_or_default();
    let found = match part {
        Part::Present if !search.is_everything() && order.sort.is_some() => {
            deployments::list_in_order(state, &query, Some(&search), order, &params.paging()).await
        }
        _ if !search.is_everything() => {
            by_location::list(state, &search, &query, part, &params.paging()).await.map(Into::into)
        }
        Part::Going | Part::Gone => {
            deployments::removals(state, &query, part == Part::Gone, &params.paging()).await.map(Into::into)
        }
        Part::Present if word.is_empty() && params.get("after").is_none() && named.sort.is_none() => {
            beginning(state, &query, order, &params).await
        }
        Part::Present => deployments::list_in_order(state, &query, None, order, &params.paging()).await,
    };
    let (page, wrong) = match found {
        Ok(page) => (page, None),
        Err(AppError::Refused { detail, .. }) => (Listing::default(), Some(detail)),
        Err(error) => return Err(error.into()),
    };
    let (application, version) = (params.text("application"), params.text("version"));
    let (device, site) = (params.text("device"), params.text("site"));
    let at = |state: &str, after: &str| {
        // The position after a page belongs to its order.
        let order = if after.is_empty() && named.sort.is_none() { "" } else { sort.as_str() };
        let members: [(&str, &str); 7] = [
            ("state", state),
            ("application", &application),
            ("version", &version),
            ("device", &device),
            ("site", &site),
            ("sort", order),
            ("after", after),
        ];
        link("/deployments", &members)
    };
    let filter = [
        ("state", word.as_str()),
        ("application", &application),
        ("version", &version),
        ("device", &device),
        ("site", &site),
    ];
    let heads = if removals { Heads::fixed() } else { Heads::new("/deployments", &filter, &shown_sort) };
    let everything = query.application.is_none();
    let mut tiles: Vec<Tile> = DeploymentState::ALL
        .into_iter()
        .filter(|one| !matches!(one, DeploymentState::Removing | DeploymentState::Removed))
        .map(|one| {
            let chosen = deployment_state == Some(one);
            let link = at(if chosen { "" } else { one.as_str() }, "");
            Tile::new(counts.of(one), words::deployment_state_badge(one), link, chosen)
        })
        .filter(Tile::is_shown)
        .collect();
    let removing = [
        (DeploymentState::Removing, overview.removing, everything),
        (DeploymentState::Removed, overview.removed, false),
    ];
    for (one, count, shown) in removing {
        let chosen = asked_state == Some(one);
        if (shown && count > 0) || chosen {
            let link = at(if chosen { "" } else { one.as_str() }, "");
            tiles.push(Tile::new(count, words::deployment_state_badge(one), link, chosen));
        }
    }
    let total = counts.total() + if everything { overview.removing } else { 0 };
    let here = page.items.len() as u64;
    let matching = match (search.is_everything(), part) {
        _ if params.get("after").is_none() && page.next.is_none() => Some(here),
        (false, _) => None,
        (true, Part::Going) => everything.then_some(overview.removing),
        (true, Part::Gone) => everything.then_some(overview.removed),
        (true, Part::Present) => Some(deployment_state.map_or(total, |one| counts.of(one))),
    };
    let listing = ListPage {
        sorted: named.sort.is_some(),
        in_progress: page.in_progress,
        shell: visit.shell(Section::Deployments, "Deployments").await?,
        // Counts may be some seconds old; the rows are not.
        matching: matching.map(|matching| matching.max(here)),
        sites: fleet::sites(state).await?,
        device: device.clone(),
        site: site.clone(),
        simulated: are_simulated(&page.items),
        rows: page.items.into_iter().map(|deployment| row(deployment, &overview.names)).collect(),
        tiles: if search.is_everything() { tiles } else { Vec::new() },
        total,
        next: page.next.map(|next| at(&word, &next)),
        first: params.get("after").map(|_| at(&word, "")),
        heads,
        state: word.clone(),
        application: application.clone(),
        version: version.clone(),
        applications: overview.applications(),
        wrong,
    };
    visit.show(&listing)
}

//! All deployments, a page at a time; what failed first.

use crate::app::deployments::{self, Query};
use crate::app::error::{AppError, AppResult};
use crate::app::overview;
use crate::app::paging::{Paging, whole};
use crate::state::ServerState;
use crate::ui::markup::{self, Markup};
use crate::ui::routes::query::{Asked, device_link, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::deployments::{Convergence, Deployment, Desired, StatusError};
use margrave_api::page::Page;
use margrave_api::summary::Counts;
use std::collections::{HashMap, HashSet};

#[derive(Template)]
#[template(path = "deployments/list.html", blocks = ["live", "nav"])]
struct ListPage {
    shell: Shell,
    rows: Vec<Row>,
    tiles: Vec<Tile>,
    total: u64,
    state: String,
    application: String,
    version: String,
    applications: Vec<(String, String)>,
    next: Option<String>,
    first: Option<String>,
    wrong: Option<String>,
}
pages!(ListPage);

struct Tile {
    count: u64,
    state: Markup,
    tone: &'static str,
    link: String,
    chosen: bool,
}

/// A deployment as a row.
pub(in crate::ui::routes) struct Row {
    pub(in crate::ui::routes) name: String,
    pub(in crate::ui::routes) state: Markup,
    /// It is to be gone, and is not yet.
    pub(in crate::ui::routes) going: bool,
    pub(in crate::ui::routes) device_link: String,
    pub(in crate::ui::routes) error: Option<String>,
    pub(in crate::ui::routes) components: Vec<(String, Markup)>,
    pub(in crate::ui::routes) deployment: Deployment,
}

pub(in crate::ui::routes) fn row(deployment: Deployment, names: &HashMap<String, String>) -> Row {
    let mut errors = deployment.status.iter().flat_map(|status| {
        status.components.iter().filter_map(|component| component.error.as_ref()).chain(status.error.as_ref())
    });
    let components = deployment.status.iter().flat_map(|status| &status.components);
    Row {
        name: names.get(&deployment.application).unwrap_or(&deployment.application).clone(),
        state: words::of_deployment(&deployment, false).into(),
        going: deployment.desired == Desired::Absent && deployment.convergence != Convergence::Converged,
        device_link: device_link(&deployment.client, deployment.device.trim_end_matches("/*")),
        error: untold(&deployment.explanation, errors.next()),
        components: components.map(|component| (component.name.clone(), words::reported(&component.state))).collect(),
        deployment,
    }
}

/// Once is enough: the sentence about a deployment that failed mostly has it already.
pub(in crate::ui::routes) fn untold(sentence: &str, error: Option<&StatusError>) -> Option<String> {
    let error = error.filter(|error| !sentence.contains(&error.message))?;
    Some(format!("{} (code {})", error.message, error.code))
}

/// What stands behind `state` beside how far a deployment is.
const REMOVING: &str = "removing";
const REMOVED: &str = "removed";
/// Removals shown before everything else on the first page; a tile leads to all of them.
const REMOVING_FIRST_MAX: u32 = 10;

/// The first page of everything: what failed, what is being removed, then the rest.
async fn beginning(state: &ServerState, query: &Query, asked: &Asked) -> AppResult<Page<Deployment>> {
    let failed = Query { convergence: Some(Convergence::Failed), ..query.clone() };
    let mut items = deployments::list(state, &failed, &asked.paging()).await?.items;
    let going = Paging { limit: Some(REMOVING_FIRST_MAX), after: None };
    items.extend(deployments::removals(state, query, false, &going).await?.items);
    let rest = deployments::list(state, query, &asked.paging()).await?;
    items.extend(rest.items.into_iter().filter(|deployment| deployment.convergence != Convergence::Failed));
    let mut known = HashSet::new();
    items.retain(|deployment| known.insert(deployment.id.clone()));
    Ok(Page { items, next: rest.next })
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    let state = &visit.state;
    let overview = overview::get(state).await?;
    let word = asked.text("state");
    let convergence = Convergence::ALL.into_iter().find(|known| known.as_str() == word);
    let query =
        Query { application: asked.get("application"), version: asked.get("version"), convergence, ..Query::default() };
    let found = match word.as_str() {
        REMOVING | REMOVED => deployments::removals(state, &query, word == REMOVED, &asked.paging()).await,
        "" if asked.get("after").is_none() => beginning(state, &query, &asked).await,
        _ => deployments::list(state, &query, &asked.paging()).await,
    };
    let (page, wrong) = match found {
        Ok(page) => (page, None),
        Err(AppError::Refused { detail, .. }) => (whole(Vec::new()), Some(detail)),
        Err(error) => return Err(error.into()),
    };
    let (application, version) = (asked.text("application"), asked.text("version"));
    let at = |state: &str, after: &str| {
        link(
            "/deployments",
            &[("state", state), ("application", &application), ("version", &version), ("after", after)],
        )
    };
    // Of what is asked for; of all of them when nothing is.
    let uses = query.application.as_ref().map(|id| overview.uses.get(id).cloned().unwrap_or_default());
    let counts = match uses {
        Some(versions) => {
            let asked = |version: &String| query.version.as_ref().is_none_or(|wanted| wanted == version);
            let mut sum = Counts::default();
            for (one, count) in versions.iter().filter(|(name, _)| asked(name)).flat_map(|(_, counts)| &counts.0) {
                *sum.0.entry(*one).or_default() += count;
            }
            sum
        }
        None => overview.summary.deployments.clone(),
    };
    let everything = query.application.is_none();
    let mut tiles: Vec<Tile> = Convergence::ALL
        .into_iter()
        .map(|one| {
            let look = words::of_convergence(one, false);
            Tile {
                count: counts.of(one),
                state: words::convergence(one, false),
                tone: look.tone,
                link: at(if convergence == Some(one) { "" } else { one.as_str() }, ""),
                chosen: convergence == Some(one),
            }
        })
        .filter(|tile| tile.count > 0 || tile.chosen)
        .collect();
    let going = [
        (
            REMOVING,
            overview.removing,
            overview.removing > 0 && everything,
            markup::state("busy", "turning", "Being removed"),
            "busy",
        ),
        (REMOVED, overview.removed, false, markup::state("mute", "check", "Removed"), "mute"),
    ];
    for (known, count, shown, look, tone) in going {
        let chosen = word == known;
        if shown || chosen {
            tiles.push(Tile { count, state: look, tone, link: at(if chosen { "" } else { known }, ""), chosen });
        }
    }
    let mut applications: Vec<(String, String)> =
        overview.names.iter().map(|(id, name)| (id.clone(), name.clone())).collect();
    applications.sort_by(|one, other| one.1.cmp(&other.1));
    let listing = ListPage {
        shell: visit.shell(Section::Deployments, "Deployments").await?,
        rows: page.items.into_iter().map(|deployment| row(deployment, &overview.names)).collect(),
        tiles,
        total: counts.total() + if everything { overview.removing } else { 0 },
        next: page.next.map(|next| at(&word, &next)),
        first: asked.get("after").map(|_| at(&word, "")),
        state: word.clone(),
        application: application.clone(),
        version: version.clone(),
        applications,
        wrong,
    };
    visit.show(&listing)
}

//! The landing page: how the fleet does, what is under way, what needs somebody.

use crate::app::changes::Told;
use crate::app::overview::{self, Failure, Hour, Overview};
use crate::ui::chart;
use crate::ui::markup::Markup;
use crate::ui::routes::deploy::{Begun, begun};
use crate::ui::routes::query::{device_link, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::changes::{Change, ChangeKind};
use margrave_api::deployments::Convergence;
use margrave_core::model::DeviceState;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "overview.html", blocks = ["live", "nav"])]
struct OverviewPage {
    shell: Shell,
    overview: Arc<Overview>,
    tiles: Vec<Tile>,
    devices: u64,
    failures: Vec<ShownFailure>,
    silent: Vec<ShownSilent>,
    under_way: Vec<ShownChange>,
    changes: Vec<ShownChange>,
    /// What whoever looks has begun to deploy and not finished.
    drafts: Vec<Begun>,
    /// Who is invited and has not come, when there is nobody else to show.
    invited: Vec<String>,
    installs: Markup,
    contacts: Markup,
    /// Nothing to do for anybody.
    calm: bool,
}
pages!(OverviewPage);

struct Tile {
    count: u64,
    state: Markup,
    tone: &'static str,
    link: String,
}

struct ShownFailure {
    title: String,
    link: String,
    places: Vec<(String, String)>,
    more: u64,
    /// Whether it is being tried again just now.
    trying: String,
    failure: Failure,
}

struct ShownSilent {
    title: String,
    link: String,
    since: Markup,
}

/// A change in one line.
pub(super) struct ShownChange {
    pub(super) title: String,
    pub(super) link: String,
    pub(super) bar: Markup,
    pub(super) words: String,
    /// What it waits for, while it is under way.
    pub(super) waits: String,
    pub(super) change: Change,
}

pub(in crate::ui) async fn show(visit: Visit) -> Answer {
    let overview = overview::get(&visit.state).await?;
    let failed = overview.summary.deployments.of(Convergence::Failed);
    let title =
        if failed > 0 { format!("{} failed - Overview", words::thousands(failed)) } else { "Overview".to_owned() };
    let shell = visit.shell(Section::Overview, title).await?;
    let tiles = DeviceState::ALL.into_iter().filter_map(|state| tile(&overview, state)).collect();
    let failures: Vec<ShownFailure> =
        overview.failures.iter().map(|failure| shown_failure(&overview, failure)).collect();
    let silent: Vec<ShownSilent> = overview
        .silent
        .iter()
        .map(|silent| ShownSilent {
            title: match &silent.site {
                Some(site) => format!("{} at site {site} silent", words::count(silent.count, "device")),
                None => format!("{} without a site silent", words::count(silent.count, "device")),
            },
            link: link("/devices", &[("state", "silent"), ("site", silent.site.as_deref().unwrap_or_default())]),
            since: silent.since.map_or_else(|| Markup::text("never"), |at| shell.ago_at(&at)),
        })
        .collect();
    let shown = |told: &Told| shown_change(&overview, told.clone());
    let devices = overview.devices.values().sum();
    let page = OverviewPage {
        under_way: overview.under_way.iter().map(shown).collect(),
        changes: overview.changes.iter().map(shown).collect(),
        invited: if devices == 0 { super::devices::list::invited(&visit).await? } else { Vec::new() },
        devices,
        drafts: begun(&visit, &shell).await?,
        tiles,
        calm: failures.is_empty() && silent.is_empty() && overview.summary.clients.pending == 0,
        failures,
        silent,
        installs: chart::hours(&overview.trend, [("good", "installed"), ("bad", "failed")], |hour: &Hour| {
            [hour.installed, hour.failed]
        }),
        contacts: chart::hours(&overview.trend, [("busy", "back"), ("warn", "fell silent")], |hour: &Hour| {
            [hour.back, hour.silent]
        }),
        overview,
        shell,
    };
    visit.show(&page)
}

fn tile(overview: &Overview, state: DeviceState) -> Option<Tile> {
    let count = overview.devices.get(&state).copied().unwrap_or_default();
    // Nobody misses a state that most fleets never see.
    if state == DeviceState::ShutOut && count == 0 {
        return None;
    }
    let tone = words::of_device(state).tone;
    Some(Tile { count, state: words::device_state(state), tone, link: link("/devices", &[("state", state.as_str())]) })
}

fn shown_failure(overview: &Overview, failure: &Failure) -> ShownFailure {
    let name = overview.names.get(&failure.application).unwrap_or(&failure.application);
    let places = failure.places.iter().map(|(id, _, device)| (device.clone(), format!("/deployments/{id}")));
    ShownFailure {
        title: format!("{name} {} failed on {}", failure.version, words::count(failure.count, "device")),
        link: link("/deployments", &[("state", "failed"), ("application", &failure.application)]),
        places: places.collect(),
        trying: match (failure.trying, failure.count) {
            (_, 1) => "trying again now".to_owned(),
            (trying, _) => format!("{} trying again now", words::thousands(trying)),
        },
        more: failure.count.saturating_sub(failure.places.len() as u64),
        failure: failure.clone(),
    }
}

/// What a change does, in people's words.
pub(super) fn change_title(name: &str, Told { change, device }: &Told) -> String {
    let devices = device.clone().unwrap_or_else(|| words::count(change.total, "device"));
    match change.kind {
        ChangeKind::Create => format!("Deploy {name} {} to {devices}", change.version),
        ChangeKind::Reconfigure => format!("Reconfigure {name} on {devices}"),
        ChangeKind::Upgrade => format!("Change {name} to {} on {devices}", change.version),
        ChangeKind::Remove => format!("Remove {name} from {devices}"),
    }
}

/// Devices that are still at a change, of those that were told.
pub(super) fn open(change: &Change) -> u64 {
    let counts = change.deployments.clone().unwrap_or_default();
    counts.total() - counts.of(Convergence::Failed) - counts.of(Convergence::Converged)
}

/// What a change waits for; nothing when it is over.
fn waits(change: &Change) -> String {
    let counts = change.deployments.clone().unwrap_or_default();
    let (silent, at_it) = (counts.of(Convergence::NotHeardOf), counts.of(Convergence::Applying));
    let fetching = counts.of(Convergence::Waiting) + counts.of(Convergence::OlderRevision);
    let mut waits = Vec::new();
    if silent > 0 {
        waits.push(format!("waits for {} not heard of", words::count(silent, "device")));
    }
    if fetching > 0 {
        waits.push(format!("waits for {} to fetch it", words::count(fetching, "device")));
    }
    if at_it > 0 {
        waits.push(format!("{} at it", words::count(at_it, "device")));
    }
    words::capital(&waits.join(", "))
}

pub(super) fn shown_change(overview: &Overview, told: Told) -> ShownChange {
    let name = overview.names.get(&told.change.application).unwrap_or(&told.change.application);
    let title = change_title(name, &told);
    let change = told.change;
    let (outcome, removing) = (change.outcome(), change.kind == ChangeKind::Remove);
    let (done, failed) = (outcome.of(Convergence::Converged), outcome.of(Convergence::Failed));
    let mut words = vec![format!("{} of {} done", words::thousands(done), words::thousands(change.total))];
    if failed > 0 {
        words.push(format!("{} failed", words::thousands(failed)));
    }
    if !change.skipped.is_empty() {
        words.push(format!("{} skipped", change.skipped.len()));
    }
    if change.changed_again() > 0 {
        words.push(format!("{} changed again since", words::thousands(change.changed_again())));
    }
    if change.untold() > 0 {
        words.push(format!("{} no longer known", words::thousands(change.untold())));
    }
    if change.published < change.total {
        words.push(format!("{} still to be published", words::thousands(change.total - change.published)));
    }
    ShownChange {
        title,
        waits: waits(&change),
        link: format!("/changes/{}", change.id),
        bar: chart::convergence_bar(&outcome, removing),
        words: words.join(", "),
        change,
    }
}

/// For lists that name devices.
pub(super) fn place(client: &str, device: &str) -> String {
    device_link(client, device)
}

//! The landing page: how the fleet does, what is under way, what needs somebody.

use crate::app::overview::{self, Failure, Hour, Overview};
use crate::ui::chart;
use crate::ui::markup::Markup;
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
    changes: Vec<ShownChange>,
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
    let changes = overview.changes.iter().map(|change| shown_change(&overview, change.clone())).collect();
    let page = OverviewPage {
        devices: overview.devices.values().sum(),
        tiles,
        calm: failures.is_empty() && silent.is_empty() && overview.summary.clients.pending == 0,
        failures,
        silent,
        changes,
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
        more: failure.count.saturating_sub(failure.places.len() as u64),
        failure: failure.clone(),
    }
}

/// What a change does, in people's words.
pub(super) fn change_title(name: &str, change: &Change) -> String {
    let devices = words::count(change.total, "device");
    match change.kind {
        ChangeKind::Create => format!("Deploy {name} {} to {devices}", change.version),
        ChangeKind::Reconfigure => format!("Reconfigure {name} on {devices}"),
        ChangeKind::Upgrade => format!("Upgrade {name} to {} on {devices}", change.version),
        ChangeKind::Remove => format!("Remove {name} from {devices}"),
    }
}

pub(super) fn shown_change(overview: &Overview, change: Change) -> ShownChange {
    let name = overview.names.get(&change.application).unwrap_or(&change.application);
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
        title: change_title(name, &change),
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

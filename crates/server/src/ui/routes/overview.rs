//! The overview page: state of the fleet, rollouts in progress, what needs attention.

use crate::app::overview::{self, Failure, Hour, Overview};
use crate::app::rollouts::RolloutWithDevice;
use crate::ui::chart;
use crate::ui::markup::Markup;
use crate::ui::routes::deploy::{DraftLink, started};
use crate::ui::routes::query::{device_link, link};
use crate::ui::routes::tiles::Tile;
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::deployments::{DeploymentState, Failing};
use margrave_api::rollouts::{Rollout, RolloutKind, RolloutState};
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
    offline: Vec<OfflineRow>,
    in_progress: Vec<ShownRollout>,
    rollouts: Vec<ShownRollout>,
    /// The drafts of this operator.
    drafts: Vec<DraftLink>,
    /// Devices with an active enrollment token, if there are no devices yet.
    awaiting_enrollment: Vec<String>,
    installs: Markup,
    contacts: Markup,
    /// Nothing needs attention.
    calm: bool,
}
pages!(OverviewPage);

struct ShownFailure {
    title: String,
    link: String,
    places: Vec<(String, String)>,
    more: u64,
    /// Whether it is being retried now.
    trying: String,
    failing: Failing,
    failure: Failure,
}

struct OfflineRow {
    title: String,
    link: String,
    since: Markup,
}

/// A rollout in one line.
pub(super) struct ShownRollout {
    pub(super) title: String,
    pub(super) link: String,
    pub(super) state: Markup,
    /// The API value of the state.
    pub(super) state_key: &'static str,
    pub(super) bar: Markup,
    /// The numbers of the bar.
    pub(super) legend: Markup,
    /// Further numbers.
    pub(super) notes: String,
    pub(super) rollout: Rollout,
}

pub(in crate::ui) async fn show(visit: Visit) -> PageResult {
    let overview = overview::get(&visit.state).await?;
    let failed = overview.summary.deployments.of(DeploymentState::Failed);
    let title =
        if failed > 0 { format!("{} failed - Overview", words::thousands(failed)) } else { "Overview".to_owned() };
    let shell = visit.shell(Section::Overview, title).await?;
    let tiles = DeviceState::ALL.into_iter().filter_map(|state| tile(&overview, state)).collect();
    let failures: Vec<ShownFailure> =
        overview.failures.iter().map(|failure| shown_failure(&overview, failure)).collect();
    let offline: Vec<OfflineRow> = overview
        .offline
        .iter()
        .map(|offline| OfflineRow {
            title: match &offline.site {
                Some(site) => format!("{} offline at site {site}", words::count(offline.count, "device")),
                None => format!("{} offline without a site", words::count(offline.count, "device")),
            },
            link: link("/devices", &[("state", "offline"), ("site", offline.site.as_deref().unwrap_or_default())]),
            since: offline.since.map_or_else(|| Markup::text("never"), |at| shell.ago_at(&at)),
        })
        .collect();
    let shown = |with_device: &RolloutWithDevice| shown_rollout(&overview, with_device.clone());
    let devices = overview.devices.values().sum();
    let page = OverviewPage {
        in_progress: overview.in_progress.iter().map(shown).collect(),
        rollouts: overview.rollouts.iter().map(shown).collect(),
        awaiting_enrollment: if devices == 0 {
            super::devices::list::awaiting_enrollment(&visit).await?
        } else {
            Vec::new()
        },
        devices,
        drafts: started(&visit, &shell, "/").await?,
        tiles,
        calm: failures.is_empty() && offline.is_empty() && overview.summary.clients.pending == 0,
        failures,
        offline,
        installs: chart::hours(&overview.trend, [("good", "installed"), ("bad", "failed")], |hour: &Hour| {
            [hour.installed, hour.failed]
        }),
        contacts: chart::hours(&overview.trend, [("busy", "came online"), ("warn", "went offline")], |hour: &Hour| {
            [hour.back, hour.offline]
        }),
        overview,
        shell,
    };
    visit.show(&page)
}

fn tile(overview: &Overview, state: DeviceState) -> Option<Tile> {
    let count = overview.devices.get(&state).copied().unwrap_or_default();
    // Most fleets have none of these.
    if matches!(state, DeviceState::Blocked | DeviceState::Degraded) && count == 0 {
        return None;
    }
    Some(Tile::new(count, words::device_badge(state.into()), link("/devices", &[("state", state.as_str())]), false))
}

fn shown_failure(overview: &Overview, failure: &Failure) -> ShownFailure {
    let name = overview.names.get(&failure.application).unwrap_or(&failure.application);
    let places = failure.places.iter().map(|(id, _, device)| (device.clone(), format!("/deployments/{id}")));
    ShownFailure {
        title: format!("{name} {} failed on {}", failure.version, words::count(failure.count, "device")),
        link: link("/deployments", &[("state", "failed"), ("application", &failure.application)]),
        places: places.collect(),
        trying: match (failure.trying, failure.count) {
            (_, 1) => "retrying now".to_owned(),
            (trying, _) => format!("{} retrying now", words::thousands(trying)),
        },
        more: failure.count.saturating_sub(failure.places.len() as u64),
        failing: Failing {
            since: failure.since.to_string(),
            attempts: failure.attempts,
            last_at: failure.last_at.to_string(),
        },
        failure: failure.clone(),
    }
}

/// What a rollout does.
pub(super) fn rollout_title(name: &str, RolloutWithDevice { rollout, device }: &RolloutWithDevice) -> String {
    let devices = device.clone().unwrap_or_else(|| words::count(rollout.total, "device"));
    if let Some(revision) = rollout.rollback_to {
        return format!("Roll back {name} on {devices} to revision {revision}");
    }
    match rollout.kind {
        RolloutKind::Create => format!("Deploy {name} {} to {devices}", rollout.version),
        RolloutKind::Reconfigure => format!("Reconfigure {name} on {devices}"),
        RolloutKind::Upgrade => format!("Update {name} to {} on {devices}", rollout.version),
        RolloutKind::Remove => format!("Remove {name} from {devices}"),
    }
}

fn rollout_badge(state: RolloutState) -> words::Badge {
    let (word, tone, symbol) = match state {
        RolloutState::InProgress => ("In progress", "busy", "turning"),
        RolloutState::Paused => ("Paused", "warn", "clock"),
        RolloutState::Cancelled => ("Cancelled", "mute", "cross"),
        RolloutState::CompletedWithFailures => ("Completed with failures", "bad", "cross"),
        RolloutState::Completed => ("Completed", "good", "check"),
    };
    words::Badge { key: state.as_str(), word, tone, symbol }
}

pub(super) fn shown_rollout(overview: &Overview, with_device: RolloutWithDevice) -> ShownRollout {
    let name = overview.names.get(&with_device.rollout.application).unwrap_or(&with_device.rollout.application);
    let title = rollout_title(name, &with_device);
    let rollout = with_device.rollout;
    let outcome = rollout.outcome();
    let (done, failed) = (outcome.done(), outcome.of(DeploymentState::Failed));
    let progress = chart::RolloutProgress { total: rollout.total, done, failed };
    let counts = rollout.deployments.clone().unwrap_or_default();
    let rest = [
        DeploymentState::Updating,
        DeploymentState::Removing,
        DeploymentState::Pending,
        DeploymentState::Outdated,
        DeploymentState::DeviceOffline,
    ];
    let rest: Vec<(&str, u64, String)> = rest
        .into_iter()
        .map(|state| (state.as_str(), counts.of(state), words::deployment_state_badge(state).word.to_lowercase()))
        .collect();
    let further = [
        (rollout.total.saturating_sub(rollout.published), "not published yet"),
        (rollout.skipped.len() as u64, "skipped"),
        (rollout.changed_again(), "changed again since"),
    ];
    let further = further.into_iter().filter(|(count, _)| *count > 0);
    let notes: Vec<String> = further.map(|(count, word)| format!("{} {word}", words::thousands(count))).collect();
    let badge = rollout_badge(rollout.state);
    ShownRollout {
        title,
        link: format!("/rollouts/{}", rollout.id),
        bar: progress.bar(badge.key),
        legend: progress.legend(&rest),
        state_key: badge.key,
        state: badge.into(),
        notes: notes.join(", "),
        rollout,
    }
}

/// For lists that name devices.
pub(super) fn place(client: &str, device: &str) -> String {
    device_link(client, device)
}

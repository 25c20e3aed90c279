//! The overview of the whole fleet. Counting a large fleet is slow, so it runs in the background and pages use the
//! result.

mod refresher;

pub(crate) use refresher::run;

use super::applications;
use super::error::{AppError, AppResult, Code};
use super::explain;
use super::paging::Paging;
use super::rollouts::{self, NEWEST_FIRST, RolloutFilter, RolloutWithDevice};
use super::summary;
use crate::state::ServerState;
use margo::status::DeploymentStatus;
use margrave_api::summary::{Counts, Summary};
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::DeviceState;
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeviceSearch, OfflineSite};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex as Turn;
use uuid::Uuid;

/// An overview that is counted within this time is recomputed on request; a larger fleet is counted in the background.
const QUICK: Duration = Duration::from_millis(60);
/// Maximum age of the numbers shown, whatever the size of the fleet.
const OLD: Duration = Duration::from_mins(2);
/// The same while deployments fail: their attempts are shown.
const OLD_WITH_FAILURES: Duration = Duration::from_secs(5);
/// Counting uses at most one part in this many of a core.
const REST: u32 = 10;
/// Rollouts shown.
const ROLLOUTS_MAX: u32 = 8;
/// Rollouts in progress that are read: those shown, and the number of further ones.
const IN_PROGRESS_MAX: u32 = 100;
/// Failed deployments read to group them by cause.
const FAILED_MAX: u32 = 200;
/// Offline places named one by one.
const OFFLINE_MAX: u32 = 6;
/// Hours of the trend.
pub const HOURS: usize = 24;
const HOUR: Duration = Duration::from_hours(1);

/// The fleet at one moment.
#[derive(Debug, Clone)]
pub struct Overview {
    pub at: Timestamp,
    pub devices: BTreeMap<DeviceState, u64>,
    pub summary: Summary,
    /// Rollouts in progress, newest first, and the number of further ones.
    pub in_progress: Vec<RolloutWithDevice>,
    pub in_progress_more: u64,
    /// The newest completed rollouts.
    pub rollouts: Vec<RolloutWithDevice>,
    /// Removals in progress and completed removals.
    pub removing: u64,
    pub removed: u64,
    pub failures: Vec<Failure>,
    pub offline: Vec<Offline>,
    /// Oldest hour first.
    pub trend: Vec<Hour>,
    /// By application id.
    pub names: HashMap<String, String>,
    /// Deployments by application, version and state.
    pub uses: BTreeMap<String, BTreeMap<String, Counts>>,
    newest: i64,
    took: Duration,
}

impl Overview {
    /// How long it is up to date without an event: retries of failed deployments are counted and are no events.
    fn fresh_for(&self) -> Duration {
        if self.failures.is_empty() { OLD } else { OLD_WITH_FAILURES }
    }

    /// Ids and names of all applications, by name.
    pub fn applications(&self) -> Vec<(String, String)> {
        let mut all: Vec<_> = self.names.iter().map(|(id, name)| (id.clone(), name.clone())).collect();
        all.sort_by(|one, other| one.1.cmp(&other.1));
        all
    }

    /// Deployments by state: of an application, of one version, or all.
    pub fn counts(&self, application: Option<&str>, version: Option<&str>) -> Counts {
        let Some(application) = application else { return self.summary.deployments.clone() };
        let versions = self.uses.get(application).into_iter().flatten();
        let of_version = versions.filter(|(name, _)| version.is_none_or(|requested| requested == **name));
        let mut sum = Counts::default();
        for (deployment_state, count) in of_version.flat_map(|(_, counts)| &counts.0) {
            *sum.0.entry(*deployment_state).or_default() += count;
        }
        sum
    }
}

/// Deployments that failed with the same cause.
#[derive(Debug, Clone)]
pub struct Failure {
    pub application: String,
    pub version: String,
    pub code: String,
    pub source: String,
    pub message: String,
    /// The next action.
    pub next: Option<String>,
    /// Deployment, client and device of the first few.
    pub places: Vec<(String, String, String)>,
    pub count: u64,
    /// How many of them are retrying now.
    pub trying: u64,
    /// The first and the last of these failures, and the failed attempts of all of them.
    pub since: Timestamp,
    pub last_at: Timestamp,
    pub attempts: u64,
}

/// Offline devices of one site.
#[derive(Debug, Clone)]
pub struct Offline {
    pub site: Option<String>,
    pub count: u64,
    /// When the last of them was seen.
    pub since: Option<Timestamp>,
}

/// Events of one hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hour {
    pub begins: Timestamp,
    pub installed: u64,
    pub failed: u64,
    pub removed: u64,
    pub offline: u64,
    pub back: u64,
}

/// The last overview, and the last counts of large rollouts.
#[derive(Debug, Default)]
pub struct OverviewCache {
    last: Mutex<Option<Arc<Overview>>>,
    turn: Turn<()>,
    rollouts: Mutex<HashMap<Uuid, CachedCounts>>,
}

#[derive(Debug, Clone)]
struct CachedCounts {
    /// The newest event when counting began: until a newer one, nothing can have changed.
    newest: i64,
    at: Instant,
    took: Duration,
    counts: Counts,
}

impl CachedCounts {
    fn is_current(&self, newest: i64, targets: usize) -> bool {
        let age = self.at.elapsed();
        (self.newest == newest && age < OLD) || (targets > LARGE_ROLLOUT && age < self.took * REST)
    }
}

/// A rollout with more targets is not recounted for every event.
const LARGE_ROLLOUT: usize = 2_000;
/// A rollout with fewer targets is counted faster than looked up.
const SMALL_ROLLOUT: usize = 20;
/// Rollouts whose counts are cached: a few pages.
const ROLLOUTS_KEPT: usize = 256;

/// Deployments of a rollout by state.
pub(crate) async fn rollout_counts(state: &ServerState, rollout: Uuid, targets: usize) -> AppResult<Counts> {
    // Before counting: events during the count trigger a recount.
    let newest = *state.store.events_newest().borrow();
    if targets > SMALL_ROLLOUT
        && let Some(known) = state.board.rollouts.lock().get(&rollout)
        && known.is_current(newest, targets)
    {
        return Ok(known.counts.clone());
    }
    let started = Instant::now();
    let counts = summary::counts(state.store.rollout_summary(rollout, state.offline_before()).await?);
    if targets > SMALL_ROLLOUT {
        let mut stored = state.board.rollouts.lock();
        if stored.len() >= ROLLOUTS_KEPT {
            stored.clear();
        }
        let counted = CachedCounts { newest, at: Instant::now(), took: started.elapsed(), counts: counts.clone() };
        stored.insert(rollout, counted);
    }
    Ok(counts)
}

/// As fresh as possible without a long wait.
pub async fn get(state: &ServerState) -> AppResult<Arc<Overview>> {
    let newest = *state.store.events_newest().borrow();
    let known = state.board.last.lock().clone();
    if let Some(known) = known {
        let age = state.now().since(known.at);
        let fresh = known.newest == newest && age < known.fresh_for();
        if fresh || (known.took > QUICK && age < OLD) {
            if !fresh {
                refresh_later(state, &known);
            }
            return Ok(known);
        }
    }
    let _turn = state.board.turn.lock().await;
    // Another request may have just computed it.
    let known = state.board.last.lock().clone();
    match known.filter(|known| known.newest >= newest && state.now().since(known.at) < known.fresh_for()) {
        Some(known) => Ok(known),
        None => make(state).await,
    }
}

/// Counts in the background, one at a time and with pauses.
fn refresh_later(state: &ServerState, known: &Overview) {
    if state.now().since(known.at) < known.took * REST {
        return;
    }
    let state = state.clone();
    tokio::spawn(async move {
        let Ok(_turn) = state.board.turn.try_lock() else { return };
        if let Err(error) = make(&state).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot count the fleet");
        }
    });
}

async fn make(state: &ServerState) -> AppResult<Arc<Overview>> {
    let started = Instant::now();
    let newest = *state.store.events_newest().borrow();
    let (now, offline_before) = (state.now(), state.offline_before());
    let search = DeviceSearch { offline_before, ..DeviceSearch::default() };
    let (in_progress, not_over) = in_progress(state, offline_before).await?;
    let mut recent = Vec::new();
    let newest_rollouts = Paging { limit: Some(ROLLOUTS_MAX * 2), after: None };
    for with_device in
        rollouts::list_filtered_rollouts(state, &RolloutFilter::default(), NEWEST_FIRST, &newest_rollouts).await?.items
    {
        if !not_over.contains(&with_device.rollout.id) && recent.len() < ROLLOUTS_MAX as usize {
            recent.push(with_device);
        }
    }
    let removals = state.store.removal_counts(offline_before).await?;
    let removed = removals.get(&DeploymentState::Removed).copied().unwrap_or_default();
    let offline = state.store.offline_sites(offline_before, OFFLINE_MAX).await?;
    let overview = Arc::new(Overview {
        at: now,
        devices: state.store.devices_counted(&search).await?,
        summary: summary::get(state).await?,
        in_progress_more: not_over.len().saturating_sub(ROLLOUTS_MAX as usize) as u64,
        in_progress,
        rollouts: recent,
        removing: removals.values().sum::<u64>() - removed,
        removed,
        failures: failures(state).await?,
        offline: offline.into_iter().map(offline_to_shown).collect(),
        trend: trend(state, now).await?,
        names: applications::names(state).await?,
        uses: uses(state).await?,
        newest,
        took: started.elapsed(),
    });
    *state.board.last.lock() = Some(Arc::clone(&overview));
    Ok(overview)
}

/// Those shown, and the ids of all.
async fn in_progress(
    state: &ServerState,
    offline_before: Timestamp,
) -> AppResult<(Vec<RolloutWithDevice>, Vec<String>)> {
    let ids = state.store.rollouts_in_progress(offline_before, IN_PROGRESS_MAX).await?;
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    let mut found = Vec::new();
    for id in ids.iter().take(ROLLOUTS_MAX as usize) {
        // Deleted while a device was still updating.
        match rollouts::with_device(state, id).await {
            Ok(with_device) => found.push(with_device),
            Err(AppError::Refused { code: Code::NotFound, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_by(|one, other| other.rollout.created_at.cmp(&one.rollout.created_at));
    Ok((found, ids))
}

async fn uses(state: &ServerState) -> AppResult<BTreeMap<String, BTreeMap<String, Counts>>> {
    let counted = state.store.deployment_counts(state.offline_before()).await?;
    let versions = |versions: BTreeMap<String, _>| {
        versions.into_iter().map(|(version, counts)| (version, summary::counts(counts))).collect()
    };
    Ok(counted.into_iter().map(|(application, of)| (application, versions(of))).collect())
}

fn offline_to_shown(place: OfflineSite) -> Offline {
    let OfflineSite { site, devices, seen_at } = place;
    Offline { site, count: devices, since: seen_at }
}

async fn failures(state: &ServerState) -> AppResult<Vec<Failure>> {
    let filter = DeploymentFilter {
        deployment_state: Some(DeploymentState::Failed),
        with_absent: true,
        ..DeploymentFilter::default()
    };
    let views = state.store.deployments_page(&filter, state.offline_before(), None, FAILED_MAX).await?;
    let mut found: Vec<Failure> = Vec::new();
    for view in views {
        let Some(reported) = view.reported else { continue };
        let trying = reported.retried_failure().is_some();
        // The failure stays until a retry succeeds.
        let (body, since, attempts, last_at) = match reported.failed {
            Some(failed) => (failed.body, failed.since, failed.attempts, failed.received_at),
            None => (reported.body, reported.received_at, 1, reported.received_at),
        };
        let status = DeploymentStatus::read(&body).ok().map(|read| read.document);
        let component = status.iter().flat_map(|status| &status.components).find_map(|one| one.error.clone());
        let error = component.or_else(|| status.as_ref().and_then(|status| status.error.clone()));
        let (code, source, message) =
            error.map_or_else(Default::default, |error| (error.code, error.source, error.message));
        let deployment = view.deployment;
        let application = deployment.application.to_string();
        let place = (deployment.id.to_string(), deployment.client.to_string(), deployment.target.to_string());
        let same = |known: &&mut Failure| {
            known.application == application && known.version == deployment.version && known.code == code
        };
        match found.iter_mut().find(same) {
            Some(known) => {
                known.count += 1;
                known.trying += u64::from(trying);
                known.attempts += attempts;
                known.since = known.since.min(since);
                known.last_at = known.last_at.max(last_at);
                if known.places.len() < PLACES_MAX {
                    known.places.push(place);
                }
            }
            None => found.push(Failure {
                next: explain::next_action(&code).map(str::to_owned),
                application,
                version: deployment.version,
                code,
                source,
                message,
                places: vec![place],
                count: 1,
                trying: u64::from(trying),
                since,
                last_at,
                attempts,
            }),
        }
    }
    found.sort_by_key(|failure| std::cmp::Reverse(failure.count));
    Ok(found)
}

/// Places named per failure.
const PLACES_MAX: usize = 3;

async fn trend(state: &ServerState, now: Timestamp) -> AppResult<Vec<Hour>> {
    let hour = i64::try_from(HOUR.as_micros()).unwrap_or(i64::MAX);
    // Whole hours, including the current one.
    let ends = Timestamp((now.0.div_euclid(hour) + 1) * hour);
    let begins = ends.minus(HOUR * HOURS as u32);
    let mut hours: Vec<Hour> =
        (0..HOURS).map(|index| Hour { begins: begins.plus(HOUR * index as u32), ..Hour::default() }).collect();
    for slot in state.store.event_trend(begins, HOUR).await? {
        let Some(hour) = hours.get_mut(slot.slot) else { continue };
        match slot.kind.as_str() {
            "deployment.installed" => hour.installed += slot.count,
            "deployment.failed" => hour.failed += slot.count,
            "deployment.removed" => hour.removed += slot.count,
            "client.offline" => hour.offline += slot.count,
            "client.online" => hour.back += slot.count,
            _ => {}
        }
    }
    Ok(hours)
}

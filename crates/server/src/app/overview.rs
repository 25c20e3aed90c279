//! The whole fleet at a glance. Counting a large one takes a while, so it is counted in the background and shown from memory.

mod keeper;

pub(crate) use keeper::run;

use super::applications;
use super::changes::{self, Told, Wanted};
use super::error::{AppError, AppResult, Code};
use super::explain;
use super::paging::Paging;
use super::summary;
use crate::state::ServerState;
use margo::status::DeploymentStatus;
use margrave_api::summary::{Counts, Summary};
use margrave_core::convergence::Convergence;
use margrave_core::model::DeviceState;
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeviceSearch, SilentPlace};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex as Turn;
use uuid::Uuid;

/// Counted within this time, an overview is made anew for whoever asks; a larger fleet is counted in the background.
const QUICK: Duration = Duration::from_millis(60);
/// However large the fleet, nobody sees numbers older than this without waiting for new ones.
const OLD: Duration = Duration::from_mins(2);
/// Counting takes at most one part in this many of a core.
const REST: u32 = 10;
/// Changes shown.
const CHANGES_MAX: u32 = 8;
/// Changes under way that are looked at: those that are shown, and how many more there are.
const UNDER_WAY_MAX: u32 = 100;
/// Failed deployments looked at for what they have in common.
const FAILED_MAX: u32 = 200;
/// Silent places named one by one.
const SILENT_MAX: u32 = 6;
/// Hours of the trend.
pub const HOURS: usize = 24;
const HOUR: Duration = Duration::from_hours(1);

/// The fleet as it was at one moment.
#[derive(Debug, Clone)]
pub struct Overview {
    pub at: Timestamp,
    pub devices: BTreeMap<DeviceState, u64>,
    pub summary: Summary,
    /// Changes some device is still at, newest first, and how many more there are.
    pub under_way: Vec<Told>,
    pub under_way_more: u64,
    /// The newest changes that are over.
    pub changes: Vec<Told>,
    /// What devices have still to be rid of, and what they are rid of.
    pub removing: u64,
    pub removed: u64,
    pub failures: Vec<Failure>,
    pub silent: Vec<Silent>,
    /// Oldest hour first.
    pub trend: Vec<Hour>,
    /// By application id.
    pub names: HashMap<String, String>,
    /// Deployments by application, version and how far they are.
    pub uses: BTreeMap<String, BTreeMap<String, Counts>>,
    newest: i64,
    took: Duration,
}

impl Overview {
    /// Ids and names of all applications, by name.
    pub fn applications(&self) -> Vec<(String, String)> {
        let mut all: Vec<_> = self.names.iter().map(|(id, name)| (id.clone(), name.clone())).collect();
        all.sort_by(|one, other| one.1.cmp(&other.1));
        all
    }

    /// How far deployments are: those of an application, or of one version of it, or all of them.
    pub fn counts(&self, application: Option<&str>, version: Option<&str>) -> Counts {
        let Some(application) = application else { return self.summary.deployments.clone() };
        let versions = self.uses.get(application).into_iter().flatten();
        let asked = versions.filter(|(name, _)| version.is_none_or(|wanted| wanted == **name));
        let mut sum = Counts::default();
        for (convergence, count) in asked.flat_map(|(_, counts)| &counts.0) {
            *sum.0.entry(*convergence).or_default() += count;
        }
        sum
    }
}

/// Deployments that failed in the same way.
#[derive(Debug, Clone)]
pub struct Failure {
    pub application: String,
    pub version: String,
    pub code: String,
    pub source: String,
    pub message: String,
    /// What to do about it.
    pub next: Option<String>,
    /// Deployment, client and device of the first few.
    pub places: Vec<(String, String, String)>,
    pub count: u64,
    /// Of those, how many are at it again just now.
    pub trying: u64,
    pub since: Timestamp,
}

/// Devices of one site nobody hears of.
#[derive(Debug, Clone)]
pub struct Silent {
    pub site: Option<String>,
    pub count: u64,
    /// When the last of them was heard of.
    pub since: Option<Timestamp>,
}

/// What happened in one hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hour {
    pub begins: Timestamp,
    pub installed: u64,
    pub failed: u64,
    pub removed: u64,
    pub silent: u64,
    pub back: u64,
}

/// The last overview that was made, and how far large changes were when they were last counted.
#[derive(Debug, Default)]
pub struct Board {
    last: Mutex<Option<Arc<Overview>>>,
    turn: Turn<()>,
    changes: Mutex<HashMap<Uuid, Counted>>,
}

#[derive(Debug, Clone)]
struct Counted {
    /// The newest event when counting began: until there is another, nothing can have changed.
    newest: i64,
    at: Instant,
    took: Duration,
    counts: Counts,
}

impl Counted {
    fn holds(&self, newest: i64, targets: usize) -> bool {
        let age = self.at.elapsed();
        (self.newest == newest && age < OLD) || (targets > LARGE_CHANGE && age < self.took * REST)
    }
}

/// A change with more targets than this is not counted anew for every event.
const LARGE_CHANGE: usize = 2_000;
/// A change with fewer is counted sooner than looked up.
const SMALL_CHANGE: usize = 20;
/// Changes whose counts are kept: some pages of them.
const CHANGES_KEPT: usize = 256;

/// How far the deployments of a change are.
pub(crate) async fn change_counts(state: &ServerState, change: Uuid, targets: usize) -> AppResult<Counts> {
    // Before counting: what happens meanwhile is counted again.
    let newest = *state.store.events_newest().borrow();
    if targets > SMALL_CHANGE
        && let Some(known) = state.board.changes.lock().get(&change)
        && known.holds(newest, targets)
    {
        return Ok(known.counts.clone());
    }
    let begun = Instant::now();
    let counts = summary::counts(state.store.change_summary(change, state.silent_since()).await?);
    if targets > SMALL_CHANGE {
        let mut kept = state.board.changes.lock();
        if kept.len() >= CHANGES_KEPT {
            kept.clear();
        }
        let counted = Counted { newest, at: Instant::now(), took: begun.elapsed(), counts: counts.clone() };
        kept.insert(change, counted);
    }
    Ok(counts)
}

/// As fresh as it can be had without waiting long.
pub async fn get(state: &ServerState) -> AppResult<Arc<Overview>> {
    let newest = *state.store.events_newest().borrow();
    let known = state.board.last.lock().clone();
    if let Some(known) = known {
        let age = state.now().since(known.at);
        let fresh = known.newest == newest && age < HOUR.min(OLD);
        if fresh || (known.took > QUICK && age < OLD) {
            if !fresh {
                refresh_later(state, &known);
            }
            return Ok(known);
        }
    }
    let _turn = state.board.turn.lock().await;
    // Somebody else may just have made it.
    let known = state.board.last.lock().clone();
    match known.filter(|known| known.newest >= newest && state.now().since(known.at) < OLD) {
        Some(known) => Ok(known),
        None => make(state).await,
    }
}

/// Counts in the background, one at a time and with rests.
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
    let begun = Instant::now();
    let newest = *state.store.events_newest().borrow();
    let (now, silent_since) = (state.now(), state.silent_since());
    let search = DeviceSearch { silent_since, ..DeviceSearch::default() };
    let (under_way, not_over) = under_way(state, silent_since).await?;
    let mut recent = Vec::new();
    let newest_changes = Paging { limit: Some(CHANGES_MAX * 2), after: None };
    for told in changes::list_wanted(state, &Wanted::default(), &newest_changes).await?.items {
        if !not_over.contains(&told.change.id) && recent.len() < CHANGES_MAX as usize {
            recent.push(told);
        }
    }
    let removals = state.store.removal_counts(silent_since).await?;
    let removed = removals.get(&Convergence::Converged).copied().unwrap_or_default();
    let silent = state.store.silent_places(silent_since, SILENT_MAX).await?;
    let overview = Arc::new(Overview {
        at: now,
        devices: state.store.devices_counted(&search).await?,
        summary: summary::get(state).await?,
        under_way_more: not_over.len().saturating_sub(CHANGES_MAX as usize) as u64,
        under_way,
        changes: recent,
        removing: removals.values().sum::<u64>() - removed,
        removed,
        failures: failures(state).await?,
        silent: silent.into_iter().map(silent_to_shown).collect(),
        trend: trend(state, now).await?,
        names: applications::names(state).await?,
        uses: uses(state).await?,
        newest,
        took: begun.elapsed(),
    });
    *state.board.last.lock() = Some(Arc::clone(&overview));
    Ok(overview)
}

/// Those that are shown, and the ids of all.
async fn under_way(state: &ServerState, silent_since: Timestamp) -> AppResult<(Vec<Told>, Vec<String>)> {
    let ids = state.store.changes_under_way(silent_since, UNDER_WAY_MAX).await?;
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    let mut found = Vec::new();
    for id in ids.iter().take(CHANGES_MAX as usize) {
        // One that was forgotten while a device was still at it.
        match changes::told(state, id).await {
            Ok(told) => found.push(told),
            Err(AppError::Refused { code: Code::NotFound, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_by(|one, other| other.change.created_at.cmp(&one.change.created_at));
    Ok((found, ids))
}

async fn uses(state: &ServerState) -> AppResult<BTreeMap<String, BTreeMap<String, Counts>>> {
    let counted = state.store.deployment_counts(state.silent_since()).await?;
    let versions = |versions: BTreeMap<String, _>| {
        versions.into_iter().map(|(version, counts)| (version, summary::counts(counts))).collect()
    };
    Ok(counted.into_iter().map(|(application, of)| (application, versions(of))).collect())
}

fn silent_to_shown(place: SilentPlace) -> Silent {
    let SilentPlace { site, devices, seen_at } = place;
    Silent { site, count: devices, since: seen_at }
}

async fn failures(state: &ServerState) -> AppResult<Vec<Failure>> {
    let filter =
        DeploymentFilter { convergence: Some(Convergence::Failed), with_absent: true, ..DeploymentFilter::default() };
    let views = state.store.deployments_page(&filter, state.silent_since(), None, FAILED_MAX).await?;
    let mut found: Vec<Failure> = Vec::new();
    for view in views {
        let Some(reported) = view.reported else { continue };
        let trying = reported.tries_again().is_some();
        // What it failed with stands while it tries again.
        let (body, since) = match reported.failed {
            Some(failed) => (failed.body, failed.received_at),
            None => (reported.body, reported.received_at),
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
                known.since = known.since.max(since);
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
            }),
        }
    }
    found.sort_by_key(|failure| std::cmp::Reverse(failure.count));
    Ok(found)
}

/// Places named with one failure.
const PLACES_MAX: usize = 3;

async fn trend(state: &ServerState, now: Timestamp) -> AppResult<Vec<Hour>> {
    let hour = i64::try_from(HOUR.as_micros()).unwrap_or(i64::MAX);
    // Whole hours, the present one included.
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
            "client.silent" => hour.silent += slot.count,
            "client.back" => hour.back += slot.count,
            _ => {}
        }
    }
    Ok(hours)
}

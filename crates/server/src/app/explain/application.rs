//! Gathers facts about an application: counts from the overview, compatibility from evaluating every device.

use super::sentence;
use super::words::application::{CompatibilityCounts, Facts, Failed, explain};
use crate::app::applications::{self, application_id};
use crate::app::background::{AT_ONCE_MAX, BackgroundCache, Progress, ProgressSender};
use crate::app::compatibility::NO_CAPABILITIES;
use crate::app::cooperative::TimeSlices;
use crate::app::error::AppResult;
use crate::app::{devices, lookup, overview};
use crate::state::ServerState;
use margo::constraints::Outcome;
use margo::description::ApplicationDescription;
use margo::ids::ApplicationId;
use margrave_api::explain::Explanation;
use margrave_api::lookup::LookupKind;
use margrave_api::summary::Counts;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::{ClientState, Device};
use margrave_core::placement::{Placement, place};
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeviceFilter};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Devices read per page.
const PAGE: u32 = 100;
/// Reasons shown.
const REASONS_MAX: usize = 5;
/// Distinct reasons counted; later ones are not among the most common.
const REASONS_COUNTED_MAX: usize = 1000;
const FAILED_MAX: u32 = 5;
const COMING_MAX: u32 = 10;

/// An application explained.
#[derive(Debug)]
pub struct Explained {
    pub explanation: Explanation,
    /// Whether devices are still being evaluated.
    pub in_progress: bool,
}

/// Compatibility of the version imported then.
pub type CompatibilityCache = BackgroundCache<(ApplicationId, Timestamp), Arc<CompatibilityCounts>>;

/// With as many devices evaluated as possible within `max_wait`.
pub async fn application(state: &ServerState, id: &str, max_wait: Duration) -> AppResult<Explained> {
    let id = application_id(id)?;
    let versions = state.store.versions(&id).await?;
    let Some(newest) = versions.first() else {
        return Err(lookup::unknown(state, LookupKind::Application, id.as_str()).await);
    };
    let description = state.descriptions.get(&state.store, newest).await?;
    let Progress { value: compatibility_counts, done } =
        compatibility_counts(state, (id.clone(), newest.imported_at), description, max_wait).await?;
    let facts = Facts {
        application: id.to_string(),
        deployments: counted(state, &id).await?,
        compatibility_counts: compatibility_counts
            .map(|compatibility_counts| CompatibilityCounts::clone(&compatibility_counts))
            .unwrap_or_default(),
        coming: state.store.unfinished_rollouts_of(&id, None, COMING_MAX).await?,
        failed: failed(state, &id).await?,
        versions: versions.into_iter().map(|version| (version.version, version.imported_at)).collect(),
    };
    Ok(Explained { explanation: explain(&facts), in_progress: !done })
}

/// The compatibility of one version, with as many devices evaluated as possible within `max_wait`.
pub async fn compatibility(
    state: &ServerState,
    id: &str,
    version: &str,
    max_wait: Duration,
) -> AppResult<Progress<Arc<CompatibilityCounts>>> {
    let id = application_id(id)?;
    let (stored, description) = applications::described(state, &id, version).await?;
    compatibility_counts(state, (id, stored.imported_at), description, max_wait).await
}

/// Deployments by version; in a large fleet as last counted.
async fn counted(
    state: &ServerState,
    id: &ApplicationId,
) -> AppResult<BTreeMap<String, BTreeMap<DeploymentState, u64>>> {
    let overview = overview::get(state).await?;
    let versions = overview.uses.get(id.as_str()).into_iter().flatten();
    let domain = |counts: &Counts| counts.0.iter().map(|(state, number)| ((*state).into(), *number)).collect();
    Ok(versions.map(|(version, counts)| (version.clone(), domain(counts))).collect())
}

/// Some failed deployments, with the reason.
async fn failed(state: &ServerState, id: &ApplicationId) -> AppResult<Vec<Failed>> {
    let filter = DeploymentFilter {
        application: Some(id.clone()),
        deployment_state: Some(DeploymentState::Failed),
        ..DeploymentFilter::default()
    };
    let views = state.store.deployments_page(&filter, state.offline_before(), None, FAILED_MAX).await?;
    Ok(views
        .iter()
        .map(|view| Failed {
            id: view.deployment.id.to_string(),
            place: format!("{}/{}", view.deployment.client, view.deployment.target),
            why: sentence(
                &view.deployment,
                view.reported.as_ref(),
                (ClientState::Accepted, view.last_seen_at),
                DeploymentState::Failed,
            ),
        })
        .collect())
}

async fn compatibility_counts(
    state: &ServerState,
    key: (ApplicationId, Timestamp),
    description: Arc<ApplicationDescription>,
    max_wait: Duration,
) -> AppResult<Progress<Arc<CompatibilityCounts>>> {
    let devices = state.store.device_count().await?;
    if devices <= AT_ONCE_MAX {
        let compatibility_counts = evaluate_all(state, &description, devices, |_| {}).await?;
        return Ok(Progress { value: Some(Arc::new(compatibility_counts)), done: true });
    }
    let own = state.clone();
    let work = |sender: Arc<ProgressSender<Arc<CompatibilityCounts>>>| async move {
        let so_far = |compatibility_counts: CompatibilityCounts| sender.so_far(Arc::new(compatibility_counts));
        let compatibility_counts = evaluate_all(&own, &description, devices, so_far).await.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot evaluate the compatibility of an application"
            );
            CompatibilityCounts { devices, ..CompatibilityCounts::default() }
        });
        Arc::new(compatibility_counts)
    };
    let mut progress = state.compatibility_cache.get_or_start(key, max_wait, work).await;
    progress.value.get_or_insert_with(|| Arc::new(CompatibilityCounts { devices, ..CompatibilityCounts::default() }));
    Ok(progress)
}

/// Page by page, with progress after each.
async fn evaluate_all(
    state: &ServerState,
    description: &ApplicationDescription,
    devices: u64,
    so_far: impl Fn(CompatibilityCounts),
) -> AppResult<CompatibilityCounts> {
    let (mut compatibility_counts, mut reasons) =
        (CompatibilityCounts { devices, ..CompatibilityCounts::default() }, HashMap::new());
    let (filter, mut slices, mut after) = (DeviceFilter::default(), TimeSlices::begin(), None);
    loop {
        let page = state.store.devices_page(&filter, after.as_ref(), PAGE).await?;
        for device in &page {
            count_device(description, device, &mut compatibility_counts, &mut reasons);
            slices.next().await;
        }
        if page.len() < PAGE as usize {
            // Devices may have been added in the meantime.
            compatibility_counts.devices = compatibility_counts.evaluated;
            return Ok(with_reasons(&compatibility_counts, &reasons));
        }
        so_far(with_reasons(&compatibility_counts, &reasons));
        after = page.last().map(|device| device.key.clone());
    }
}

fn with_reasons(compatibility_counts: &CompatibilityCounts, reasons: &HashMap<String, u64>) -> CompatibilityCounts {
    let mut reasons: Vec<(&String, &u64)> = reasons.iter().collect();
    reasons.sort_by(|one, other| other.1.cmp(one.1).then_with(|| one.0.cmp(other.0)));
    let reasons = reasons.into_iter().take(REASONS_MAX).map(|(reason, number)| (reason.clone(), *number));
    CompatibilityCounts { reasons: reasons.collect(), ..compatibility_counts.clone() }
}

fn count_device(
    description: &ApplicationDescription,
    device: &Device,
    compatibility_counts: &mut CompatibilityCounts,
    reasons: &mut HashMap<String, u64>,
) {
    compatibility_counts.evaluated += 1;
    let mut note = |reason: String| {
        if reasons.len() < REASONS_COUNTED_MAX || reasons.contains_key(&reason) {
            *reasons.entry(reason).or_default() += 1;
        }
    };
    let Some(capabilities) = devices::capabilities(device) else {
        compatibility_counts.unknown += 1;
        *compatibility_counts.rules.entry(NO_CAPABILITIES.to_owned()).or_default() += 1;
        return note("its capabilities cannot be read".to_owned());
    };
    let Placement { outcome, profiles, .. } = place(description, &capabilities.document, None);
    match outcome {
        Outcome::Yes => {
            compatibility_counts.compatible += 1;
            return;
        }
        Outcome::No => compatibility_counts.incompatible += 1,
        Outcome::Unknown => compatibility_counts.unknown += 1,
    }
    let mut rules = BTreeSet::new();
    for evaluated in profiles {
        let deciding = evaluated
            .compatibility
            .reasons
            .into_iter()
            .filter(|reason| reason.outcome == evaluated.compatibility.outcome);
        for reason in deciding {
            rules.insert(reason.rule);
            note(format!("profile `{}` ({}): {}", evaluated.profile, evaluated.profile_type.as_str(), reason.message));
        }
    }
    for rule in rules {
        *compatibility_counts.rules.entry(rule).or_default() += 1;
    }
}

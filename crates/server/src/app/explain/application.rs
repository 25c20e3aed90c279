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

/// With as many devices evaluated as possible within `patience`.
pub async fn application(state: &ServerState, id: &str, patience: Duration) -> AppResult<Explained> {
    let id = application_id(id)?;
    let versions = state.store.versions(&id).await?;
    let Some(newest) = versions.first() else {
        return Err(lookup::unknown(state, LookupKind::Application, id.as_str()).await);
    };
    let description = state.descriptions.get(&state.store, newest).await?;
    let Progress { value: fit, done } = fit(state, (id.clone(), newest.imported_at), description, patience).await?;
    let facts = Facts {
        application: id.to_string(),
        deployments: counted(state, &id).await?,
        fit: fit.map(|fit| CompatibilityCounts::clone(&fit)).unwrap_or_default(),
        coming: state.store.unfinished_rollouts_of(&id, None, COMING_MAX).await?,
        failed: failed(state, &id).await?,
        versions: versions.into_iter().map(|version| (version.version, version.imported_at)).collect(),
    };
    Ok(Explained { explanation: explain(&facts), in_progress: !done })
}

/// The compatibility of one version, with as many devices evaluated as possible within `patience`.
pub async fn compatibility(
    state: &ServerState,
    id: &str,
    version: &str,
    patience: Duration,
) -> AppResult<Progress<Arc<CompatibilityCounts>>> {
    let id = application_id(id)?;
    let (stored, description) = applications::described(state, &id, version).await?;
    fit(state, (id, stored.imported_at), description, patience).await
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

async fn fit(
    state: &ServerState,
    key: (ApplicationId, Timestamp),
    description: Arc<ApplicationDescription>,
    patience: Duration,
) -> AppResult<Progress<Arc<CompatibilityCounts>>> {
    let devices = state.store.device_count().await?;
    if devices <= AT_ONCE_MAX {
        let fit = evaluate_all(state, &description, devices, |_| {}).await?;
        return Ok(Progress { value: Some(Arc::new(fit)), done: true });
    }
    let own = state.clone();
    let work = |telling: Arc<ProgressSender<Arc<CompatibilityCounts>>>| async move {
        let so_far = |fit: CompatibilityCounts| telling.so_far(Arc::new(fit));
        let fit = evaluate_all(&own, &description, devices, so_far).await.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot evaluate the compatibility of an application"
            );
            CompatibilityCounts { devices, ..CompatibilityCounts::default() }
        });
        Arc::new(fit)
    };
    let mut sight = state.fits.look(key, patience, work).await;
    sight.value.get_or_insert_with(|| Arc::new(CompatibilityCounts { devices, ..CompatibilityCounts::default() }));
    Ok(sight)
}

/// Page by page, with progress after each.
async fn evaluate_all(
    state: &ServerState,
    description: &ApplicationDescription,
    devices: u64,
    so_far: impl Fn(CompatibilityCounts),
) -> AppResult<CompatibilityCounts> {
    let (mut fit, mut reasons) = (CompatibilityCounts { devices, ..CompatibilityCounts::default() }, HashMap::new());
    let (filter, mut turns, mut after) = (DeviceFilter::default(), TimeSlices::begin(), None);
    loop {
        let page = state.store.devices_page(&filter, after.as_ref(), PAGE).await?;
        for device in &page {
            judge(description, device, &mut fit, &mut reasons);
            turns.next().await;
        }
        if page.len() < PAGE as usize {
            // Devices may have been added in the meantime.
            fit.devices = fit.judged;
            return Ok(with_reasons(&fit, &reasons));
        }
        so_far(with_reasons(&fit, &reasons));
        after = page.last().map(|device| device.key.clone());
    }
}

fn with_reasons(fit: &CompatibilityCounts, reasons: &HashMap<String, u64>) -> CompatibilityCounts {
    let mut reasons: Vec<(&String, &u64)> = reasons.iter().collect();
    reasons.sort_by(|one, other| other.1.cmp(one.1).then_with(|| one.0.cmp(other.0)));
    let reasons = reasons.into_iter().take(REASONS_MAX).map(|(reason, number)| (reason.clone(), *number));
    CompatibilityCounts { reasons: reasons.collect(), ..fit.clone() }
}

fn judge(
    description: &ApplicationDescription,
    device: &Device,
    fit: &mut CompatibilityCounts,
    reasons: &mut HashMap<String, u64>,
) {
    fit.judged += 1;
    let mut note = |reason: String| {
        if reasons.len() < REASONS_COUNTED_MAX || reasons.contains_key(&reason) {
            *reasons.entry(reason).or_default() += 1;
        }
    };
    let Some(capabilities) = devices::capabilities(device) else {
        fit.unknown += 1;
        *fit.rules.entry(NO_CAPABILITIES.to_owned()).or_default() += 1;
        return note("its capabilities cannot be read".to_owned());
    };
    let Placement { outcome, profiles, .. } = place(description, &capabilities.document, None);
    match outcome {
        Outcome::Yes => {
            fit.fits += 1;
            return;
        }
        Outcome::No => fit.unfit += 1,
        Outcome::Unknown => fit.unknown += 1,
    }
    let mut rules = BTreeSet::new();
    for judged in profiles {
        let deciding = judged.fit.reasons.into_iter().filter(|reason| reason.outcome == judged.fit.outcome);
        for reason in deciding {
            rules.insert(reason.rule);
            note(format!("profile `{}` ({}): {}", judged.profile, judged.profile_type.as_str(), reason.message));
        }
    }
    for rule in rules {
        *fit.rules.entry(rule).or_default() += 1;
    }
}

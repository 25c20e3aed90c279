//! Gathers what is known of an application: counts are those of the overview, fit from looking at every device.

use super::sentence;
use super::words::application::{Facts, Failed, Fit, explain};
use crate::app::applications::application_id;
use crate::app::beside::{AT_ONCE_MAX, Beside, Sight, Telling};
use crate::app::error::{AppError, AppResult};
use crate::app::turns::Turns;
use crate::app::{devices, overview};
use crate::state::ServerState;
use margo::constraints::Outcome;
use margo::description::ApplicationDescription;
use margo::ids::ApplicationId;
use margrave_api::explain::Explanation;
use margrave_api::summary::Counts;
use margrave_core::convergence::Convergence;
use margrave_core::model::{ClientState, Device};
use margrave_core::placement::{Placement, place};
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeviceFilter};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Devices read at once.
const PAGE: u32 = 100;
/// Reasons that are named.
const REASONS_MAX: usize = 5;
/// Different reasons counted; what comes after is not among the commonest.
const REASONS_COUNTED_MAX: usize = 1000;
const FAILED_MAX: u32 = 5;
const COMING_MAX: u32 = 10;

/// An application in words.
#[derive(Debug)]
pub struct Explained {
    pub explanation: Explanation,
    /// Whether devices are still being judged.
    pub under_way: bool,
}

/// Where the version imported then could run.
pub type Fits = Beside<(ApplicationId, Timestamp), Arc<Fit>>;

/// With as many devices judged as can be while somebody waits for `patience`.
pub async fn application(state: &ServerState, id: &str, patience: Duration) -> AppResult<Explained> {
    let id = application_id(id)?;
    let versions = state.store.versions(&id).await?;
    let newest = versions.first().ok_or_else(|| AppError::not_found(format_args!("application `{id}`")))?;
    let description = state.descriptions.get(&state.store, newest).await?;
    let Sight { value: fit, done } = fit(state, (id.clone(), newest.imported_at), description, patience).await?;
    let facts = Facts {
        application: id.to_string(),
        deployments: counted(state, &id).await?,
        fit: fit.map(|fit| Fit::clone(&fit)).unwrap_or_default(),
        coming: state.store.changes_coming(&id, None, COMING_MAX).await?,
        failed: failed(state, &id).await?,
        versions: versions.into_iter().map(|version| (version.version, version.imported_at)).collect(),
    };
    Ok(Explained { explanation: explain(&facts), under_way: !done })
}

/// Deployments by version; in a large fleet as they were counted last.
async fn counted(state: &ServerState, id: &ApplicationId) -> AppResult<BTreeMap<String, BTreeMap<Convergence, u64>>> {
    let overview = overview::get(state).await?;
    let versions = overview.uses.get(id.as_str()).into_iter().flatten();
    let domain = |counts: &Counts| counts.0.iter().map(|(state, number)| ((*state).into(), *number)).collect();
    Ok(versions.map(|(version, counts)| (version.clone(), domain(counts))).collect())
}

/// Some deployments that failed, with the reason.
async fn failed(state: &ServerState, id: &ApplicationId) -> AppResult<Vec<Failed>> {
    let filter = DeploymentFilter {
        application: Some(id.clone()),
        convergence: Some(Convergence::Failed),
        ..DeploymentFilter::default()
    };
    let views = state.store.deployments_page(&filter, state.silent_since(), None, FAILED_MAX).await?;
    Ok(views
        .iter()
        .map(|view| Failed {
            id: view.deployment.id.to_string(),
            place: format!("{}/{}", view.deployment.client, view.deployment.target),
            why: sentence(
                &view.deployment,
                view.reported.as_ref(),
                (ClientState::Accepted, view.last_seen_at),
                Convergence::Failed,
            ),
        })
        .collect())
}

async fn fit(
    state: &ServerState,
    key: (ApplicationId, Timestamp),
    description: Arc<ApplicationDescription>,
    patience: Duration,
) -> AppResult<Sight<Arc<Fit>>> {
    let devices = state.store.device_count().await?;
    if devices <= AT_ONCE_MAX {
        let fit = judge_all(state, &description, devices, |_| {}).await?;
        return Ok(Sight { value: Some(Arc::new(fit)), done: true });
    }
    let own = state.clone();
    let work = |telling: Arc<Telling<Arc<Fit>>>| async move {
        let so_far = |fit: Fit| telling.so_far(Arc::new(fit));
        let fit = judge_all(&own, &description, devices, so_far).await.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot judge where an application could run");
            Fit { devices, ..Fit::default() }
        });
        Arc::new(fit)
    };
    let mut sight = state.fits.look(key, patience, work).await;
    sight.value.get_or_insert_with(|| Arc::new(Fit { devices, ..Fit::default() }));
    Ok(sight)
}

/// Page by page, saying after each how far it is.
async fn judge_all(
    state: &ServerState,
    description: &ApplicationDescription,
    devices: u64,
    so_far: impl Fn(Fit),
) -> AppResult<Fit> {
    let (mut fit, mut reasons) = (Fit { devices, ..Fit::default() }, HashMap::new());
    let (filter, mut turns, mut after) = (DeviceFilter::default(), Turns::begin(), None);
    loop {
        let page = state.store.devices_page(&filter, after.as_ref(), PAGE).await?;
        for device in &page {
            judge(description, device, &mut fit, &mut reasons);
            turns.next().await;
        }
        if page.len() < PAGE as usize {
            // Some may have come meanwhile.
            fit.devices = fit.judged;
            return Ok(with_reasons(&fit, &reasons));
        }
        so_far(with_reasons(&fit, &reasons));
        after = page.last().map(|device| device.key.clone());
    }
}

fn with_reasons(fit: &Fit, reasons: &HashMap<String, u64>) -> Fit {
    let mut reasons: Vec<(&String, &u64)> = reasons.iter().collect();
    reasons.sort_by(|one, other| other.1.cmp(one.1).then_with(|| one.0.cmp(other.0)));
    let reasons = reasons.into_iter().take(REASONS_MAX).map(|(reason, number)| (reason.clone(), *number));
    Fit { reasons: reasons.collect(), ..fit.clone() }
}

fn judge(description: &ApplicationDescription, device: &Device, fit: &mut Fit, reasons: &mut HashMap<String, u64>) {
    fit.judged += 1;
    let mut note = |reason: String| {
        if reasons.len() < REASONS_COUNTED_MAX || reasons.contains_key(&reason) {
            *reasons.entry(reason).or_default() += 1;
        }
    };
    let Some(capabilities) = devices::capabilities(device) else {
        fit.unknown += 1;
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
    for judged in profiles {
        let deciding = judged.fit.reasons.into_iter().filter(|reason| reason.outcome == judged.fit.outcome);
        for reason in deciding {
            note(format!("profile `{}` ({}): {}", judged.profile, judged.profile_type.as_str(), reason.message));
        }
    }
}

//! Gathers what is known of an application: counts come from the database, fit from a bounded number of devices.

use super::sentence;
use super::words::application::{Facts, Fit, explain};
use crate::app::applications::application_id;
use crate::app::devices;
use crate::app::error::{AppError, AppResult};
use crate::state::ServerState;
use margo::constraints::Outcome;
use margo::description::ApplicationDescription;
use margo::ids::ApplicationId;
use margrave_api::explain::Explanation;
use margrave_core::convergence::Convergence;
use margrave_core::model::Device;
use margrave_core::placement::{Placement, place};
use margrave_store::{DeploymentFilter, DeviceFilter};
use std::collections::HashMap;

/// Devices judged for one explanation, page by page; judging one takes some microseconds. `fit` goes through all of them.
const DEVICES_JUDGED_MAX: usize = 5000;
const PAGE: u32 = 500;
/// Reasons that are named.
const REASONS_MAX: usize = 5;
/// Different reasons counted; what comes after is not among the commonest.
const REASONS_COUNTED_MAX: usize = 1000;
const FAILED_MAX: u32 = 5;
const COMING_MAX: u32 = 10;

pub async fn application(state: &ServerState, id: &str) -> AppResult<Explanation> {
    let id = application_id(id)?;
    let versions = state.store.versions(&id).await?;
    let newest = versions.first().ok_or_else(|| AppError::not_found(format_args!("application `{id}`")))?;
    let description = state.descriptions.get(&state.store, newest).await?;
    let facts = Facts {
        application: id.to_string(),
        deployments: state.store.application_summary(&id, state.silent_since()).await?,
        fit: fit(state, &description).await?,
        coming: state.store.changes_coming(&id, None, COMING_MAX).await?,
        failed: failed(state, &id).await?,
        versions: versions.into_iter().map(|version| (version.version, version.imported_at)).collect(),
    };
    Ok(explain(&facts))
}

/// Some deployments that failed, with the reason.
async fn failed(state: &ServerState, id: &ApplicationId) -> AppResult<Vec<(String, String)>> {
    let filter = DeploymentFilter {
        application: Some(id.clone()),
        convergence: Some(Convergence::Failed),
        ..DeploymentFilter::default()
    };
    let views = state.store.deployments_page(&filter, state.silent_since(), None, FAILED_MAX).await?;
    Ok(views
        .iter()
        .map(|view| {
            let why = sentence(&view.deployment, view.reported.as_ref(), view.last_seen_at, Convergence::Failed);
            (view.deployment.id.to_string(), why)
        })
        .collect())
}

async fn fit(state: &ServerState, description: &ApplicationDescription) -> AppResult<Fit> {
    let mut fit = Fit { devices: state.store.device_count().await?, ..Fit::default() };
    let mut reasons: HashMap<String, u64> = HashMap::new();
    let filter = DeviceFilter::default();
    let mut after = None;
    while (fit.judged as usize) < DEVICES_JUDGED_MAX {
        let page = state.store.devices_page(&filter, after.as_ref(), PAGE).await?;
        for device in &page {
            judge(description, device, &mut fit, &mut reasons);
        }
        after = page.last().map(|device| device.key.clone());
        if page.len() < PAGE as usize {
            break;
        }
        // Judging takes the thread; others get their turn between pages.
        tokio::task::yield_now().await;
    }
    let mut reasons: Vec<(String, u64)> = reasons.into_iter().collect();
    reasons.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    reasons.truncate(REASONS_MAX);
    Ok(Fit { reasons, ..fit })
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
            note(format!("profile `{}`: {}", judged.profile, reason.message));
        }
    }
}

//! Gathers facts about a deployment or a device; reads a bounded number of rows for any fleet size.

use super::sentence;
use super::words::{deployment as deployment_words, device as device_words};
use crate::app::devices::{self, KeyText};
use crate::app::error::{AppError, AppResult};
use crate::app::{clients, deployments};
use crate::state::ServerState;
use deployment_words::Connectivity;
use margo::ids::{ClientId, DeviceTarget};
use margrave_api::explain::Explanation;
use margrave_core::deployment_state::state_of;
use margrave_core::model::{ClientState, DeviceKey, Reported};
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeploymentView};

/// Rollouts in progress that are named; there are rarely two.
const COMING_MAX: u32 = 10;
/// Deployments of one device that are named; a device hosts a handful.
const DEPLOYMENTS_MAX: u32 = 50;

pub async fn deployment(state: &ServerState, id: &str) -> AppResult<Explanation> {
    let view = deployments::existing(state, id).await?;
    let link = link(state, &view.deployment.client, &view.deployment.target, view.last_seen_at).await?;
    let host = view.reported.as_ref().and_then(|reported| deployments::status_to_wire(reported).hosted_by);
    let simulated = deployments::Simulated::among(state, std::slice::from_ref(&view)).await?;
    let simulated = simulated.has(&view.deployment, host.as_deref());
    let DeploymentView { deployment, reported, .. } = view;
    let (forgotten, held) = match deployment.target.device().or_else(|| deployment.target.gateway()) {
        Some(device) => {
            let key = DeviceKey { client: deployment.client.clone(), device };
            let found = state.store.device_get(&key).await?;
            let read = found.as_ref().and_then(devices::capabilities);
            (found.is_none(), read.and_then(|read| margrave_core::hold::announced(&read.document)))
        }
        None => (false, None),
    };
    let revisions = state.store.deployment_revisions(deployment.id).await?;
    let history = state.store.status_history(deployment.id).await?;
    let mut coming =
        state.store.unfinished_rollouts_of(&deployment.application, Some(deployment.id), COMING_MAX).await?;
    // A rollout in progress has reached the deployments whose last rollout it is.
    coming.retain(|rollout| rollout.id != deployment.rollout);
    let adopted = reported.as_ref().map(|reported| reported.adopted_version).filter(|version| *version != 0);
    let adopted_revision = adopted.and_then(|adopted| {
        revisions.iter().find(|revision| revision.manifest_version <= adopted).map(|revision| revision.revision)
    });
    let deployment_state = state_of(&deployment, reported.as_ref(), link.last_seen, state.offline_before());
    Ok(deployment_words::explain(&deployment_words::Facts {
        reported_since: reported.as_ref().and_then(|reported| reported_since(reported, &history)),
        revision: revisions.iter().find(|revision| revision.revision == deployment.revision),
        adopted_revision,
        reported: reported.as_ref(),
        deployment_state,
        client: link,
        coming: &coming,
        simulated,
        held,
        forgotten,
        deployment: &deployment,
    }))
}

/// The first of the reports with the same content as the last one.
fn reported_since(reported: &Reported, history: &[Reported]) -> Option<Timestamp> {
    let same = |one: &&Reported| one.state == reported.state && one.adopted_version == reported.adopted_version;
    history.iter().take_while(same).last().map(|first| first.received_at)
}

pub async fn device(state: &ServerState, client: &str, device: &str) -> AppResult<Explanation> {
    let key = devices::key(client, device)?;
    let found = state.store.device_get(&key).await?;
    let found = found.ok_or_else(|| AppError::not_found(format_args!("device `{}`", KeyText(key.clone()))))?;
    let target = DeviceTarget::from(&key.device);
    let link = link(state, &key.client, &target, found.last_seen_at).await?;
    let mut views = Vec::new();
    // A deployment placed by its gateway counts for the gateway.
    for target in [Some(target), format!("{}/*", key.device).parse().ok()].into_iter().flatten() {
        let filter = DeploymentFilter {
            client: Some(key.client.clone()),
            target: Some(target),
            with_absent: true,
            ..DeploymentFilter::default()
        };
        views.extend(state.store.deployments_page(&filter, state.offline_before(), None, DEPLOYMENTS_MAX + 1).await?);
    }
    let more = views.len() > DEPLOYMENTS_MAX as usize;
    views.truncate(DEPLOYMENTS_MAX as usize);
    let placed = views.into_iter().filter_map(|view| placed(state, &link, &view)).collect();
    let capabilities = devices::capabilities(&found).map(|read| read.document);
    let hosts_workloads = capabilities.as_ref().is_some_and(|read| read.properties.hosts_workloads());
    let simulated = capabilities.as_ref().is_some_and(margrave_core::runtime::is_simulated);
    let no_runtime = capabilities.as_ref().is_some_and(margrave_core::runtime::has_none);
    let held = capabilities.as_ref().and_then(margrave_core::hold::announced);
    Ok(device_words::explain(&device_words::Facts {
        key: &key,
        client: link,
        reported_at: found.reported_at,
        hosts_workloads,
        simulated,
        no_runtime,
        held,
        deployments: placed,
        more,
    }))
}

/// `None` for a deployment that no longer exists.
fn placed(state: &ServerState, link: &Connectivity, view: &DeploymentView) -> Option<device_words::DeviceDeployment> {
    use margrave_core::deployment_state::DeploymentState;
    let (deployment, reported) = (&view.deployment, view.reported.as_ref());
    let deployment_state = state_of(deployment, reported, link.last_seen, state.offline_before());
    if deployment_state == DeploymentState::Removed {
        return None;
    }
    Some(device_words::DeviceDeployment {
        id: deployment.id.to_string(),
        what: format!("`{}` {}", deployment.application, deployment.version),
        desired: deployment.desired,
        deployment_state,
        sentence: sentence(deployment, reported, (link.state, link.last_seen), deployment_state),
        since: deployment.updated_at,
    })
}

/// The client of a target.
async fn link(
    state: &ServerState,
    client: &ClientId,
    target: &DeviceTarget,
    seen_at: Option<Timestamp>,
) -> AppResult<Connectivity> {
    let known = clients::find(state, client).await?;
    let last_seen = state.heads.last_seen(client).max(seen_at);
    let gateway = target.gateway().or_else(|| target.device().and_then(|device| device.parent()));
    Ok(Connectivity {
        client: client.to_string(),
        gateway: gateway.map(|gateway| gateway.to_string()),
        state: known.map_or(ClientState::Decommissioned, |client| client.state),
        last_seen,
        offline: last_seen.is_none_or(|seen| seen < state.offline_before()),
    })
}

//! Summary counts of the fleet.

use super::error::AppResult;
use crate::state::ServerState;
use margrave_api::summary as wire;
use margrave_core::deployment_state::DeploymentState;
use std::collections::BTreeMap;

pub async fn get(state: &ServerState) -> AppResult<wire::Summary> {
    let summary = state.store.summary(state.offline_before()).await?;
    Ok(wire::Summary {
        clients: wire::ClientCounts {
            accepted: summary.clients_accepted,
            pending: summary.clients_pending,
            decommissioned: summary.clients_decommissioned,
            offline: summary.clients_offline,
        },
        devices: summary.devices,
        applications: summary.applications,
        deployments: counts(summary.deployments),
        rollouts_unfinished: summary.rollouts_unfinished,
        offline_after_seconds: state.config.offline_after().as_secs(),
        at: state.now().to_string(),
    })
}

pub(crate) fn counts(counts: BTreeMap<DeploymentState, u64>) -> wire::Counts {
    wire::Counts(counts.into_iter().map(|(deployment_state, count)| (deployment_state.into(), count)).collect())
}

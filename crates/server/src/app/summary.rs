//! The fleet in a few numbers.

use super::error::AppResult;
use crate::state::ServerState;
use margrave_api::summary as wire;
use margrave_core::convergence::Convergence;
use std::collections::BTreeMap;

pub async fn get(state: &ServerState) -> AppResult<wire::Summary> {
    let summary = state.store.summary(state.silent_since()).await?;
    Ok(wire::Summary {
        clients: wire::ClientCounts {
            accepted: summary.clients_accepted,
            pending: summary.clients_pending,
            retired: summary.clients_retired,
            silent: summary.clients_silent,
        },
        devices: summary.devices,
        applications: summary.applications,
        deployments: counts(summary.deployments),
        changes_unfinished: summary.changes_unfinished,
        silent_after_seconds: state.config.silent_after().as_secs(),
        at: state.now().to_string(),
    })
}

pub(crate) fn counts(counts: BTreeMap<Convergence, u64>) -> wire::Counts {
    wire::Counts(counts.into_iter().map(|(convergence, count)| (convergence.into(), count)).collect())
}

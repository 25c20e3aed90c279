//! Aggregated state.

use crate::deployments::DeploymentState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Deployments counted by state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = BTreeMap<String, u64>)]
pub struct Counts(pub BTreeMap<DeploymentState, u64>);

impl Counts {
    pub fn of(&self, deployment_state: DeploymentState) -> u64 {
        self.0.get(&deployment_state).copied().unwrap_or_default()
    }

    /// Deployments whose devices have what is desired.
    pub fn done(&self) -> u64 {
        self.of(DeploymentState::UpToDate) + self.of(DeploymentState::Removed)
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `GET /api/summary`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub clients: ClientCounts,
    pub devices: u64,
    pub applications: u64,
    pub deployments: Counts,
    pub rollouts_unfinished: u64,
    /// A client counts as offline after this long.
    pub offline_after_seconds: u64,
    pub at: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCounts {
    pub accepted: u64,
    pub pending: u64,
    pub decommissioned: u64,
    pub offline: u64,
}

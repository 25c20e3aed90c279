//! Aggregated state.

use crate::deployments::Convergence;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Deployments counted by convergence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = BTreeMap<String, u64>)]
pub struct Counts(pub BTreeMap<Convergence, u64>);

impl Counts {
    pub fn of(&self, convergence: Convergence) -> u64 {
        self.0.get(&convergence).copied().unwrap_or_default()
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
    pub changes_unfinished: u64,
    /// A client counts as silent after this long.
    pub silent_after_seconds: u64,
    pub at: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCounts {
    pub accepted: u64,
    pub pending: u64,
    pub retired: u64,
    pub silent: u64,
}

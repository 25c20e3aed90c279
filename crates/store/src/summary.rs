//! Aggregated state, counted in SQL.

use crate::{Result, Store};
use margo::ids::ApplicationId;
use margrave_core::convergence::Convergence;
use margrave_core::time::Timestamp;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    pub clients_accepted: u64,
    pub clients_pending: u64,
    pub clients_retired: u64,
    pub clients_silent: u64,
    pub devices: u64,
    pub applications: u64,
    pub deployments: BTreeMap<Convergence, u64>,
    pub changes_unfinished: u64,
}

impl Store {
    pub async fn summary(&self, silent_since: Timestamp) -> Result<Summary> { let _ = silent_since; todo!() }
    /// Deployments of one application by convergence, per version.
    pub async fn application_summary(&self, application: &ApplicationId, silent_since: Timestamp) -> Result<BTreeMap<String, BTreeMap<Convergence, u64>>> { let _ = (application, silent_since); todo!() }
    /// Deployments of one change by convergence.
    pub async fn change_summary(&self, change: uuid::Uuid, silent_since: Timestamp) -> Result<BTreeMap<Convergence, u64>> { let _ = (change, silent_since); todo!() }
}

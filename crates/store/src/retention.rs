//! Bounded histories.

use crate::{Result, Store};
use margrave_core::time::Timestamp;

/// How much history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub revisions_per_deployment: u32,
    pub statuses_per_deployment: u32,
    /// Replaced YAMLs and bundles stay this long, for clients in the middle of fetching them.
    pub replaced_artifacts: std::time::Duration,
    pub finished_changes: std::time::Duration,
    pub removed_deployments: std::time::Duration,
}

impl Store {
    /// Removes what is over its bound, a bounded number of rows at a time; returns how many went. Never touches the audit.
    pub async fn prune(&self, retention: &Retention, now: Timestamp) -> Result<u64> { let _ = (retention, now); todo!() }
}

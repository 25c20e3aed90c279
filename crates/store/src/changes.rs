//! Changes: durable intents, carried out in batches. Each batch is one transaction: deployments, manifests, audit, progress.

use crate::clients::Head;
use crate::{Result, Store};
use margo::deployment::ApplicationDeployment;
use margo::parameters::Answers;
use margrave_core::model::{Change, ChangeTarget};
use margrave_core::time::Timestamp;
use uuid::Uuid;

/// The most devices one transaction may touch, so that others are not kept waiting.
pub const BATCH_TARGETS_MAX: usize = 500;

/// What to do for one target of a change.
#[derive(Debug, Clone)]
pub struct BatchItem {
    pub target: ChangeTarget,
    pub write: BatchWrite,
}

#[derive(Debug, Clone)]
pub enum BatchWrite {
    /// Create or replace: the document to serve, with its values.
    Put { document: Box<ApplicationDeployment>, yaml: Vec<u8>, version: String, values: Answers },
    Remove,
    /// Nothing can be done; recorded with the reason.
    Skip { reason: String },
}

impl Store {
    /// Records the intent (one row, whatever the number of targets) with its audit entry.
    pub async fn change_create(&self, change: &Change) -> Result<()> { let _ = change; todo!() }
    pub async fn change_get(&self, id: Uuid) -> Result<Option<Change>> { let _ = id; todo!() }
    /// Newest first; `before` is the (created_at, id) of the last one seen.
    pub async fn changes_page(&self, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<Change>> { let _ = (before, limit); todo!() }
    /// The oldest changes not finished yet, for resuming after a restart.
    pub async fn changes_unfinished(&self, limit: u32) -> Result<Vec<Change>> { let _ = limit; todo!() }
    /// Carries out `items` (the targets from `change.done` on) in one transaction and moves `done`; finishes the change
    /// with its last batch. Does nothing and returns no heads when `done` is not where the caller thinks it is.
    /// Targets whose deployment is no longer at the expected revision are skipped with the reason.
    pub async fn change_apply(&self, change: Uuid, done: usize, items: &[BatchItem], now: Timestamp) -> Result<Vec<Head>> { let _ = (change, done, items, now); todo!() }
}

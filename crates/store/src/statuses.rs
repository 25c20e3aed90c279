//! Status reports: the last word per deployment, and a bounded history.

use crate::{Result, Store};
use margo::ids::{ClientId, DeploymentId};
use margo::status::DeploymentStatus;
use margrave_core::model::Reported;
use margrave_core::time::Timestamp;

#[derive(Debug, Clone)]
pub struct StatusWrite {
    pub client: ClientId,
    pub status: DeploymentStatus,
    pub body: Vec<u8>,
    pub received_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusOutcome {
    /// Stored (or already superseded by a newer adopted version; either way it need not be sent again).
    Kept,
    /// Never assigned to this client (W-11).
    UnknownDeployment,
}

impl Store {
    /// Writes many reports in one transaction; one outcome per report, in order.
    pub async fn statuses_put(&self, reports: &[StatusWrite]) -> Result<Vec<StatusOutcome>> { let _ = reports; todo!() }
    /// Newest first, bounded.
    pub async fn status_history(&self, deployment: DeploymentId) -> Result<Vec<Reported>> { let _ = deployment; todo!() }
}

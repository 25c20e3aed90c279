//! Deployments and their revisions.

use crate::{Result, Store};
use margo::ids::{ApplicationId, ClientId, DeploymentId, DeviceTarget};
use margrave_core::convergence::Convergence;
use margrave_core::model::{Deployment, DeploymentRevision, Reported};
use margrave_core::time::Timestamp;
use uuid::Uuid;

#[derive(Debug, Clone, Default)]
pub struct DeploymentFilter {
    pub application: Option<ApplicationId>,
    pub version: Option<String>,
    pub client: Option<ClientId>,
    pub target: Option<DeviceTarget>,
    pub change: Option<Uuid>,
    pub convergence: Option<Convergence>,
    /// Also those dropped from the manifest.
    pub with_absent: bool,
}

/// A deployment with what its client last said.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentView {
    pub deployment: Deployment,
    pub reported: Option<Reported>,
    pub last_seen_at: Option<Timestamp>,
}

impl Store {
    pub async fn deployment_get(&self, id: DeploymentId) -> Result<Option<DeploymentView>> { let _ = id; todo!() }
    /// In order of id. `silent_since` as in [`margrave_core::convergence::judge`], needed for the convergence filter.
    pub async fn deployments_page(&self, filter: &DeploymentFilter, silent_since: Timestamp, after: Option<DeploymentId>, limit: u32) -> Result<Vec<DeploymentView>> { let _ = (filter, silent_since, after, limit); todo!() }
    /// Newest first, at most the retained number.
    pub async fn deployment_revisions(&self, id: DeploymentId) -> Result<Vec<DeploymentRevision>> { let _ = id; todo!() }
    /// The YAML served (or once served) for this deployment.
    pub async fn deployment_document(&self, id: DeploymentId, revision: i64) -> Result<Option<Vec<u8>>> { let _ = (id, revision); todo!() }
}

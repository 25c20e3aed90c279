//! Deployments: one application version on one device.

use crate::policies::{Policy, PolicyPatch};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeploymentState {
    UpToDate,
    Updating,
    Failed,
    Outdated,
    /// No report yet, or a retry without a report yet.
    Pending,
    DeviceOffline,
    /// Is to be removed: the device is at it.
    Removing,
    Removed,
}

impl DeploymentState {
    pub const ALL: [Self; 8] = [
        Self::UpToDate,
        Self::Updating,
        Self::Failed,
        Self::Outdated,
        Self::Pending,
        Self::DeviceOffline,
        Self::Removing,
        Self::Removed,
    ];

    /// The wire value.
    pub fn as_str(self) -> &'static str {
        margrave_core::deployment_state::DeploymentState::from(self).as_str()
    }

    /// Whether the device has what is desired.
    pub fn is_done(self) -> bool {
        margrave_core::deployment_state::DeploymentState::from(self).is_done()
    }

    /// Whether nothing is expected of the device until an operator acts: it is done, or it failed.
    pub fn is_settled(self) -> bool {
        margrave_core::deployment_state::DeploymentState::from(self).is_settled()
    }
}

impl From<margrave_core::deployment_state::DeploymentState> for DeploymentState {
    fn from(deployment_state: margrave_core::deployment_state::DeploymentState) -> Self {
        use margrave_core::deployment_state::DeploymentState as Domain;
        match deployment_state {
            Domain::UpToDate => Self::UpToDate,
            Domain::Updating => Self::Updating,
            Domain::Failed => Self::Failed,
            Domain::Outdated => Self::Outdated,
            Domain::Pending => Self::Pending,
            Domain::DeviceOffline => Self::DeviceOffline,
            Domain::Removing => Self::Removing,
            Domain::Removed => Self::Removed,
        }
    }
}

impl From<DeploymentState> for margrave_core::deployment_state::DeploymentState {
    fn from(deployment_state: DeploymentState) -> Self {
        match deployment_state {
            DeploymentState::UpToDate => Self::UpToDate,
            DeploymentState::Updating => Self::Updating,
            DeploymentState::Failed => Self::Failed,
            DeploymentState::Outdated => Self::Outdated,
            DeploymentState::Pending => Self::Pending,
            DeploymentState::DeviceOffline => Self::DeviceOffline,
            DeploymentState::Removing => Self::Removing,
            DeploymentState::Removed => Self::Removed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Desired {
    Present,
    Absent,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    pub id: String,
    pub client: String,
    pub device: String,
    pub application: String,
    pub version: String,
    pub profile: String,
    pub revision: i64,
    pub desired: Desired,
    pub state: DeploymentState,
    /// The agent of its device runs with the simulated runtime: nothing is really installed.
    #[serde(default)]
    pub simulated: bool,
    /// One sentence: the observed state and what it waits for.
    pub explanation: String,
    /// Manifest version that a report must be about to count: that of this revision, or of a later retry.
    pub target_version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<Status>,
    /// In state `failed`: since when it fails, and how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
    /// It failed and the device retries: the failure. `state` stays `failed` until it succeeds; `reported` is about the
    /// current attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_with: Option<Status>,
    /// Resolved values; sensitive ones are masked.
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
    /// The deployment policies.
    #[serde(default)]
    pub policy: Policy,
    pub digest: String,
    pub rollout: String,
    pub created_at: String,
    pub updated_at: String,
}

impl Deployment {
    /// The report with the error: the last one, or the failure before a retry in progress.
    pub fn said_wrong(&self) -> Option<&Status> {
        self.failed_with.as_ref().or(self.reported.as_ref())
    }
}

/// Failures since the last success or new revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// The first failure.
    pub since: String,
    /// Failed attempts.
    pub attempts: u64,
    /// The last failure.
    pub last_at: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// pending, installing, installed, removing, removed or failed.
    pub state: String,
    /// 0 when the client does not report it.
    pub adopted_version: u64,
    pub received_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<StatusError>,
    pub components: Vec<ComponentStatus>,
    /// The device that hosts it, as selected by a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosted_by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    pub name: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<StatusError>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusError {
    pub code: String,
    pub source: String,
    pub message: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    pub revision: i64,
    pub action: crate::rollouts::RolloutKind,
    pub version: String,
    pub profile: String,
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
    pub digest: String,
    pub manifest_version: u64,
    pub at: String,
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    pub rollout: String,
    /// For a rollback: the earlier revision whose version and values it uses again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<i64>,
}

/// `PATCH /api/deployments/{id}`: another version, values or policy. Values are merged over the current ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateDeployment {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
    #[serde(default, skip_serializing_if = "PolicyPatch::is_empty")]
    pub policy: PolicyPatch,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `POST /api/deployments/{id}/retry`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryDeployment {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `POST /api/deployments/{id}/rollback`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RollbackDeployment {
    /// The earlier revision whose version and values to use again.
    pub revision: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

//! Deployments: one application version on one device.

use crate::policies::{Policy, PolicyWish};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Convergence {
    Converged,
    Applying,
    Failed,
    OlderRevision,
    /// Nothing said yet, or told the same revision again and not answered yet.
    Waiting,
    NotHeardOf,
}

impl Convergence {
    pub const ALL: [Self; 6] =
        [Self::Converged, Self::Applying, Self::Failed, Self::OlderRevision, Self::Waiting, Self::NotHeardOf];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        margrave_core::convergence::Convergence::from(self).as_str()
    }
}

impl From<margrave_core::convergence::Convergence> for Convergence {
    fn from(convergence: margrave_core::convergence::Convergence) -> Self {
        use margrave_core::convergence::Convergence as Domain;
        match convergence {
            Domain::Converged => Self::Converged,
            Domain::Applying => Self::Applying,
            Domain::Failed => Self::Failed,
            Domain::OlderRevision => Self::OlderRevision,
            Domain::Waiting => Self::Waiting,
            Domain::NotHeardOf => Self::NotHeardOf,
        }
    }
}

impl From<Convergence> for margrave_core::convergence::Convergence {
    fn from(convergence: Convergence) -> Self {
        match convergence {
            Convergence::Converged => Self::Converged,
            Convergence::Applying => Self::Applying,
            Convergence::Failed => Self::Failed,
            Convergence::OlderRevision => Self::OlderRevision,
            Convergence::Waiting => Self::Waiting,
            Convergence::NotHeardOf => Self::NotHeardOf,
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
    pub convergence: Convergence,
    /// The agent of its device says that it runs with the simulated runtime: nothing is really installed.
    #[serde(default)]
    pub simulated: bool,
    /// One sentence: what is known and what is waited for.
    pub explanation: String,
    /// Manifest version a report must be about to count: the one this revision was published with, or that of a later retry.
    pub target_version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// It failed and tries again by itself: what it failed with. `convergence` stays `failed` until it succeeds; `status` is about
    /// the present attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_with: Option<Status>,
    /// Resolved values; sensitive ones are masked.
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
    /// What the device does by itself.
    #[serde(default)]
    pub policy: Policy,
    pub digest: String,
    pub change: String,
    pub created_at: String,
    pub updated_at: String,
}

impl Deployment {
    /// The report that says what is wrong: the last one, or the failure before an attempt that is under way.
    pub fn said_wrong(&self) -> Option<&Status> {
        self.failed_with.as_ref().or(self.status.as_ref())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// pending, installing, installed, removing, removed or failed.
    pub state: String,
    /// 0 when the client does not know it.
    pub adopted_version: u64,
    pub received_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<StatusError>,
    pub components: Vec<ComponentStatus>,
    /// The device that hosts it, where a gateway chose one.
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
    pub action: crate::changes::ChangeKind,
    pub version: String,
    pub profile: String,
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
    pub digest: String,
    pub manifest_version: u64,
    pub at: String,
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub change: String,
}

/// `PATCH /api/deployments/{id}`: another version, other answers, another policy. Answers are merged over the present ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateDeployment {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = Object)]
    pub answers: IndexMap<String, serde_json::Value>,
    #[serde(default, skip_serializing_if = "PolicyWish::is_empty")]
    pub policy: PolicyWish,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /api/deployments/{id}/retry`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryDeployment {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /api/deployments/{id}/revert`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevertDeployment {
    /// The earlier revision whose version and answers are wanted again.
    pub revision: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

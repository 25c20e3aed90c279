//! Rollouts: one operator decision for one or many devices.

use crate::deployments::DeploymentState;
use crate::devices::{DeviceName, DeviceRef};
use crate::policies::PolicyPatch;
use crate::summary::Counts;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutKind {
    Create,
    Reconfigure,
    Upgrade,
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RolloutState {
    /// Not published to all devices yet, or some are still updating.
    InProgress,
    /// Reserved.
    Paused,
    Completed,
    CompletedWithFailures,
    /// Some targets were left unchanged.
    Cancelled,
}

impl RolloutState {
    pub const ALL: [Self; 5] =
        [Self::InProgress, Self::Paused, Self::Completed, Self::CompletedWithFailures, Self::Cancelled];

    /// The wire value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in-progress",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::CompletedWithFailures => "completed-with-failures",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<margrave_core::model::RolloutState> for RolloutState {
    fn from(state: margrave_core::model::RolloutState) -> Self {
        use margrave_core::model::RolloutState as Domain;
        match state {
            Domain::InProgress => Self::InProgress,
            Domain::Completed => Self::Completed,
            Domain::CompletedWithFailures => Self::CompletedWithFailures,
            Domain::Cancelled => Self::Cancelled,
        }
    }
}

/// Which devices (for create) or which existing deployments (otherwise). Exactly one of the members.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scope {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<DeviceRef>>,
    /// A label selector over devices; empty text means every device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Existing deployments by id; not for create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployments: Option<Vec<String>>,
}

/// `POST /api/deployments` (create) and `POST /api/rollouts` (any kind). With `?dryRun=true` nothing is recorded and the
/// response is a [`Plan`].
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateRollout {
    pub kind: RolloutKind,
    pub application: String,
    /// Required for create and upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Use this profile instead of the first compatible one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub scope: Scope,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
    #[serde(default, skip_serializing_if = "PolicyPatch::is_empty")]
    pub policy: PolicyPatch,
    /// With a selector or group: skip incompatible devices instead of rejecting the whole rollout.
    #[serde(default)]
    pub skip_incompatible: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    pub id: String,
    pub kind: RolloutKind,
    pub application: String,
    pub version: String,
    pub state: RolloutState,
    pub total: u64,
    /// Targets whose manifests are published.
    pub published: u64,
    pub skipped: Vec<Skipped>,
    /// Whether its manifests are published, to all targets or up to its cancellation; devices may still be updating.
    pub finished: bool,
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Its deployments by state; only in the response for one rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployments: Option<Counts>,
    /// Its values, sensitive ones masked; only in the response for one rollout.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
    /// Targets that no longer belong to this rollout, because a later rollout changed them or because they were deleted
    /// after their removal, by their last state.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub past: Counts,
    /// For a rollback of one deployment: the earlier revision whose version and values it uses again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<i64>,
}

impl Rollout {
    /// States of its targets, or their last states when they ceased to belong to this rollout.
    pub fn outcome(&self) -> Counts {
        let mut counts = self.deployments.clone().unwrap_or_default();
        for (deployment_state, count) in &self.past.0 {
            *counts.0.entry(*deployment_state).or_default() += count;
        }
        counts
    }

    /// Targets that a later rollout has changed.
    pub fn changed_again(&self) -> u64 {
        // A removed deployment is never changed again; its record is deleted.
        if self.kind == RolloutKind::Remove { 0 } else { self.past.total() }
    }

    /// Deployments that are neither done nor failed; only in the response for one rollout.
    pub fn unfinished(&self) -> u64 {
        self.deployments
            .as_ref()
            .map_or(0, |counts| counts.total() - counts.done() - counts.of(DeploymentState::Failed))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    pub deployment: String,
    /// Why, as a stable name: `revision-changed`, `already-deployed`, `version-not-found`; more may be added.
    pub kind: String,
    /// What belongs to the kind: `{"current": 3, "expected": 2}` for `revision-changed`.
    #[schema(value_type = Object)]
    pub data: serde_json::Value,
    /// Why, as a sentence for people; its wording may change.
    pub reason: String,
}

/// The effect of a rollout.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub kind: RolloutKind,
    pub application: String,
    pub version: String,
    pub targets: Vec<PlannedTarget>,
    /// Incompatible devices that are skipped, with the reason (`skipIncompatible`).
    pub skipped: Vec<SkippedDevice>,
    /// Targets at the end of the list that have no diff, because there are too many.
    #[serde(default)]
    pub diffs_skipped: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTarget {
    #[serde(flatten)]
    pub device: DeviceName,
    /// For an existing deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
    pub profile: String,
    /// Current state of an existing deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<DeploymentState>,
    /// The device goes back to an older version.
    #[serde(default)]
    pub downgrade: bool,
    /// Line by line: the change of the device's ApplicationDeployment. A new deployment has no id yet.
    pub diff: Vec<DiffLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffLine {
    pub sign: DiffSign,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiffSign {
    Same,
    Added,
    Removed,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedDevice {
    #[serde(flatten)]
    pub device: DeviceName,
    /// Why, as a stable name.
    pub kind: String,
    /// What belongs to the kind.
    #[schema(value_type = Object)]
    pub data: serde_json::Value,
    /// Why, as a sentence for people; its wording may change.
    pub reason: String,
}

/// `POST /api/rollouts/{id}/cancel`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelRollout {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `POST /api/rollouts/{id}/retry`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRollout {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `POST /api/rollouts/{id}/withdraw`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WithdrawRollout {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutWithdrawn {
    /// The rollouts that withdraw it: one, or one for each distinct previous state.
    pub rollouts: Vec<Rollout>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// Devices that were not published yet and stay unchanged.
    pub left: u64,
    pub rollout: Rollout,
}

//! Changes: one intent over one or many devices.

use crate::deployments::Convergence;
use crate::devices::DeviceRef;
use crate::policies::PolicyWish;
use crate::summary::Counts;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    Create,
    Reconfigure,
    Upgrade,
    Remove,
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

/// `POST /api/deployments` (create) and `POST /api/changes` (any kind). With `?dryRun=true` nothing is recorded and a [`Plan`] comes back.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateChange {
    pub kind: ChangeKind,
    pub application: String,
    /// Needed for create and upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Use this profile instead of the first one that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub scope: Scope,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = Object)]
    pub answers: IndexMap<String, serde_json::Value>,
    #[serde(default, skip_serializing_if = "PolicyWish::is_empty")]
    pub policy: PolicyWish,
    /// With a selector or group: leave out devices that do not fit instead of refusing the whole change.
    #[serde(default)]
    pub skip_unfit: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub id: String,
    pub kind: ChangeKind,
    pub application: String,
    pub version: String,
    pub total: u64,
    /// Targets whose manifests are published.
    pub published: u64,
    pub skipped: Vec<Skipped>,
    pub finished: bool,
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Its deployments by convergence; only where one change is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployments: Option<Counts>,
    /// The answers it gives, sensitive ones masked; only where one change is asked for.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = Object)]
    pub answers: IndexMap<String, serde_json::Value>,
    /// Targets that are no longer this change's, because a later change took them over or because they were forgotten after
    /// their removal, by how far they were then.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub past: Counts,
}

impl Change {
    /// How far its targets are, or were when they ceased to be this change's.
    pub fn outcome(&self) -> Counts {
        let mut counts = self.deployments.clone().unwrap_or_default();
        for (convergence, count) in &self.past.0 {
            *counts.0.entry(*convergence).or_default() += count;
        }
        counts
    }

    /// Targets that a later change has taken over.
    pub fn changed_again(&self) -> u64 {
        // What was removed is never changed again; it is forgotten.
        if self.kind == ChangeKind::Remove { 0 } else { self.past.total() }
    }

    /// Targets of which nothing is known any more: they were taken over before outcomes were kept.
    pub fn untold(&self) -> u64 {
        let told = self.outcome().total() + self.skipped.len() as u64;
        if self.deployments.is_some() { self.published.saturating_sub(told) } else { 0 }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    pub deployment: String,
    pub reason: String,
}

/// What a change would do.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub kind: ChangeKind,
    pub application: String,
    pub version: String,
    pub targets: Vec<PlannedTarget>,
    /// Devices left out because they do not fit, with the reason (`skipUnfit`).
    pub left_out: Vec<LeftOut>,
    /// Targets at the end of the list that are listed without their difference, because there are too many.
    #[serde(default)]
    pub diffs_left_out: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTarget {
    #[serde(flatten)]
    pub device: DeviceRef,
    /// For an existing deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
    pub profile: String,
    /// Present convergence of an existing deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub convergence: Option<Convergence>,
    /// Line by line: what the device's ApplicationDeployment would become. Ids not drawn yet show as zeros.
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
pub struct LeftOut {
    #[serde(flatten)]
    pub device: DeviceRef,
    pub reason: String,
}

/// `POST /api/changes/{id}/cancel`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /api/changes/{id}/retry`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /api/changes/{id}/call-off`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallOffChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalledOff {
    /// What takes it back: one change, or one for each kind of what the devices had before.
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// Devices that were not told yet and stay as they are.
    pub left: u64,
    pub change: Change,
}

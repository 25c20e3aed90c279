//! The domain types of the server, as plain values. Rows live in the store, wire types in the API.

use crate::deployment_state::DeploymentState;
use crate::policy::{Policy, PolicyUpdate};
use crate::skips::SkipReason;
use crate::time::Timestamp;
use indexmap::IndexMap;
use margo::digest::Digest;
use margo::ids::{ApplicationId, ClientId, DeploymentId, DeviceId, DeviceTarget};
use margo::parameters::ParameterValues;
use margo::status::State;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Who did something, and with which comment (invariant 8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// `operator:admin`, `token:ci`, `client:press-07`, `system`.
    pub name: String,
    pub comment: Option<String>,
    pub request_id: Option<String>,
}

/// One WFM client relationship.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub id: ClientId,
    pub state: ClientState,
    pub note: Option<String>,
    pub created_at: Timestamp,
    pub last_seen_at: Option<Timestamp>,
    pub manifest_version: u64,
    /// Increases with every modification by an operator; used for optimistic concurrency.
    pub revision: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// Registered, not accepted yet: gets 403.
    Pending,
    Accepted,
    /// Was never accepted, and is not to be: gets 403.
    Rejected,
    /// Was accepted once: gets 403.
    Decommissioned,
}

impl ClientState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Decommissioned => "decommissioned",
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Pending, Self::Accepted, Self::Rejected, Self::Decommissioned];
        all.into_iter().find(|state| state.as_str() == text)
    }

    /// An operator has decided that it gets nothing.
    pub fn is_excluded(self) -> bool {
        matches!(self, Self::Rejected | Self::Decommissioned)
    }

    /// The state after an operator excludes a client in this state.
    #[must_use]
    pub fn excluded(self) -> Self {
        match self {
            Self::Pending | Self::Rejected => Self::Rejected,
            Self::Accepted | Self::Decommissioned => Self::Decommissioned,
        }
    }
}

/// A device is identified by its client and the id that the client gave it (GEN-11).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKey {
    pub client: ClientId,
    pub device: DeviceId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    pub key: DeviceKey,
    /// Capabilities JSON exactly as received.
    pub capabilities: Vec<u8>,
    /// Labels set by the operator; the device's own are in its capabilities.
    pub operator_labels: IndexMap<String, String>,
    pub first_reported_at: Timestamp,
    pub reported_at: Timestamp,
    /// When its client was last seen.
    pub last_seen_at: Option<Timestamp>,
    pub revision: i64,
}

/// The state of a device: the first variant that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceState {
    /// Its client is not accepted.
    Blocked,
    /// All desired deployments on it failed, or only a removal did.
    Failed,
    /// Some deployment on it failed.
    Degraded,
    /// Its client has been offline for longer than the configured limit.
    Offline,
    /// Some deployment on it is not up to date yet.
    Updating,
    Online,
}

impl DeviceState {
    pub const ALL: [Self; 6] =
        [Self::Blocked, Self::Failed, Self::Degraded, Self::Offline, Self::Updating, Self::Online];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Degraded => "degraded",
            Self::Offline => "offline",
            Self::Updating => "updating",
            Self::Online => "online",
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// The store applies the same rules in SQL; the conformance suite compares the two.
    pub fn of(
        client: ClientState,
        offline: bool,
        deployments: impl IntoIterator<Item = (Desired, DeploymentState)>,
    ) -> Self {
        let (mut failed, mut unfinished, mut others) = (false, false, false);
        for (desired, state) in deployments {
            failed |= state == DeploymentState::Failed;
            unfinished |= !state.is_done();
            others |= desired == Desired::Present && state != DeploymentState::Failed;
        }
        match () {
            () if client != ClientState::Accepted => Self::Blocked,
            () if failed && others => Self::Degraded,
            () if failed => Self::Failed,
            () if offline => Self::Offline,
            () if unfinished => Self::Updating,
            () => Self::Online,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    /// Text of a [`crate::selector::LabelSelector`].
    pub selector: String,
    pub description: Option<String>,
    pub created_at: Timestamp,
    pub revision: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationVersion {
    pub application: ApplicationId,
    pub version: String,
    /// Display name from the description.
    pub name: String,
    pub tagline: Option<String>,
    pub vendor: String,
    /// Digest of the OCI manifest of the package.
    pub package_digest: Digest,
    /// Blob with the description YAML, as shipped.
    pub description_digest: Digest,
    /// Where it was imported from.
    pub source: String,
    pub resources: Vec<ResourceRef>,
    /// Warnings from the import.
    pub warnings: Vec<String>,
    pub imported_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRef {
    /// `icon`, `descriptionFile`, `licenseFile`, `releaseNotes`.
    pub kind: String,
    pub path: String,
    pub media_type: String,
    pub digest: Digest,
}

/// The intent "this application version, this profile, these parameters, on this device".
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    pub id: DeploymentId,
    pub client: ClientId,
    pub target: DeviceTarget,
    pub application: ApplicationId,
    pub version: String,
    pub profile: String,
    /// Resolved values, by parameter.
    pub values: ParameterValues,
    /// Whether some of the values are, or were once, marked sensitive: then they are stored sealed.
    pub sensitive: bool,
    pub policy: Policy,
    pub revision: i64,
    pub desired: Desired,
    pub yaml_digest: Digest,
    /// Manifest version at which it last changed.
    pub changed_version: u64,
    /// Manifest version that a report must refer to in order to count (ST-06); above `changed_version` after a
    /// republish.
    pub target_version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub rollout: Uuid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Desired {
    /// In the manifest.
    Present,
    /// Dropped from the manifest; kept so that removal reports are accepted (ST-12).
    Absent,
}

impl Desired {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Absent => "absent",
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Present, Self::Absent].into_iter().find(|desired| desired.as_str() == text)
    }
}

/// One past or current content of a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentRevision {
    pub deployment: DeploymentId,
    pub revision: i64,
    pub action: RolloutKind,
    pub version: String,
    pub profile: String,
    pub values: ParameterValues,
    pub yaml_digest: Digest,
    pub manifest_version: u64,
    pub at: Timestamp,
    pub actor: String,
    pub comment: Option<String>,
    pub rollout: Uuid,
    /// For a rollback: the earlier revision whose version and values it uses again.
    pub rollback_to: Option<i64>,
}

/// The last report of a client about a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusRecord {
    pub deployment: DeploymentId,
    /// `None` until the client has sent a report.
    pub reported: Option<Reported>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub state: State,
    pub adopted_version: u64,
    /// The status document as received, for components and errors.
    pub body: Vec<u8>,
    pub received_at: Timestamp,
    /// The last failure, until it succeeds.
    pub failed: Option<Failed>,
}

/// A failure without a later success: a device that retries still counts as failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    pub adopted_version: u64,
    /// The status document as received.
    pub body: Vec<u8>,
    pub received_at: Timestamp,
    /// The first failure after the last success.
    pub since: Timestamp,
    /// Failed attempts since then.
    pub attempts: u64,
}

impl Reported {
    /// The failure that the device is currently retrying after.
    pub fn retried_failure(&self) -> Option<&Failed> {
        self.failed.as_ref().filter(|_| self.state != State::Failed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RolloutKind {
    Create,
    Reconfigure,
    Upgrade,
    Remove,
}

impl RolloutKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Reconfigure => "reconfigure",
            Self::Upgrade => "upgrade",
            Self::Remove => "remove",
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Create, Self::Reconfigure, Self::Upgrade, Self::Remove].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One durable intent for many devices, carried out in bounded batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    pub id: Uuid,
    pub kind: RolloutKind,
    pub application: ApplicationId,
    /// The version to install; for a removal, the version to remove.
    pub version: String,
    /// Values to set; the resolved values are stored per deployment.
    pub values: ParameterValues,
    /// Whether some of the values are marked sensitive: then they are stored sealed.
    pub sensitive: bool,
    pub policy: PolicyUpdate,
    pub targets: Vec<RolloutTarget>,
    /// How many targets have been processed.
    pub done: usize,
    /// Targets that could not be processed when their turn came, with the reason.
    pub skipped: Vec<(DeploymentId, SkipReason)>,
    pub actor: Actor,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// For a rollback: the earlier revision whose version and values are used again.
    pub rollback_to: Option<i64>,
}

impl Rollout {
    pub fn progress(&self) -> RolloutProgress {
        let Self { id, kind, application, version, targets, done, skipped, actor, created_at, finished_at, .. } = self;
        RolloutProgress {
            id: *id,
            kind: *kind,
            application: application.clone(),
            version: version.clone(),
            total: targets.len(),
            done: *done,
            skipped: skipped.clone(),
            past: BTreeMap::new(),
            actor: actor.clone(),
            created_at: *created_at,
            finished_at: *finished_at,
            rollback_to: self.rollback_to,
        }
    }
}

/// The progress of a rollout, without the list of its targets, which may be a whole fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutProgress {
    pub id: Uuid,
    pub kind: RolloutKind,
    pub application: ApplicationId,
    pub version: String,
    pub total: usize,
    pub done: usize,
    pub skipped: Vec<(DeploymentId, SkipReason)>,
    /// Targets that no longer belong to this rollout, because a later one took them over or because they were deleted
    /// after their removal, by their last state.
    pub past: BTreeMap<DeploymentState, u64>,
    pub actor: Actor,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// For a rollback: the earlier revision.
    pub rollback_to: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutState {
    /// Not published to all devices yet, or some are still updating.
    InProgress,
    Completed,
    CompletedWithFailures,
    /// Some targets were left unchanged.
    Cancelled,
}

impl RolloutProgress {
    /// `deployments` are those that still belong to the rollout, by state.
    pub fn state(&self, deployments: &BTreeMap<DeploymentState, u64>) -> RolloutState {
        let failed = |counts: &BTreeMap<DeploymentState, u64>| {
            counts.get(&DeploymentState::Failed).is_some_and(|count| *count > 0)
        };
        let unfinished = deployments.iter().any(|(state, count)| *count > 0 && !state.is_settled());
        match () {
            () if self.finished_at.is_none() || unfinished => RolloutState::InProgress,
            () if self.done < self.total => RolloutState::Cancelled,
            () if failed(deployments) || failed(&self.past) => RolloutState::CompletedWithFailures,
            () => RolloutState::Completed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutTarget {
    pub deployment: DeploymentId,
    pub client: ClientId,
    pub target: DeviceTarget,
    pub profile: String,
    /// The revision the rollout was planned against; `None` for a new deployment.
    pub expected_revision: Option<i64>,
}

/// One entry of the audit chain.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    pub seq: i64,
    pub at: Timestamp,
    pub actor: String,
    pub comment: Option<String>,
    pub request_id: Option<String>,
    /// `deployment.create`, `client.accept`, ...
    pub action: String,
    /// `deployment/<id>`, `client/<id>`, ...
    pub subject: String,
    pub before: Option<serde_json::Value>,
    pub after: Option<serde_json::Value>,
    pub previous_hash: String,
    pub hash: String,
}

/// The state of an API token or a web session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenState {
    Active,
    Expired,
    Revoked,
}

impl TokenState {
    pub fn of(expires_at: Option<Timestamp>, revoked_at: Option<Timestamp>, now: Timestamp) -> Self {
        match (revoked_at, expires_at) {
            (Some(_), _) => Self::Revoked,
            (None, Some(end)) if end <= now => Self::Expired,
            (None, _) => Self::Active,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    pub id: Uuid,
    pub name: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

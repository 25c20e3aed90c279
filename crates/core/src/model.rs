//! The nouns of the server, as plain values. Rows live in the store, wire types in the API.

use crate::convergence::Convergence;
use crate::policy::{Policy, Wish};
use crate::time::Timestamp;
use indexmap::IndexMap;
use margo::digest::Digest;
use margo::ids::{ApplicationId, ClientId, DeploymentId, DeviceId, DeviceTarget};
use margo::parameters::Answers;
use margo::status::State;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Who did something, and why (invariant 8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// `operator:admin`, `token:ci`, `client:press-07`, `system`.
    pub name: String,
    pub reason: Option<String>,
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
    /// Counts up with every change an operator makes; used for optimistic concurrency.
    pub revision: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// Known, not yet allowed: gets 403.
    Pending,
    Accepted,
    /// Was allowed once: gets 403.
    Retired,
}

impl ClientState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Retired => "retired",
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Accepted, Self::Retired].into_iter().find(|state| state.as_str() == text)
    }
}

/// A device is named by its client and the id the client gave it (GEN-11).
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
    /// When its client was last heard of.
    pub last_seen_at: Option<Timestamp>,
    pub revision: i64,
}

/// A device at a glance: the first that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceState {
    /// Its client is not accepted.
    ShutOut,
    /// Something failed on it.
    Failing,
    /// Its client has not been heard of for longer than the silence limit.
    Silent,
    /// Something is not there yet.
    Working,
    Fine,
}

impl DeviceState {
    pub const ALL: [Self; 5] = [Self::ShutOut, Self::Failing, Self::Silent, Self::Working, Self::Fine];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ShutOut => "shut-out",
            Self::Failing => "failing",
            Self::Silent => "silent",
            Self::Working => "working",
            Self::Fine => "fine",
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
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
    /// Blob of the description YAML, as shipped.
    pub description_digest: Digest,
    /// Where it was imported from.
    pub source: String,
    pub resources: Vec<ResourceRef>,
    /// Warnings met on import.
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
    pub values: Answers,
    /// Whether some of the values are, or once were, marked sensitive: then they are kept sealed.
    pub sensitive: bool,
    pub policy: Policy,
    pub revision: i64,
    pub desired: Desired,
    pub yaml_digest: Digest,
    /// Manifest version at which it last changed.
    pub changed_version: u64,
    /// Manifest version a report must be about to count (ST-06); above the other once the client was told the same again.
    pub target_version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub change: Uuid,
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

/// One past or present content of a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentRevision {
    pub deployment: DeploymentId,
    pub revision: i64,
    pub action: ChangeKind,
    pub version: String,
    pub profile: String,
    pub values: Answers,
    pub yaml_digest: Digest,
    pub manifest_version: u64,
    pub at: Timestamp,
    pub actor: String,
    pub reason: Option<String>,
    pub change: Uuid,
}

/// The last word of a client about a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusRecord {
    pub deployment: DeploymentId,
    /// `None` until the client has said anything.
    pub reported: Option<Reported>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub state: State,
    pub adopted_version: u64,
    /// The status document as received, for components and errors.
    pub body: Vec<u8>,
    pub received_at: Timestamp,
    /// How it last failed, until it succeeds.
    pub failed: Option<Failed>,
}

/// A failure that no success has followed yet, whatever was reported since: a device that tries again has still failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    pub adopted_version: u64,
    /// The status document as received.
    pub body: Vec<u8>,
    pub received_at: Timestamp,
}

impl Reported {
    /// It failed, and is at it again by itself: what it failed with.
    pub fn tries_again(&self) -> Option<&Failed> {
        self.failed.as_ref().filter(|_| self.state != State::Failed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    Create,
    Reconfigure,
    Upgrade,
    Remove,
}

impl ChangeKind {
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

/// One durable intent over many devices, carried out in bounded batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub id: Uuid,
    pub kind: ChangeKind,
    pub application: ApplicationId,
    /// The version to be on afterwards; the one removed for a removal.
    pub version: String,
    /// Values to be set; the resolved ones are per deployment.
    pub answers: Answers,
    /// Whether some of the answers are marked sensitive: then they are kept sealed.
    pub sensitive: bool,
    pub policy: Wish,
    pub targets: Vec<ChangeTarget>,
    /// How many targets have been carried out.
    pub done: usize,
    /// Targets that could not be carried out any more when their turn came, with the reason.
    pub skipped: Vec<(DeploymentId, String)>,
    pub actor: Actor,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

impl Change {
    pub fn progress(&self) -> ChangeProgress {
        let Self { id, kind, application, version, targets, done, skipped, actor, created_at, finished_at, .. } = self;
        ChangeProgress {
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
        }
    }
}

/// A change as one looks at it: how far it is, without the list of its targets, which may be a whole fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeProgress {
    pub id: Uuid,
    pub kind: ChangeKind,
    pub application: ApplicationId,
    pub version: String,
    pub total: usize,
    pub done: usize,
    pub skipped: Vec<(DeploymentId, String)>,
    /// Targets that are no longer this change's, because a later one took them over or because they were forgotten after
    /// their removal, by how far they were then.
    pub past: BTreeMap<Convergence, u64>,
    pub actor: Actor,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeTarget {
    pub deployment: DeploymentId,
    pub client: ClientId,
    pub target: DeviceTarget,
    pub profile: String,
    /// The revision the change was planned against; `None` for a new deployment.
    pub expected_revision: Option<i64>,
}

/// One entry of the audit chain.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    pub seq: i64,
    pub at: Timestamp,
    pub actor: String,
    pub reason: Option<String>,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    pub id: Uuid,
    pub name: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

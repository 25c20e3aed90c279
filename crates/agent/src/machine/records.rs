//! Durable records.

use crate::codes::Code;
use indexmap::IndexMap;
use margo::manifest::{RollbackFloor, StateManifest};
use margo::status::DeploymentStatus;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The accepted manifest: rollback floor and content, written before any work for it starts (DS-22).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Accepted {
    pub version: u64,
    /// As the server sent it; opaque (W-07).
    pub etag: Option<String>,
    pub body_digest: Digest,
    /// The exact text of the manifest.
    pub body: String,
    #[serde(with = "stamp")]
    pub accepted_at: Timestamp,
    /// Contents of the previous manifest, kept for a rollback by one revision.
    pub previous: Vec<Digest>,
}

impl Accepted {
    pub fn held(&self) -> RollbackFloor {
        RollbackFloor { version: self.version, body_digest: self.body_digest.clone() }
    }

    /// Parses the text again; `None` if this version cannot read what an earlier version accepted.
    pub fn manifest(&self) -> Option<StateManifest> {
        (Digest::of(self.body.as_bytes()) == self.body_digest)
            .then(|| StateManifest::read(self.body.as_bytes()).ok())
            .flatten()
            .map(|read| read.document)
    }
}

/// The last manifest that was applied completely (DS-24 step 8). Only its ETag goes into `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reconciled {
    pub version: u64,
    pub etag: Option<String>,
    pub body_digest: Digest,
    #[serde(with = "stamp")]
    pub reconciled_at: Timestamp,
}

impl Reconciled {
    pub fn held(&self) -> RollbackFloor {
        RollbackFloor { version: self.version, body_digest: self.body_digest.clone() }
    }
}

/// The devices reported to the server, so that vanished children can be deleted after a restart (GW-02).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DevicesReported {
    pub devices: Vec<DeviceId>,
}

/// The last status of each deployment, delivered or not. One entry per deployment: newer replaces older.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusEntries {
    pub next_sequence: u64,
    pub entries: IndexMap<DeploymentId, StatusEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusEntry {
    /// Reports are sent in this order.
    pub sequence: u64,
    /// The YAML of the report; `None` for a removal.
    pub digest: Option<Digest>,
    /// When the state was entered.
    #[serde(with = "stamp")]
    pub since: Timestamp,
    pub delivered: bool,
    #[serde(with = "status_text")]
    pub status: DeploymentStatus,
}

/// Which revision of each deployment ran last, and which was abandoned for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Revisions {
    /// The boot in which everything was last observed to run; a different one means a reboot since.
    pub boot: Option<String>,
    pub deployments: IndexMap<DeploymentId, Revision>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Revision {
    /// The last one that ran completely.
    pub good: Option<Digest>,
    pub abandoned: Option<AbandonedRevision>,
}

/// An abandoned revision: the last good one runs in its place while the manifest names this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AbandonedRevision {
    pub digest: Digest,
    pub code: Code,
    pub component: String,
    pub message: String,
    /// The good one was observed to run since.
    pub restored: bool,
    #[serde(with = "stamp")]
    pub at: Timestamp,
}

/// All records found at start. Unreadable ones are absent: unknown, not empty.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub accepted: Option<Accepted>,
    /// The rollback floor from copies, if `accepted` itself cannot be read.
    pub floor: Option<RollbackFloor>,
    pub reconciled: Option<Reconciled>,
    pub statuses: StatusEntries,
    pub devices: DevicesReported,
    pub revisions: Revisions,
    /// The current boot, if the system provides an id.
    pub boot: Option<String>,
    pub contents: IndexMap<Digest, Arc<[u8]>>,
}

/// Microseconds in memory, RFC 3339 in files.
pub(crate) mod stamp {
    use margrave_core::time::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(at)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse::<jiff::Timestamp>().map(|at| Timestamp(at.as_microsecond())).map_err(D::Error::custom)
    }
}

/// A status is stored as the text that is sent.
mod status_text {
    use margo::status::DeploymentStatus;
    use serde::{Deserialize, Deserializer, Serializer, de::Error, ser::Error as _};

    pub(super) fn serialize<S: Serializer>(status: &DeploymentStatus, serializer: S) -> Result<S::Ok, S::Error> {
        let json = String::from_utf8(status.to_json()).map_err(S::Error::custom)?;
        serializer.serialize_str(&json)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DeploymentStatus, D::Error> {
        let text = String::deserialize(deserializer)?;
        DeploymentStatus::read(text.as_bytes()).map(|read| read.document).map_err(D::Error::custom)
    }
}

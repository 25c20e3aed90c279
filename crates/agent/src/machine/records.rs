//! What survives a crash, and how it is written down.

use crate::codes::Code;
use indexmap::IndexMap;
use margo::manifest::{Held, StateManifest};
use margo::status::DeploymentStatus;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The manifest this client goes by: rollback floor and content, written before anything is done about it (DS-22).
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
    /// Contents of the manifest before this one, kept to be able to go back one revision.
    pub previous: Vec<Digest>,
}

impl Accepted {
    pub fn held(&self) -> Held {
        Held { version: self.version, body_digest: self.body_digest.clone() }
    }

    /// Parses the text again; `None` when this program cannot read what an earlier one accepted.
    pub fn manifest(&self) -> Option<StateManifest> {
        (Digest::of(self.body.as_bytes()) == self.body_digest)
            .then(|| StateManifest::read(self.body.as_bytes()).ok())
            .flatten()
            .map(|read| read.document)
    }
}

/// The last manifest that was carried out completely (DS-24 step 8). Only its ETag goes into `If-None-Match`.
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
    pub fn held(&self) -> Held {
        Held { version: self.version, body_digest: self.body_digest.clone() }
    }
}

/// The devices the server was told about, so that children that vanish can be taken back after a restart (GW-02).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DevicesReported {
    pub devices: Vec<DeviceId>,
}

/// The last word about each deployment, told or yet to be told. One entry per deployment: newer replaces older.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusBook {
    pub next_sequence: u64,
    pub entries: IndexMap<DeploymentId, StatusEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusEntry {
    /// Reports are sent in this order.
    pub sequence: u64,
    /// The YAML the report is about; `None` for a removal.
    pub digest: Option<Digest>,
    /// When the state was entered.
    #[serde(with = "stamp")]
    pub since: Timestamp,
    pub delivered: bool,
    #[serde(with = "status_text")]
    pub status: DeploymentStatus,
}

/// Which revision of each deployment ran last, and which was given up for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Revisions {
    /// The boot of the device in which everything was last seen to run; in another one it was started anew since.
    pub boot: Option<String>,
    pub deployments: IndexMap<DeploymentId, Revision>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Revision {
    /// The last one that ran completely.
    pub good: Option<Digest>,
    pub given_up: Option<GivenUp>,
}

/// A revision that failed, so that the good one runs in its place for as long as the manager wants this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GivenUp {
    pub digest: Digest,
    pub code: Code,
    pub component: String,
    pub message: String,
    /// The good one has been seen to run since.
    pub restored: bool,
    #[serde(with = "stamp")]
    pub at: Timestamp,
}

/// Everything found at a start. What could not be read is absent: unknown, not empty.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub accepted: Option<Accepted>,
    /// Known from copies when `accepted` itself cannot be read: a floor, nothing to act on.
    pub floor: Option<Held>,
    pub reconciled: Option<Reconciled>,
    pub statuses: StatusBook,
    pub devices: DevicesReported,
    pub revisions: Revisions,
    /// The boot the device is in now, where the system tells.
    pub boot: Option<String>,
    pub contents: IndexMap<Digest, Arc<[u8]>>,
}

/// Microseconds in memory, RFC 3339 in files, so that people can read them.
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

/// A status is kept as the text that is sent.
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

//! An agent's disk in memory: what was synced survives a crash, what was not is lost or torn.
//!
//! Records are replaced as in the agent's shell: written to a temporary file, synced, renamed. A crash in the middle
//! leaves the old or the new record, and possibly a partial temporary file, which is ignored.

use margo::Digest;
use margo::manifest::RollbackFloor;
use margrave_agent::machine::io::Record;
use margrave_agent::machine::records::{Accepted, DevicesReported, Loaded, Reconciled, Revisions, StatusEntries};
use rand::Rng;
use rand::rngs::StdRng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

const ACCEPTED: &str = "accepted.json";
/// The previous record: the rollback floor if the record itself is unreadable.
const ACCEPTED_PREVIOUS: &str = "accepted.previous.json";
const RECONCILED: &str = "reconciled.json";
const STATUSES: &str = "statuses.json";
const DEVICES: &str = "devices.json";
const REVISIONS: &str = "revisions.json";
const CONTENT: &str = "content/";
/// Suffix of temporary files; ignored at start.
const BESIDE: &str = ".new";

#[derive(Debug, Default)]
pub(crate) struct Disk {
    files: BTreeMap<String, Vec<u8>>,
    pub(crate) full: bool,
}

impl Disk {
    /// Writes one record durably; false if the disk is full, and then the previous record remains.
    pub(crate) fn write(&mut self, record: &Record) -> bool {
        if self.full {
            return false;
        }
        let (name, bytes) = file_of(record);
        self.files.remove(&format!("{name}{BESIDE}"));
        self.replace(name, bytes);
        true
    }

    fn replace(&mut self, name: String, bytes: Vec<u8>) {
        let old = self.files.insert(name.clone(), bytes);
        if let (ACCEPTED, Some(old)) = (name.as_str(), old) {
            self.files.insert(ACCEPTED_PREVIOUS.to_owned(), old);
        }
    }

    /// Simulates a power failure while this record is written.
    pub(crate) fn tear(&mut self, record: &Record, rng: &mut StdRng) {
        let (name, bytes) = file_of(record);
        let kept = rng.random_range(0..=bytes.len());
        match rng.random_range(0..3) {
            // The rename was durable.
            0 => self.replace(name, bytes),
            // The temporary file is partial.
            1 => {
                self.files.insert(format!("{name}{BESIDE}"), bytes[..kept].to_vec());
            }
            // Nothing was durable.
            _ => {}
        }
    }

    pub(crate) fn forget(&mut self, digests: &[Digest]) {
        for digest in digests {
            self.files.remove(&content_name(digest));
        }
    }

    /// Damages a content file or the accepted record; returns its name.
    pub(crate) fn damage(&mut self, rng: &mut StdRng) -> Option<String> {
        let candidates: Vec<String> =
            self.files.keys().filter(|name| name.starts_with(CONTENT) || *name == ACCEPTED).cloned().collect();
        let name = candidates.get(rng.random_range(0..candidates.len().max(1)))?.clone();
        let bytes = self.files.get_mut(&name)?;
        if bytes.is_empty() || rng.random_bool(0.5) {
            bytes.truncate(bytes.len() / 2);
        } else {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 0x20;
        }
        Some(name)
    }

    /// What the agent loads at start.
    pub(crate) fn load(&self) -> Loaded {
        let accepted = self.accepted();
        let floor = accepted.is_none().then(|| self.floor()).flatten();
        let contents = self
            .files
            .iter()
            .filter_map(|(name, bytes)| {
                let digest: Digest = format!("sha256:{}", name.strip_prefix(CONTENT)?).parse().ok()?;
                (Digest::of(bytes) == digest).then(|| (digest, Arc::from(bytes.as_slice())))
            })
            .collect();
        Loaded {
            accepted,
            floor,
            reconciled: self.read::<Reconciled>(RECONCILED),
            statuses: self.read::<StatusEntries>(STATUSES).unwrap_or_default(),
            devices: self.read::<DevicesReported>(DEVICES).unwrap_or_default(),
            revisions: self.read::<Revisions>(REVISIONS).unwrap_or_default(),
            boot: None,
            contents,
        }
    }

    /// The accepted record, if it is present and intact.
    pub(crate) fn accepted(&self) -> Option<Accepted> {
        self.read::<Accepted>(ACCEPTED).filter(|record| record.manifest().is_some())
    }

    pub(crate) fn reconciled(&self) -> Option<Reconciled> {
        self.read::<Reconciled>(RECONCILED)
    }

    /// The newest version that is still known as accepted, despite damage.
    pub(crate) fn known_version(&self) -> u64 {
        let accepted = self.accepted().map(|record| record.version);
        let floor = self.floor().map(|held| held.version);
        let reconciled = self.reconciled().map(|record| record.version);
        accepted.max(floor).max(reconciled).unwrap_or_default()
    }

    pub(crate) fn content(&self, digest: &Digest) -> Option<&[u8]> {
        self.files.get(&content_name(digest)).map(Vec::as_slice)
    }

    fn floor(&self) -> Option<RollbackFloor> {
        self.read::<Accepted>(ACCEPTED_PREVIOUS).map(|record| record.held())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(self.files.get(name)?).ok()
    }
}

fn content_name(digest: &Digest) -> String {
    format!("{CONTENT}{}", digest.hex())
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("records have no keys or numbers JSON cannot hold")
}

/// File name and content of a record.
fn file_of(record: &Record) -> (String, Vec<u8>) {
    match record {
        Record::Content { digest, bytes } => (content_name(digest), bytes.to_vec()),
        Record::Accepted(accepted) => (ACCEPTED.to_owned(), json(accepted)),
        Record::Reconciled(reconciled) => (RECONCILED.to_owned(), json(reconciled)),
        Record::Statuses(statuses) => (STATUSES.to_owned(), json(statuses)),
        Record::Devices(devices) => (DEVICES.to_owned(), json(devices)),
        Record::Revisions(revisions) => (REVISIONS.to_owned(), json(revisions)),
    }
}

//! The state folder: a format version, one lock, a few small records, the verified YAMLs.
//!
//! Every record is written to a temporary file in the same folder, synced, renamed over the old one, and the folder is
//! synced. Each carries a digest of its own text, so that a torn or foreign file is detected and treated as *unknown*.
//! A copy of the previous record is kept: for `accepted` it serves only as rollback floor (acting on it would be acting
//! on an older manifest), for the others it is used as is.

mod durable;
mod format;

pub use durable::{DiskError, read_record, write_record};
pub(crate) use durable::{create_private_dir, write_private};
pub use format::{check_format, prepare};

use crate::machine::io::{PersistFailure, Record};
use crate::machine::records::{Accepted, DevicesReported, Loaded, Reconciled, Revisions, StatusEntries};
use indexmap::IndexMap;
use margo::Digest;
use rustix::fs::FlockOperation;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ACCEPTED: &str = "accepted.json";
const RECONCILED: &str = "reconciled.json";
const STATUSES: &str = "statuses.json";
const DEVICES: &str = "devices.json";
const REVISIONS: &str = "revisions.json";
const CONTENT: &str = "content";

/// The records of one relationship with a server: a device with a new identity starts without them.
pub(crate) fn record_files(state_dir: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    let both = |name: &str| {
        let path = state_dir.join(name);
        [durable::previous_path(&path), path]
    };
    // The rollback floor of `accepted` goes with it.
    [STATUSES, RECONCILED, DEVICES, ACCEPTED].into_iter().flat_map(both)
}

/// A state folder locked by this process.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// The lock, held while this value lives; the system releases it when the process ends.
    _lock: File,
}

/// The loaded records, and errors of those that could not be read.
#[derive(Debug)]
pub struct Found {
    pub loaded: Loaded,
    pub unreadable: Vec<DiskError>,
}

impl StateDir {
    /// Creates the folder if needed and locks it. Refuses a folder with another format.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let at = |source| DiskError::Io { path: path.to_owned(), source };
        prepare(path)?;
        durable::create_private_dir(&path.join(CONTENT)).map_err(at)?;
        let lock_path = path.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path).map_err(at)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(DiskError::Locked { path: path.to_owned() }),
            Err(error) => Err(DiskError::Io { path: lock_path, source: error.into() }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads everything. Unreadable records are skipped and named: they are unknown, never empty.
    pub fn load(&self) -> Found {
        load(&self.path)
    }

    /// Writes the records in order, each durable before the next.
    pub fn persist(&self, records: &[Record]) -> Result<(), PersistFailure> {
        records
            .iter()
            .try_for_each(|record| self.persist_one(record))
            .map_err(|error| PersistFailure { disk_full: error.is_disk_full(), message: error.chain() })
    }

    fn persist_one(&self, record: &Record) -> Result<(), DiskError> {
        match record {
            Record::Content { digest, bytes } => durable::write_content(&self.content(digest), bytes),
            Record::Accepted(accepted) => write_record(&self.path.join(ACCEPTED), accepted),
            Record::Reconciled(reconciled) => write_record(&self.path.join(RECONCILED), reconciled),
            Record::Statuses(statuses) => write_record(&self.path.join(STATUSES), statuses),
            Record::Devices(devices) => write_record(&self.path.join(DEVICES), devices),
            Record::Revisions(revisions) => write_record(&self.path.join(REVISIONS), revisions),
        }
    }

    /// Removes unused contents. A failure leaves an unused file, which is harmless.
    pub fn forget(&self, digests: &[Digest]) {
        for digest in digests {
            let _ = std::fs::remove_file(self.content(digest));
        }
    }

    fn content(&self, digest: &Digest) -> PathBuf {
        self.path.join(CONTENT).join(format!("{}.yaml", digest.hex()))
    }
}

/// Reads a state folder without locking it, for `status` and `explain` while an agent runs.
pub fn load(path: &Path) -> Found {
    let mut unreadable = Vec::new();
    let mut keep = |error: DiskError| unreadable.push(error);
    let (accepted, floor) = match durable::read_exact::<Accepted>(&path.join(ACCEPTED)) {
        Ok(accepted) => (accepted, None),
        Err(error) => {
            keep(error);
            let previous = durable::read_exact::<Accepted>(&durable::previous_path(&path.join(ACCEPTED)));
            (None, previous.ok().flatten().map(|accepted| accepted.held()))
        }
    };
    let reconciled = read_record::<Reconciled>(&path.join(RECONCILED), &mut keep);
    let statuses = read_record::<StatusEntries>(&path.join(STATUSES), &mut keep).unwrap_or_default();
    let devices = read_record::<DevicesReported>(&path.join(DEVICES), &mut keep).unwrap_or_default();
    let revisions = read_record::<Revisions>(&path.join(REVISIONS), &mut keep).unwrap_or_default();
    let contents = read_contents(&path.join(CONTENT), &mut keep);
    let boot = None;
    let loaded = Loaded { accepted, floor, reconciled, statuses, devices, revisions, boot, contents };
    Found { loaded, unreadable }
}

fn read_contents(folder: &Path, keep: &mut impl FnMut(DiskError)) -> IndexMap<Digest, Arc<[u8]>> {
    let mut contents = IndexMap::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return contents };
    for path in entries.flatten().map(|entry| entry.path()) {
        let hex = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".yaml"));
        let Some(digest) = hex.and_then(|hex| format!("sha256:{hex}").parse::<Digest>().ok()) else { continue };
        match std::fs::read(&path) {
            Ok(bytes) if Digest::of(&bytes) == digest => {
                contents.insert(digest, bytes.into());
            }
            Ok(_) => keep(DiskError::Damaged { path, reason: "its content does not have its digest".to_owned() }),
            Err(source) => keep(DiskError::Io { path, source }),
        }
    }
    contents
}

#[cfg(test)]
mod tests;

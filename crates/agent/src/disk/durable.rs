//! Atomic, crash-safe writes of one file.

use super::format::FORMAT;
use margo::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// First word of every record: the kind of the file and its format version.
const MAGIC: &str = "margrave-record/1";
/// The same without the version.
const RECORD_KIND: &[u8] = b"margrave-record/";

const PRIVATE: u32 = 0o600;
/// For a file without secrets that other users may read.
const PUBLIC: u32 = 0o644;

/// No record grows beyond this: a manifest of 16 MiB and its wrapping.
const RECORD_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("no room left to write `{}`: free space on this file system", path.display())]
    Full {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("use `{}`", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("another agent uses `{}`: stop it, or give this one a state folder of its own (code 804)", path.display())]
    Locked { path: PathBuf },
    /// Written by another version of the agent, which this one cannot read.
    #[error(
        "the state folder `{}` {} and this agent uses format {FORMAT}: it was written by another version of the agent. \
         Nothing was changed, and workloads keep running. Stop the agent, move the folder away (it also contains data \
         of Compose applications with relative paths), and enroll this device again. \
         Workloads from before then keep running but are no longer managed: remove them with the tools of the container runtime",
        path.display(),
        found.as_ref().map_or("has no format version".to_owned(), |found| format!("has format `{found}`"))
    )]
    UnknownFormat { path: PathBuf, found: Option<String> },
}

impl DiskError {
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// The message with its causes.
    pub fn chain(&self) -> String {
        let cause = std::error::Error::source(self).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{self}{cause}")
    }

    pub(crate) fn at(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            Self::Full { path, source }
        } else {
            Self::Io { path, source }
        }
    }
}

pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn previous_path(path: &Path) -> PathBuf {
    path.with_extension("previous.json")
}

/// Writes a record and keeps the previous one next to it.
pub fn write_record<T: Serialize>(path: &Path, record: &T) -> Result<(), DiskError> {
    let json = serde_json::to_string_pretty(record).map_err(|error| DiskError::at(path, error.into()))?;
    let text = format!("{MAGIC} {}\n{json}\n", Digest::of(json.as_bytes()));
    let temporary = write_temporary(path, text.as_bytes())?;
    keep_previous(path);
    replace(&temporary, path)
}

/// Content is named by its digest, so an existing correct file is not written again.
pub(super) fn write_content(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    if fs::read(path).is_ok_and(|held| held == bytes) {
        return Ok(());
    }
    let temporary = write_temporary(path, bytes)?;
    replace(&temporary, path)
}

/// Writes a plain file durably, readable by the owner only.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let temporary = write_temporary(path, bytes)?;
    replace(&temporary, path)
}

/// Writes a plain file durably, readable by every user who may read the folder. Several processes may do so at the same
/// time: each uses its own temporary file.
pub(super) fn write_public(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), WRITES.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_extension(format!("{process}-{number}.new"));
    write_new(&temporary, path, bytes, PUBLIC)?;
    replace(&temporary, path)
}

fn write_temporary(path: &Path, bytes: &[u8]) -> Result<PathBuf, DiskError> {
    let temporary = path.with_extension("new");
    write_new(&temporary, path, bytes, PRIVATE)?;
    Ok(temporary)
}

fn write_new(temporary: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<(), DiskError> {
    let write = || {
        let mut file = File::options().create(true).truncate(true).write(true).mode(mode).open(temporary)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| {
        // A partial file must not use the space that the next retry needs.
        let _ = fs::remove_file(temporary);
        DiskError::at(path, error)
    })
}

fn replace(temporary: &Path, path: &Path) -> Result<(), DiskError> {
    let rename = || {
        fs::rename(temporary, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    rename().map_err(|error| DiskError::at(path, error))
}

/// A hard link needs no space, and the current file exists at all times. A failure only costs the copy.
fn keep_previous(path: &Path) {
    let previous = previous_path(path);
    let staged = previous.with_extension("link");
    let _ = fs::remove_file(&staged);
    if fs::hard_link(path, &staged).is_ok() {
        let _ = fs::rename(&staged, &previous);
    }
}

/// Whether this file is a record of an agent, of any version.
pub(super) fn is_record(path: &Path) -> io::Result<bool> {
    let mut start = Vec::with_capacity(RECORD_KIND.len());
    File::open(path)?.take(RECORD_KIND.len() as u64).read_to_end(&mut start)?;
    Ok(start == RECORD_KIND)
}

/// The record, or its previous copy if the record is damaged; `None` if there is neither.
pub fn read_record<T: DeserializeOwned>(path: &Path, unreadable: &mut impl FnMut(DiskError)) -> Option<T> {
    match read_exact(path) {
        Ok(record) => record,
        Err(error) => {
            unreadable(error);
            read_exact(&previous_path(path)).ok().flatten()
        }
    }
}

/// This file only: `None` if it does not exist, an error if it is damaged.
pub(super) fn read_exact<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DiskError> {
    let damaged = |reason: &str| DiskError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DiskError::at(path, error)),
        Ok(metadata) if metadata.len() > RECORD_BYTES_MAX => return Err(damaged("it is far too large")),
        Ok(_) => {}
    }
    let bytes = fs::read(path).map_err(|error| DiskError::at(path, error))?;
    let text = String::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
    let (header, json) = text.split_once('\n').ok_or_else(|| damaged("it is cut off"))?;
    let digest = header.strip_prefix(MAGIC).ok_or_else(|| damaged("it is not a record of this agent"))?.trim();
    let json = json.strip_suffix('\n').unwrap_or(json);
    if Digest::of(json.as_bytes()).as_str() != digest {
        return Err(damaged("its content does not have its digest"));
    }
    serde_json::from_str(json).map(Some).map_err(|error| damaged(&format!("it cannot be understood: {error}")))
}

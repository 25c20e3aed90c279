//! One file, written so that any instant may be the last.

use margo::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// First word of every record: says what the file is and in which form.
const MAGIC: &str = "margrave-record/1";

/// No record grows beyond this: a manifest of 16 MiB and its wrapping. More is not ours.
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

/// Writes a record and keeps the one before it beside it.
pub fn write_record<T: Serialize>(path: &Path, record: &T) -> Result<(), DiskError> {
    let json = serde_json::to_string_pretty(record).map_err(|error| DiskError::at(path, error.into()))?;
    let text = format!("{MAGIC} {}\n{json}\n", Digest::of(json.as_bytes()));
    let temporary = write_temporary(path, text.as_bytes())?;
    keep_previous(path);
    replace(&temporary, path)
}

/// Content is named by its digest, so an existing file of the right content need not be written again.
pub(super) fn write_content(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    if fs::read(path).is_ok_and(|held| held == bytes) {
        return Ok(());
    }
    let temporary = write_temporary(path, bytes)?;
    replace(&temporary, path)
}

/// Writes a plain file durably, readable by the owner alone.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let temporary = write_temporary(path, bytes)?;
    replace(&temporary, path)
}

fn write_temporary(path: &Path, bytes: &[u8]) -> Result<PathBuf, DiskError> {
    let temporary = path.with_extension("new");
    let write = || {
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| {
        // Half a file must not keep the room the next try needs.
        let _ = fs::remove_file(&temporary);
        DiskError::at(path, error)
    })?;
    Ok(temporary)
}

fn replace(temporary: &Path, path: &Path) -> Result<(), DiskError> {
    let rename = || {
        fs::rename(temporary, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    rename().map_err(|error| DiskError::at(path, error))
}

/// A hard link costs no room and leaves no moment without the current file. Failing costs a copy, nothing else.
fn keep_previous(path: &Path) {
    let previous = previous_path(path);
    let staged = previous.with_extension("link");
    let _ = fs::remove_file(&staged);
    if fs::hard_link(path, &staged).is_ok() {
        let _ = fs::rename(&staged, &previous);
    }
}

/// The record, or the copy before it when the record is damaged; `None` when there is neither.
pub fn read_record<T: DeserializeOwned>(path: &Path, unreadable: &mut impl FnMut(DiskError)) -> Option<T> {
    match read_exact(path) {
        Ok(record) => record,
        Err(error) => {
            unreadable(error);
            read_exact(&previous_path(path)).ok().flatten()
        }
    }
}

/// This very file: `None` when it does not exist, an error when it cannot be believed.
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

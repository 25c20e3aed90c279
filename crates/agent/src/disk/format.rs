//! The format version of a state folder, written before anything else.
//!
//! Every command that writes to the folder calls [`prepare`] first, and every command that only reads it calls
//! [`check_format`]. A crash before the version is written leaves a folder without records, which counts as new.

use super::durable::{DiskError, create_private_dir, is_record, write_public};
use std::io;
use std::path::Path;

/// The format of the state folder that this agent reads and writes.
pub(super) const FORMAT: &str = "1";

const FORMAT_FILE: &str = "format";

/// The text of an unknown version that a message shows; a version is a number.
const FOUND_CHARS_MAX: usize = 20;

enum Format {
    Current,
    /// No version and no records: a missing or empty folder, or one that contains only files of the operator or an
    /// identity.
    New,
}

/// Creates the folder if needed, refuses one with another format, and writes the version to a new one.
pub fn prepare(state_dir: &Path) -> Result<(), DiskError> {
    match find(state_dir)? {
        Format::Current => Ok(()),
        Format::New => {
            create_private_dir(state_dir).map_err(|error| DiskError::at(state_dir, error))?;
            write_public(&state_dir.join(FORMAT_FILE), format!("{FORMAT}\n").as_bytes())
        }
    }
}

/// Refuses a folder with another format; changes nothing.
pub fn check_format(state_dir: &Path) -> Result<(), DiskError> {
    find(state_dir).map(|_| ())
}

fn find(state_dir: &Path) -> Result<Format, DiskError> {
    let path = state_dir.join(FORMAT_FILE);
    let text = match std::fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(DiskError::at(&path, error)),
    };
    let found = match text.trim() {
        FORMAT => return Ok(Format::Current),
        // An empty file counts as a missing one: a failing disk must not block a new device.
        "" if !has_records(state_dir)? => return Ok(Format::New),
        "" => None,
        other => Some(other.chars().take(FOUND_CHARS_MAX).collect()),
    };
    Err(DiskError::UnknownFormat { path: state_dir.to_owned(), found })
}

/// Whether an agent has written a record to this folder, under any name.
fn has_records(state_dir: &Path) -> Result<bool, DiskError> {
    let entries = match std::fs::read_dir(state_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(DiskError::at(state_dir, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| DiskError::at(state_dir, error))?;
        let path = entry.path();
        let is_file = entry.file_type().map_err(|error| DiskError::at(&path, error))?.is_file();
        match is_file.then(|| is_record(&path)) {
            Some(Ok(true)) => return Ok(true),
            Some(Ok(false)) | None => {}
            // A temporary file of another command, which has its final name by now.
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Some(Err(error)) => return Err(DiskError::at(&path, error)),
        }
    }
    Ok(false)
}

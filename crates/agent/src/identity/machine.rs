//! Binds an identity to its machine, so that a copied disk cannot act as the original device.
//!
//! Enrollment records the serial numbers and ids of the machine as digests. Every start compares them: on another
//! machine the agent sets the identity and the records aside and enrolls like a new device. Workloads are not touched.

use super::identity_dir;
use crate::config::AgentConfig;
use crate::disk::{DiskError, create_private_dir, record_files, write_private};
use margo::Digest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The machine of an identity, stored next to it.
const MACHINE_FILE: &str = "machine.json";
/// Folder for the files of the other machine.
const SET_ASIDE_FOLDER: &str = "of-another-machine";
/// A serial number or an id is one line.
const LINE_BYTES_MAX: usize = 1 << 10;

/// Identifies a machine: the digest of the first line of each file.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Machine(BTreeMap<PathBuf, Digest>);

impl Machine {
    pub(crate) fn this(files: &[PathBuf]) -> Self {
        let mark = |path: &PathBuf| Some((path.clone(), Digest::of(first_line(path)?.as_bytes())));
        Self(files.iter().filter_map(mark).collect())
    }

    fn of_identity(state_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(identity_dir(state_dir).join(MACHINE_FILE)).ok()?).ok()
    }

    /// The first file that differs. A missing file does not count: another user may not be allowed to read it.
    fn differs_in(&self, now: &Self) -> Option<&PathBuf> {
        self.0.iter().find(|(path, mark)| now.0.get(*path).is_some_and(|other| other != *mark)).map(|(path, _)| path)
    }

    pub(crate) fn write(&self, state_dir: &Path) -> Result<(), DiskError> {
        let path = identity_dir(state_dir).join(MACHINE_FILE);
        let json = serde_json::to_vec_pretty(self)
            .map_err(|error| DiskError::Io { path: path.clone(), source: error.into() })?;
        write_private(&path, &json)
    }
}

fn first_line(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LINE_BYTES_MAX)]).into_owned();
    let line = text.lines().next()?.trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
    (!line.is_empty()).then_some(line)
}

/// Sets the files of another machine aside; returns the file that differs. Repeatable after an interruption: the
/// machine record goes last.
pub(crate) fn set_aside(config: &AgentConfig) -> Result<Option<PathBuf>, DiskError> {
    let state_dir = &config.state_dir;
    let now = Machine::this(&config.identity.machine_files);
    let Some(recorded) = Machine::of_identity(state_dir) else {
        // Enrolled by an agent without machine records.
        if identity_dir(state_dir).join("certificate.pem").exists() {
            now.write(state_dir)?;
        }
        return Ok(None);
    };
    let Some(differs) = recorded.differs_in(&now) else { return Ok(None) };
    let aside = state_dir.join(SET_ASIDE_FOLDER);
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| DiskError::Io { path, source }
    };
    create_private_dir(&aside).map_err(at(&aside))?;
    let identity = ["certificate.pem", "key.pem", "enrollment.json", "trust-bundle.json", MACHINE_FILE];
    let identity = identity.iter().map(|name| identity_dir(state_dir).join(name));
    for path in record_files(state_dir).chain(identity) {
        let Some(name) = path.file_name() else { continue };
        match std::fs::rename(&path, aside.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(&path)(error)),
            _ => {}
        }
    }
    Ok(Some(differs.clone()))
}

//! What was begun and not removed, on disk, written before an engine acts.
//!
//! Engines forget (a container is removed by hand, a release deleted), and an agent may die between two steps. The
//! ledger is the one place that knows what this agent is responsible for; what is not in it is never touched.

use crate::disk::{DiskError, read_record, write_record};
use margo::{DeploymentId, DeviceId, Digest};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const FILE: &str = "ledger.json";

/// One component that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub deployment: DeploymentId,
    pub device: DeviceId,
    pub component: String,
    /// Which engine made it.
    pub deployment_type: String,
    /// Of the deployment YAML it was last begun from.
    pub digest: Digest,
    /// Data volumes go with it when it is removed.
    pub purge: bool,
    /// Applied to the end; `false` from the moment it is begun.
    pub finished: bool,
    /// The engine's own: project, release, namespace, objects.
    pub data: serde_json::Value,
}

/// All entries, durable before anybody acts on them.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    entries: Mutex<Vec<Entry>>,
}

impl Ledger {
    /// Reads `folder/ledger.json`. A ledger that cannot be read at all is an error: acting without it would lose track.
    pub fn open(folder: &Path) -> Result<Self, DiskError> {
        let path = folder.join(FILE);
        let mut damaged = None;
        let entries = read_record::<Vec<Entry>>(&path, &mut |error| damaged = Some(error));
        match (entries, damaged) {
            (Some(entries), _) => Ok(Self { path, entries: Mutex::new(entries) }),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(Self { path, entries: Mutex::new(Vec::new()) }),
        }
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn get(&self, deployment: DeploymentId, component: &str) -> Option<Entry> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| entry.deployment == deployment && entry.component == component).cloned()
    }

    /// Puts an entry in the place of the one for the same component.
    pub fn put(&self, entry: Entry) -> Result<(), DiskError> {
        self.change(|entries| {
            let same = |known: &&mut Entry| known.deployment == entry.deployment && known.component == entry.component;
            match entries.iter_mut().find(same) {
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        })
    }

    pub fn remove(&self, deployment: DeploymentId, component: &str) -> Result<(), DiskError> {
        self.change(|entries| {
            entries.retain(|entry| entry.deployment != deployment || entry.component != component);
        })
    }

    /// Nobody is told of a change before it is durable.
    fn change(&self, change: impl FnOnce(&mut Vec<Entry>)) -> Result<(), DiskError> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = entries.clone();
        change(&mut next);
        if next != *entries {
            write_record(&self.path, &next)?;
            *entries = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(component: &str, finished: bool) -> Entry {
        Entry {
            deployment: "a3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap(),
            device: "press-07".parse().unwrap(),
            component: component.to_owned(),
            deployment_type: "compose".to_owned(),
            digest: Digest::of(b"one"),
            purge: false,
            finished,
            data: serde_json::json!({ "project": "p" }),
        }
    }

    #[test]
    fn what_was_begun_is_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        ledger.put(entry("web", false)).unwrap();
        ledger.put(entry("db", false)).unwrap();
        ledger.put(entry("web", true)).unwrap();
        ledger.remove(entry("db", false).deployment, "db").unwrap();
        let again = Ledger::open(folder.path()).unwrap();
        assert_eq!(again.entries(), [entry("web", true)]);
        assert_eq!(again.get(entry("web", true).deployment, "web"), Some(entry("web", true)));
        assert_eq!(again.get(entry("web", true).deployment, "db"), None);
    }

    #[test]
    fn a_damaged_ledger_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "nonsense").unwrap();
        assert!(Ledger::open(folder.path()).is_err());
    }
}

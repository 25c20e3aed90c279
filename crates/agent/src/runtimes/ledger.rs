//! The durable list of components that were started and not removed, written before an engine acts.
//!
//! Workloads disappear from engines (a container is removed manually, a release deleted), and an agent may die between
//! two steps. Only the ledger knows what this agent is responsible for; everything else is never touched.

use crate::disk::{DiskError, read_record, write_record};
use margo::{DeploymentId, DeviceId, Digest};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const FILE: &str = "ledger.json";

/// One component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub deployment: DeploymentId,
    pub device: DeviceId,
    pub component: String,
    /// Its engine.
    pub deployment_type: String,
    /// Digest of the deployment YAML of the last apply.
    pub digest: Digest,
    /// Data volumes are deleted with it.
    pub purge: bool,
    /// Applied completely; `false` from the start of an apply.
    pub finished: bool,
    /// Data of the engine: project, release, namespace, objects.
    pub data: serde_json::Value,
}

/// All entries, durable before an engine acts on them.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    entries: Mutex<Vec<Entry>>,
}

impl Ledger {
    /// Reads `folder/ledger.json`. An unreadable ledger is an error: without it the agent would lose track.
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

    /// Replaces the entry of the same component.
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

    /// A change is visible only after it is durable.
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
    fn the_ledger_survives_a_restart() {
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
    fn a_damaged_ledger_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "nonsense").unwrap();
        assert!(Ledger::open(folder.path()).is_err());
    }
}

//! Removal of a component: its objects, its pods, its namespace if the agent created it; data only with `purge`.

use super::apply::{CLAIM, Keep};
use super::cluster::{Cluster, Instance, from_api};
use super::names;
use super::object::ObjectRef;
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use crate::runtimes::ledger::Entry;
use std::time::Duration;
use tokio::time::Instant;

/// Pods get time to stop before they are killed, most half a minute.
const DOWN_MAX: Duration = Duration::from_mins(5);
const POLL_PERIOD: Duration = Duration::from_millis(500);
/// Kinds that are searched by label even if no list names them.
const USUAL: [(&str, &str); 5] =
    [("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("v1", "Service"), ("v1", CLAIM)];

impl Cluster {
    /// Deletes all remaining objects of a component, in reverse order, and waits until its pods are gone.
    pub(super) async fn clear(&self, entry: &Entry) -> Result<(), WorkFailure> {
        let instance = Instance::of(entry);
        let mut known = self.known_objects(Some(entry));
        let started: Vec<ObjectRef> = serde_json::from_value(entry.data["objects"].clone()).unwrap_or_default();
        known.extend(started);
        let usual = USUAL.iter().map(|(api_version, kind)| ObjectRef {
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
            namespace: Some(instance.namespace.clone()),
            name: String::new(),
        });
        let kinds: Vec<ObjectRef> = known.iter().cloned().chain(usual).collect();
        let found = self.labeled(kinds.into_iter(), &instance).await.map_err(from_api)?;
        known.extend(found);
        for (api_version, kind, name) in [
            ("v1", "Secret", names::registry_secret(&instance.name)),
            ("v1", "ConfigMap", names::collector(&instance.name)),
        ] {
            let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
            known.insert(0, ObjectRef { api_version, kind, namespace: Some(instance.namespace.clone()), name });
        }
        // Dependencies are deleted last.
        let keep = if entry.purge { Keep::Nothing } else { Keep::Marked };
        for reference in known.iter().rev().filter(|reference| reference.kind != CLAIM) {
            self.delete_own(reference, &instance, keep).await.map_err(from_api)?;
        }
        self.wait_until_gone(&instance).await?;
        if entry.purge {
            for reference in known.iter().filter(|reference| reference.kind == CLAIM) {
                self.delete_own(reference, &instance, keep).await.map_err(from_api)?;
            }
        }
        self.drop_namespace(&instance).await.map_err(from_api)?;
        let folder = self.instance_folder(&instance);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(format!("remove `{}`: {error}", folder.display())));
            }
            _ => {}
        }
        self.artifacts.forget(entry.deployment, &entry.component).map_err(|error| failed(error.chain()))
    }

    async fn wait_until_gone(&self, instance: &Instance) -> Result<(), WorkFailure> {
        let started = Instant::now();
        loop {
            let pods = self.pods(instance).await.map_err(from_api)?;
            let Some(pod) = pods.first() else { return Ok(()) };
            if started.elapsed() > DOWN_MAX {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                return Err(failed(format!("pod `{name}` has not stopped after {} s", DOWN_MAX.as_secs())));
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
    }
}

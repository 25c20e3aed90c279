//! The durable record of an applied component: its objects as written and as the cluster stored them.

use super::cluster::{Cluster, Instance, from_api};
use super::drift;
use super::object::ObjectRef;
use super::readiness;
use super::set::Placed;
use crate::disk::{DiskError, create_private_dir, read_record, write_record};
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use crate::runtimes::ledger::Entry;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

const FILE: &str = "applied.json";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Applied {
    pub(super) objects: Vec<AppliedObject>,
    /// Revision of the release, if Helm applied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<u64>,
    /// Digest of the secret with logins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) logins: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AppliedObject {
    pub(super) reference: ObjectRef,
    /// As written; secrets without their data.
    pub(super) manifest: Value,
    /// The fields of the live object that the manifest names.
    pub(super) taken: Value,
    /// An autoscaler controls its replicas.
    #[serde(default)]
    pub(super) scaled: bool,
    /// It may be gone.
    #[serde(default)]
    pub(super) done: bool,
}

impl Applied {
    pub(super) fn read(folder: &Path) -> Option<Self> {
        read_record(&folder.join(FILE), &mut |_| {})
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), DiskError> {
        if Self::read(folder).as_ref() == Some(self) {
            return Ok(());
        }
        create_private_dir(folder).map_err(|error| DiskError::at(folder, error))?;
        write_record(&folder.join(FILE), self)
    }

    pub(super) fn manifests(&self) -> Vec<Value> {
        self.objects.iter().map(|object| object.manifest.clone()).collect()
    }
}

impl Cluster {
    /// Reads the applied objects back and records them.
    pub(super) async fn note(
        &self,
        set: &[Placed],
        instance: &Instance,
        revision: Option<u64>,
        logins: Option<String>,
    ) -> Result<(), WorkFailure> {
        let scaled = scaled(set);
        let mut objects = Vec::new();
        for placed in set {
            let live = self.client.find(&placed.path()).await.map_err(from_api)?.unwrap_or(Value::Null);
            let scaled = scaled.contains(&(placed.reference.kind.clone(), placed.reference.name.clone()));
            objects.push(AppliedObject {
                reference: placed.reference.clone(),
                manifest: without_secrets(&placed.object),
                taken: drift::taken(&placed.object, &live, scaled),
                scaled,
                done: live.is_null() || readiness::is_done(&live),
            });
        }
        let applied = Applied { objects, revision, logins };
        applied.write(&self.instance_folder(instance)).map_err(|error| failed(error.chain()))
    }

    /// Everything a component may have in the cluster, including an incomplete apply.
    pub(super) fn known_objects(&self, before: Option<&Entry>) -> Vec<ObjectRef> {
        let Some(before) = before else { return Vec::new() };
        if before.finished
            && let Some(applied) = Applied::read(&self.instance_folder(&Instance::of(before)))
        {
            return applied.objects.into_iter().map(|object| object.reference).collect();
        }
        serde_json::from_value(before.data["objects"].clone()).unwrap_or_default()
    }
}

/// The objects before and after, for the ledger: until the work is done both may exist.
pub(super) fn together(before: Vec<ObjectRef>, set: &[Placed]) -> Vec<ObjectRef> {
    let mut all: Vec<ObjectRef> = set.iter().map(|placed| placed.reference.clone()).collect();
    for reference in before {
        if !all.iter().any(|known| known.is_same(&reference)) {
            all.push(reference);
        }
    }
    all
}

/// Objects whose replicas an autoscaler of the same set controls.
fn scaled(set: &[Placed]) -> Vec<(String, String)> {
    let scalers = set.iter().filter(|placed| placed.reference.kind == "HorizontalPodAutoscaler");
    let target = |placed: &Placed| {
        let target = &placed.object["spec"]["scaleTargetRef"];
        Some((target["kind"].as_str()?.to_owned(), target["name"].as_str()?.to_owned()))
    };
    scalers.filter_map(target).collect()
}

fn without_secrets(object: &Value) -> Value {
    let mut object = object.clone();
    if object["kind"] == "Secret" {
        let data = object.get_mut("data").and_then(Value::as_object_mut);
        for value in data.into_iter().flat_map(|data| data.values_mut()) {
            *value = json!("hidden");
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::kubernetes::object::Resource;

    fn placed(kind: &str, name: &str, spec: Value) -> Placed {
        let object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name }, "spec": spec });
        let reference = ObjectRef::of(&object).unwrap();
        Placed { reference, resource: Resource::fixed("v1", kind, "x", true), object }
    }

    #[test]
    fn the_ledger_contains_old_and_new_objects() {
        let set = [placed("A", "x", json!({})), placed("B", "y", json!({}))];
        let before = vec![placed("A", "x", json!({})).reference, placed("C", "z", json!({})).reference];
        let names: Vec<String> = together(before, &set).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["A `x`", "B `y`", "C `z`"]);
    }

    #[test]
    fn recognizes_objects_scaled_by_an_autoscaler() {
        let target = json!({ "scaleTargetRef": { "kind": "Deployment", "name": "web" } });
        let set = [placed("HorizontalPodAutoscaler", "web", target), placed("Deployment", "web", json!({}))];
        assert_eq!(scaled(&set), [("Deployment".to_owned(), "web".to_owned())]);
    }

    #[test]
    fn a_record_contains_no_secret_and_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let secret =
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": { "a": "c2VjcmV0" } });
        let object = AppliedObject {
            reference: ObjectRef::of(&secret).unwrap(),
            manifest: without_secrets(&secret),
            taken: drift::taken(&secret, &secret, false),
            scaled: false,
            done: false,
        };
        let applied = Applied { objects: vec![object], revision: Some(3), logins: None };
        applied.write(&folder.path().join("web")).unwrap();
        assert_eq!(Applied::read(&folder.path().join("web")), Some(applied));
        let text = std::fs::read_to_string(folder.path().join("web").join(FILE)).unwrap();
        assert!(!text.contains("c2VjcmV0"), "{text}");
    }
}

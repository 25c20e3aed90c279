//! Server-side apply of a set, and pruning of objects that left it.

use super::client::{ApiError, ApplyOptions};
use super::cluster::{Cluster, Instance, from_api};
use super::drift::names_field;
use super::jobs;
use super::names;
use super::object::{ObjectRef, Resource, annotation, label, uid};
use super::set::{Placed, Scope};
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use serde_json::Value;
use std::collections::BTreeSet;

/// Claims keep their data when they leave a set.
pub(super) const CLAIM: &str = "PersistentVolumeClaim";

/// Annotation of objects that outlive their release.
pub(super) const POLICY: &str = "helm.sh/resource-policy";

/// Which objects a deletion keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Objects with the keep annotation.
    Marked,
    Nothing,
}

/// Whether an object has the keep annotation.
pub(super) fn is_kept(object: &Value) -> bool {
    annotation(object, POLICY) == Some("keep")
}

impl Cluster {
    /// Dry run of all objects before the first change.
    pub(super) async fn rehearse(&self, set: &[Placed], scope: Scope) -> Result<(), WorkFailure> {
        let options = ApplyOptions { force: true, dry_run: true };
        for placed in set {
            // Helm updates existing objects differently.
            if scope == Scope::Chart && self.client.find(&placed.path()).await.map_err(from_api)?.is_some() {
                continue;
            }
            match self.client.apply(&placed.path(), &placed.object, options).await {
                Ok(_) => {}
                Err(error) if jobs::is_replaced(placed, &error) => {}
                Err(error @ ApiError::Unreachable(_)) => return Err(from_api(error)),
                Err(error) => {
                    return Err(failed(format!("rejected before any change: {}: {error}", placed.reference)));
                }
            }
        }
        Ok(())
    }

    /// Creates missing objects and patches outdated ones. `written`: the objects this component wrote before.
    pub(super) async fn apply_set(&self, set: &[Placed], written: &[Value]) -> Result<(), WorkFailure> {
        for placed in set {
            match self.apply_one(placed, written).await {
                Ok(()) => {}
                Err(error @ ApiError::Unreachable(_)) => return Err(from_api(error)),
                Err(error) => return Err(failed(format!("{}: {error}", placed.reference))),
            }
        }
        Ok(())
    }

    /// Removes fields that this component wrote before; leaves other fields to their managers.
    async fn apply_one(&self, placed: &Placed, written: &[Value]) -> Result<(), ApiError> {
        let (path, object) = (placed.path(), &placed.object);
        match self.client.apply(&path, object, ApplyOptions::default()).await {
            Err(ApiError::Refused { status: 409, fields, message }) => {
                let is_it = |known: &&Value| ObjectRef::of(known).is_some_and(|known| known.is_same(&placed.reference));
                let before = written.iter().find(is_it);
                let own = |field: &str| before.is_some_and(|before| names_field(before, field));
                if let Some((field, held)) = fields.iter().find(|(field, _)| !own(field)) {
                    let text =
                        format!("`{field}` is managed by another field manager ({held}); remove it from the manifest");
                    return Err(ApiError::Failed(text));
                }
                if fields.is_empty() {
                    return Err(ApiError::Refused { status: 409, fields, message });
                }
                self.client.apply(&path, object, ApplyOptions { force: true, dry_run: false }).await.map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    /// Deletes objects of this component that it no longer names. Objects without its label are not touched.
    pub(super) async fn prune(
        &self,
        known: &[ObjectRef],
        set: &[Placed],
        instance: &Instance,
    ) -> Result<(), WorkFailure> {
        let kept = |reference: &ObjectRef| {
            reference.kind == CLAIM || set.iter().any(|placed| placed.reference.is_same(reference))
        };
        let mut gone: BTreeSet<ObjectRef> = known.iter().filter(|reference| !kept(reference)).cloned().collect();
        let kinds = set.iter().map(|placed| placed.reference.clone()).chain(known.iter().cloned());
        let found = self.labeled(kinds, instance).await.map_err(from_api)?;
        gone.extend(found.into_iter().filter(|reference| !kept(reference)));
        for reference in &gone {
            self.delete_own(reference, instance, Keep::Marked).await.map_err(from_api)?;
        }
        Ok(())
    }

    /// Objects with the label of this component, of the kinds of these objects.
    pub(super) async fn labeled(
        &self,
        kinds: impl Iterator<Item = ObjectRef>,
        instance: &Instance,
    ) -> Result<Vec<ObjectRef>, ApiError> {
        let kinds: BTreeSet<(String, String, Option<String>)> =
            kinds.map(|reference| (reference.api_version, reference.kind, reference.namespace)).collect();
        let own = [names::registry_secret(&instance.name), names::collector(&instance.name)];
        let mut found = Vec::new();
        for (api_version, kind, namespace) in kinds {
            let resource = match self.client.resource(&api_version, &kind).await {
                Ok(resource) => resource,
                Err(error @ ApiError::Unreachable(_)) => return Err(error),
                // A kind that the cluster no longer has has no objects.
                Err(_) => continue,
            };
            let items = self.listed(&resource, namespace.as_deref(), instance).await?;
            for item in items {
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                // Objects of controllers are deleted with their owners.
                let made = item["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
                if !made && !own.iter().any(|own| own == name) {
                    found.push(ObjectRef {
                        api_version: api_version.clone(),
                        kind: kind.clone(),
                        namespace: namespace.clone(),
                        name: name.to_owned(),
                    });
                }
            }
        }
        Ok(found)
    }

    async fn listed(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        instance: &Instance,
    ) -> Result<Vec<Value>, ApiError> {
        match self.client.list(&resource.path(namespace, None), &names::selector(&instance.name), true).await {
            Err(error) if error.is_missing() => Ok(Vec::new()),
            other => other,
        }
    }

    /// Deletes an object with the label of this component.
    pub(super) async fn delete_own(
        &self,
        reference: &ObjectRef,
        instance: &Instance,
        keep: Keep,
    ) -> Result<(), ApiError> {
        let resource = match self.client.resource(&reference.api_version, &reference.kind).await {
            Ok(resource) => resource,
            Err(error @ ApiError::Unreachable(_)) => return Err(error),
            Err(_) => return Ok(()),
        };
        let path = resource.path(reference.namespace.as_deref(), Some(&reference.name));
        let Some(live) = self.client.find(&path).await? else { return Ok(()) };
        if label(&live, names::INSTANCE) != Some(&instance.name) || keep == Keep::Marked && is_kept(&live) {
            return Ok(());
        }
        match self.client.delete(&path, uid(&live)).await {
            // Replaced meanwhile by another object with the same name.
            Err(error) if error.is_conflict() => Ok(()),
            other => other,
        }
    }
}

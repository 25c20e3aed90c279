//! The objects of a component, each with its place in the cluster, checked before any change.

use super::cluster::{Cluster, Instance, from_api};
use super::decorate::{self, Decoration};
use super::names;
use super::object::{ObjectRef, Resource, annotation, label};
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use crate::runtimes::telemetry;
use margrave_oci::objects::{OBJECTS_MAX, problem};
use serde_json::Value;

/// Kinds in the order in which they are applied; others come last.
const ORDER: [&str; 20] = [
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "PersistentVolume",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "PersistentVolumeClaim",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "StatefulSet",
];

/// One object with its place.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) reference: ObjectRef,
    pub(super) resource: Resource,
    pub(super) object: Value,
}

impl Placed {
    pub(super) fn path(&self) -> Vec<String> {
        self.resource.path(self.reference.namespace.as_deref(), Some(&self.reference.name))
    }
}

/// Which objects a set may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything that Helm and the permissions of the agent allow.
    Chart,
    /// Only objects in the namespace of the component, and cluster-scoped kinds that the settings allow.
    Namespace,
}

impl Cluster {
    /// Finds the place of each object and decorates it.
    pub(super) async fn place(
        &self,
        objects: Vec<Value>,
        instance: &Instance,
        scope: Scope,
    ) -> Result<Vec<Placed>, WorkFailure> {
        if objects.len() > OBJECTS_MAX {
            return Err(failed(format!("{} objects, the limit is {OBJECTS_MAX}", objects.len())));
        }
        let decorate = Decoration {
            deployment: instance.deployment,
            component: &instance.component,
            instance: &instance.name,
            namespace: &instance.namespace,
            variables: telemetry::variables(&self.telemetry),
            certificate: self.telemetry.certificate.is_some(),
            logins: !self.logins(&objects)?.is_empty(),
        };
        let mut set = Vec::new();
        let mut problems = Vec::new();
        for mut object in objects {
            if let Some(problem) = problem(&object) {
                problems.push(problem);
                continue;
            }
            let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
            let resource = self.client.resource(api_version.unwrap_or_default(), kind.unwrap_or_default()).await;
            let resource = resource.map_err(from_api)?;
            if !resource.namespaced
                && let Some(fields) = object["metadata"].as_object_mut()
            {
                fields.remove("namespace");
            }
            decorate.decorate_object(&mut object, resource.namespaced);
            let Some(reference) = ObjectRef::of(&object) else { continue };
            if scope == Scope::Namespace {
                problems.extend(self.out_of_scope(&reference, &resource, instance));
            }
            set.push(Placed { reference, resource, object });
        }
        if !problems.is_empty() {
            return Err(refused(&problems));
        }
        let rank =
            |placed: &Placed| ORDER.iter().position(|kind| *kind == placed.reference.kind).unwrap_or(ORDER.len());
        set.sort_by_key(rank);
        Ok(set)
    }

    fn out_of_scope(&self, reference: &ObjectRef, resource: &Resource, instance: &Instance) -> Option<String> {
        if !resource.namespaced {
            let allowed = self.settings.cluster_kinds.iter().any(|kind| kind == "*" || *kind == reference.kind);
            return (!allowed).then(|| {
                format!("{reference} is not in a namespace; the device allows it with `kubernetes.cluster_kinds`")
            });
        }
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        (namespace != instance.namespace)
            .then(|| format!("{reference} names the namespace `{namespace}`; remove it from the manifest"))
    }

    /// Rejects objects that would overwrite those of others, and warns of images that need network after a reboot.
    pub(super) async fn preflight(&self, set: &[Placed], instance: &Instance, scope: Scope) -> Result<(), WorkFailure> {
        let mut problems = Vec::new();
        for placed in set {
            let Some(live) = self.client.find(&placed.path()).await.map_err(from_api)? else { continue };
            let ours = match scope {
                Scope::Chart => is_of_release(&live, instance),
                Scope::Namespace => label(&live, names::INSTANCE) == Some(&instance.name),
            };
            if !ours {
                problems.push(match label(&live, names::DEPLOYMENT) {
                    Some(other) => format!("{} already exists and belongs to deployment {other}", placed.reference),
                    None => format!("{} already exists and was not created by this agent", placed.reference),
                });
            }
        }
        if !problems.is_empty() {
            return Err(refused(&problems));
        }
        let objects: Vec<Value> = set.iter().map(|placed| placed.object.clone()).collect();
        for image in decorate::always_pulled(&objects) {
            tracing::warn!(
                deployment.id = %instance.deployment,
                "image `{image}` is pulled at every start (imagePullPolicy Always): `{}` does not start again without network",
                instance.component
            );
        }
        Ok(())
    }
}

/// Whether Helm has marked the object as part of the release.
fn is_of_release(live: &Value, instance: &Instance) -> bool {
    annotation(live, "meta.helm.sh/release-name") == Some(&instance.name)
        && annotation(live, "meta.helm.sh/release-namespace") == Some(&instance.namespace)
}

pub(super) fn refused(problems: &[String]) -> WorkFailure {
    failed(format!("rejected before any change: {}", problems.join("; ")))
}

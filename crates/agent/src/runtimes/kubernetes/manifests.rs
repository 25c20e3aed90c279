//! Plain manifests: an archive of YAML, applied with server-side apply (CR-01).

use super::applied::{Applied, together};
use super::cluster::{Cluster, Instance, from_api};
use super::cluster_engine::ClusterEngine;
use super::object::ObjectRef;
use super::set::{Placed, Scope};
use super::wait::Awaited;
use super::{pods, pointer};
use crate::artifacts::{MANIFESTS, unpack_folder};
use crate::machine::io::{ApplyWork, ObservedComponent, WorkFailure};
use crate::runtimes::engine::{component, failed, holder};
use crate::runtimes::ledger::Entry;
use margo::package::PackageFile;
use serde_json::Value;
use std::sync::Arc;

pub struct Manifests {
    cluster: Arc<Cluster>,
}

impl Manifests {
    /// The type in the standard for everything other than Helm and Compose; the artifact type is more specific.
    pub const TYPE: &'static str = "custom";

    pub fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }

    /// Fetches, unpacks, sets the parameters, and places all objects.
    async fn load(&self, work: &ApplyWork, instance: &Instance) -> Result<Vec<Placed>, WorkFailure> {
        let component = component(work);
        let held = self.cluster.artifacts.fetch(&holder(work), &component.properties.source, MANIFESTS).await;
        let held = held.map_err(|error| failed(error.to_string()))?;
        let layer =
            tokio::fs::read(&held.path).await.map_err(|error| failed(format!("read the component: {error}")))?;
        let files = unpack_folder(&layer).map_err(|reason| failed(format!("the component's archive: {reason}")))?;
        let files: Vec<PackageFile> = files.into_iter().map(|(path, bytes)| PackageFile { path, bytes }).collect();
        let objects = margrave_oci::build::manifest_objects(&files);
        let mut objects =
            objects.map_err(|problems| failed(format!("the component cannot be used: {}", problems.join("; "))))?;
        pointer::fill(&mut objects, &work.document, &component.name).map_err(failed)?;
        self.cluster.place(objects, instance, Scope::Namespace).await
    }
}

impl ClusterEngine for Manifests {
    const TYPE: &'static str = Manifests::TYPE;

    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    async fn prepare_one(&self, work: &ApplyWork, before: Option<&Entry>) -> Result<Value, WorkFailure> {
        self.cluster.begin(work);
        self.cluster.client.version().await.map_err(from_api)?;
        let instance = self.cluster.instance(work, before)?;
        let set = self.load(work, &instance).await?;
        self.cluster.preflight(&set, &instance, Scope::Namespace).await?;
        Ok(instance.record(&together(self.cluster.known_objects(before), &set)))
    }

    async fn apply_one(&self, work: &ApplyWork, entry: &Entry) -> Result<(), WorkFailure> {
        let cluster = &self.cluster;
        let deadline = cluster.deadline(work);
        let instance = Instance::of(entry);
        let set = self.load(work, &instance).await?;
        let objects: Vec<Value> = set.iter().map(|placed| placed.object.clone()).collect();
        cluster.ensure_namespace(&instance).await?;
        cluster.rehearse(&set, Scope::Namespace).await?;
        let logins = cluster.put_logins(&objects, &instance).await?;
        cluster.put_certificate(&instance).await?;
        let before = pods::restarts(&cluster.pods(&instance).await.map_err(from_api)?);
        let written = Applied::read(&cluster.instance_folder(&instance)).map(|applied| applied.manifests());
        let again = cluster.delete_replaced(&set, &instance).await?;
        cluster.apply_set(&set, &written.unwrap_or_default()).await?;
        let known: Vec<ObjectRef> = serde_json::from_value(entry.data["objects"].clone()).unwrap_or_default();
        cluster.prune(&known, &set, &instance).await?;
        let awaited = Awaited { set: &set, all: component(work).properties.waits(), again: &again };
        cluster.wait(&awaited, &instance, &before, deadline).await?;
        cluster.note(&set, &instance, None, logins).await?;
        cluster.artifacts.settle(&holder(work)).map_err(|error| failed(error.chain()))
    }

    async fn remove_one(&self, entry: &Entry) -> Result<(), WorkFailure> {
        self.cluster.clear(entry).await
    }

    async fn observe_one(&self, entry: &Entry) -> Result<ObservedComponent, String> {
        let (found, _) = self.cluster.look(entry).await.map_err(|error| error.to_string())?;
        let (run, differs) = found.run_state();
        Ok(ObservedComponent { digest: entry.digest.clone(), run, differs })
    }
}

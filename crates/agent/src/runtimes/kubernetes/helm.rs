//! Helm releases: charts are rendered, checked, decorated, and installed as releases of the same chart and version.
//!
//! `helm template` renders with the values and the API versions of the cluster. The result is stored, so that a repair
//! applies the same objects again, including random values. The release is made from a chart of these objects: nothing
//! is rendered twice, and Helm 3 and 4 need no plugins. The agent itself waits for the objects.

mod chart;
mod numbers;
mod program;
mod release;
mod render;
mod values;

use super::applied::together;
use super::cluster::{Cluster, Instance, from_api};
use super::cluster_engine::ClusterEngine;
use super::object::ObjectRef;
use super::pods;
use super::set::{Placed, Scope};
use super::wait::Awaited;
use crate::artifacts::CHART;
use crate::machine::io::{ApplyWork, ObservedComponent, WorkFailure};
use crate::runtimes::engine::{component, failed, holder};
use crate::runtimes::ledger::Entry;
use chart::Chart;
use margo::description::ComponentSource;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct Helm {
    cluster: Arc<Cluster>,
    program: PathBuf,
    /// Detected once: 3 or 4.
    major: tokio::sync::OnceCell<u64>,
}

/// A chart ready for installation.
struct Loaded {
    chart: Chart,
    values: Value,
    set: Vec<Placed>,
}

impl Helm {
    pub const TYPE: &'static str = "helm";

    pub fn new(program: &Path, cluster: Arc<Cluster>) -> Self {
        Self { cluster, program: program.to_owned(), major: tokio::sync::OnceCell::new() }
    }

    /// Fetches, checks, renders, and places all objects.
    async fn load(&self, work: &ApplyWork, instance: &Instance, version: &str) -> Result<Loaded, WorkFailure> {
        let component = component(work);
        let held = self.cluster.artifacts.fetch(&holder(work), &component.properties.source, CHART).await;
        let held = held.map_err(|error| failed(error.to_string()))?;
        let archive = tokio::fs::read(&held.path).await.map_err(|error| failed(format!("read the chart: {error}")))?;
        let chart = Chart::read(&archive).map_err(|reason| failed(format!("the chart cannot be used: {reason}")))?;
        if let ComponentSource::Oci { revision, .. } = &component.properties.source
            && let Some(words) = chart.other_version(revision)
        {
            tracing::warn!(deployment.id = %work.deployment, "component `{}`: {words}", component.name);
        }
        let values = values::values(&work.document, &component.name).map_err(failed)?;
        let objects = self.rendered(&held, &values, instance, version).await?;
        let (objects, warnings) =
            chart::check_objects(objects).map_err(|reason| failed(format!("the chart cannot be used: {reason}")))?;
        for warning in warnings {
            tracing::warn!(deployment.id = %work.deployment, "component `{}`: {warning}", component.name);
        }
        let set = self.cluster.place(objects, instance, Scope::Chart).await?;
        Ok(Loaded { chart, values, set })
    }
}

impl ClusterEngine for Helm {
    const TYPE: &'static str = Helm::TYPE;

    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    async fn prepare_one(&self, work: &ApplyWork, before: Option<&Entry>) -> Result<Value, WorkFailure> {
        self.cluster.begin(work);
        let version = self.cluster.client.version().await.map_err(from_api)?;
        self.major().await?;
        let instance = self.cluster.instance(work, before)?;
        let Loaded { set, .. } = self.load(work, &instance, &version).await?;
        self.cluster.preflight(&set, &instance, Scope::Chart).await?;
        Ok(instance.record(&together(self.cluster.known_objects(before), &set)))
    }

    async fn apply_one(&self, work: &ApplyWork, entry: &Entry) -> Result<(), WorkFailure> {
        let cluster = &self.cluster;
        let deadline = cluster.deadline(work);
        let instance = Instance::of(entry);
        let version = cluster.client.version().await.map_err(from_api)?;
        let Loaded { chart, values, set } = self.load(work, &instance, &version).await?;
        let objects: Vec<Value> = set.iter().map(|placed| placed.object.clone()).collect();
        cluster.ensure_namespace(&instance).await?;
        cluster.rehearse(&set, Scope::Chart).await?;
        let logins = cluster.put_logins(&objects, &instance).await?;
        cluster.put_certificate(&instance).await?;
        let before = pods::restarts(&cluster.pods(&instance).await.map_err(from_api)?);
        self.recover(&instance).await?;
        let again = cluster.delete_replaced(&set, &instance).await?;
        self.upgrade(&chart, &values, &set, &instance).await?;
        let known: Vec<ObjectRef> = serde_json::from_value(entry.data["objects"].clone()).unwrap_or_default();
        cluster.prune(&known, &set, &instance).await?;
        let revision = self.latest(&instance).await.map_err(from_api)?.map(|release| release.revision);
        let awaited = Awaited { set: &set, all: component(work).properties.waits(), again: &again };
        cluster.wait(&awaited, &instance, &before, deadline).await?;
        cluster.note(&set, &instance, revision, logins).await?;
        self.forget_renderings(&instance);
        cluster.artifacts.settle(&holder(work)).map_err(|error| failed(error.chain()))
    }

    async fn remove_one(&self, entry: &Entry) -> Result<(), WorkFailure> {
        self.cluster.client.version().await.map_err(from_api)?;
        self.uninstall(&Instance::of(entry)).await?;
        self.cluster.clear(entry).await
    }

    async fn observe_one(&self, entry: &Entry) -> Result<ObservedComponent, String> {
        let (mut found, applied) = self.cluster.look(entry).await.map_err(|error| error.to_string())?;
        let instance = Instance::of(entry);
        let latest = self.latest(&instance).await.map_err(|error| error.to_string())?;
        let desired = applied.and_then(|applied| applied.revision);
        match (latest, desired) {
            (None, _) => found.stopped.push(format!("release `{}` is missing", instance.name)),
            (Some(latest), Some(desired)) if latest.revision != desired => {
                let words = format!("release `{}`: revision is {}, expected {desired}", instance.name, latest.revision);
                found.differs.push(words);
            }
            (Some(latest), _) if latest.status != "deployed" => {
                found.differs.push(format!("release `{}` is {}", instance.name, latest.status));
            }
            _ => {}
        }
        let (run, differs) = found.run_state();
        Ok(ObservedComponent { digest: entry.digest.clone(), run, differs })
    }
}

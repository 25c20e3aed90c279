//! Runtimes for workloads: one trait, several engines.
//!
//! An engine labels what it creates with the deployment id and the digest of the YAML, so that [`Runtime::observe`]
//! finds it again after a restart of the agent, the engine or the machine.
//! Every call may be repeated, and may be interrupted at any point by dropping its future.

pub mod absent;
pub mod compose;
pub mod engine;
pub mod engines;
pub mod kubernetes;
pub mod ledger;
pub mod program;
mod telemetry;
pub mod simulated;

use crate::artifacts::Artifacts;
use crate::config::{AgentConfig, RuntimeKind};
use crate::disk::{self, DiskError};
use crate::machine::io::{ApplyWork, Observation, RemoveWork, WorkFailure};
use crate::preload::Preload;
use engine::Engine;
use margo::DeploymentId;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future, for use with `dyn`.
pub type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

/// Which logs, and how many lines of each component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogsQuery {
    pub deployment: DeploymentId,
    /// `None`: all components.
    pub component: Option<String>,
    pub lines: usize,
}

pub trait Runtime: Send + Sync + 'static {
    /// Brings one component to the state in its document and, if `wait` is set, waits until it runs.
    /// Data volumes survive. Deadlines are the caller's.
    fn apply(&self, work: ApplyWork) -> Future<'_, Result<(), WorkFailure>>;

    /// Removes one component or a whole deployment. Removing a missing one succeeds.
    fn remove(&self, work: RemoveWork) -> Future<'_, Result<(), WorkFailure>>;

    /// Everything this agent has applied and not removed, with its current state. Undetermined states are `Unknown`.
    fn observe(&self) -> Future<'_, Result<Observation, String>>;

    /// Returns when a workload may have changed (an event of the engine). Never, without engine events.
    fn changed(&self) -> Future<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// A maintenance hold starts or ends: changes that the runtime makes on its own wait.
    fn hold(&self, _: bool) {}

    /// The last log lines of a deployment, or of one of its components.
    fn logs(&self, requested: LogsQuery) -> Future<'_, Result<String, String>> {
        let LogsQuery { deployment, .. } = requested;
        Box::pin(async move { Err(format!("this runtime keeps no logs of deployment {deployment}")) })
    }

    /// Stores the contents of a preloaded desired state, so that applying it needs no network.
    fn preload(&self, _: &Preload) -> Result<(), String> {
        Ok(())
    }

    /// Whether it simulates workloads; the capability report includes this.
    fn is_simulated(&self) -> bool {
        false
    }

    /// The values for `supportedDeploymentTypes`.
    fn deployment_types(&self) -> &'static [&'static str];
}

/// The engines that the settings enable. Without any, the `runtime` setting; without it, nothing runs.
pub fn open(config: &AgentConfig) -> Result<Arc<dyn Runtime>, DiskError> {
    disk::prepare(&config.state_dir)?;
    let artifacts = Arc::new(Artifacts::open(&config.state_dir, &config.registry, &config.artifacts)?);
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    if let Some(compose) = &config.compose {
        let engine = compose::Compose::new(&config.state_dir, compose, &config.telemetry, Arc::clone(&artifacts));
        engines.push(Box::new(engine));
    }
    if let Some(settings) = &config.kubernetes {
        let cluster = Arc::new(kubernetes::Cluster::new(config, settings, artifacts));
        if settings.runs(kubernetes::Helm::TYPE) {
            engines.push(Box::new(kubernetes::Helm::new(&settings.helm, Arc::clone(&cluster))));
        }
        if settings.runs(kubernetes::Manifests::TYPE) {
            engines.push(Box::new(kubernetes::Manifests::new(cluster)));
        }
    }
    match config.runtime {
        Some(RuntimeKind::Simulated) if engines.is_empty() => {
            Ok(Arc::new(simulated::Simulated::open(&config.state_dir, config.simulated.script.clone())?))
        }
        // Without any, the workloads of an earlier engine are known and left alone.
        _ => Ok(Arc::new(engines::Engines::open(&config.state_dir, engines)?)),
    }
}

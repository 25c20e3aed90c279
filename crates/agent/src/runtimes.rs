//! Where workloads run. One small trait; engines differ behind it.
//!
//! An engine labels what it makes with the deployment id and the digest of the YAML it was made from, so that
//! [`Runtime::observe`] finds it again after a restart of the agent, the engine or the machine.
//! Every call may be repeated, and may be cut off at any point by dropping its future.

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
use crate::disk::DiskError;
use crate::machine::io::{ApplyWork, Observation, RemoveWork, WorkFailure};
use crate::preload::Preload;
use engine::Engine;
use margo::DeploymentId;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future, so that the trait can be used behind `dyn`.
pub type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

/// Whose lines, and how many of each component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogsWanted {
    pub deployment: DeploymentId,
    /// Left out: of all.
    pub component: Option<String>,
    pub lines: usize,
}

pub trait Runtime: Send + Sync + 'static {
    /// Brings one component to the state its document describes, and, if it is to be waited for, waits until it runs.
    /// Data volumes survive. Deadlines are the caller's.
    fn apply(&self, work: ApplyWork) -> Future<'_, Result<(), WorkFailure>>;

    /// Removes one component or a whole deployment. Removing what is not there succeeds.
    fn remove(&self, work: RemoveWork) -> Future<'_, Result<(), WorkFailure>>;

    /// Everything this agent has ever applied and not removed, with its state now. What cannot be told is `Unknown`.
    fn observe(&self) -> Future<'_, Result<Observation, String>>;

    /// Returns when something of ours may have changed (an event of the engine). Never, where there are no events.
    fn changed(&self) -> Future<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// A technician holds changes from now on, or no longer: what a runtime does without being asked waits.
    fn hold(&self, _: bool) {}

    /// The last lines a deployment, or one component of it, has written.
    fn logs(&self, wanted: LogsWanted) -> Future<'_, Result<String, String>> {
        let LogsWanted { deployment, .. } = wanted;
        Box::pin(async move { Err(format!("this runtime keeps no logs of deployment {deployment}")) })
    }

    /// Takes in what came along with a preloaded desired state, so that applying it needs no network.
    fn preload(&self, _: &Preload) -> Result<(), String> {
        Ok(())
    }

    /// Whether it only pretends to run anything; the capability report says so.
    fn is_simulated(&self) -> bool {
        false
    }

    /// What goes into `supportedDeploymentTypes`.
    fn deployment_types(&self) -> &'static [&'static str];
}

/// The engines that the settings switch on. Where there are none, what `runtime` says; without a word, nothing runs.
pub fn open(config: &AgentConfig) -> Result<Arc<dyn Runtime>, DiskError> {
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
        // Without any, what an engine of before has begun is known and left alone.
        _ => Ok(Arc::new(engines::Engines::open(&config.state_dir, engines)?)),
    }
}

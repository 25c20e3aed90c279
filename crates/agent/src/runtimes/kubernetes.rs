//! Kubernetes: Helm releases and plain manifests, each component an instance with a stable name.
//!
//! A rendered chart or an archive is a set of objects. The agent decorates them (labels, image credentials, telemetry),
//! checks them against the cluster before any change, applies them with Helm or server-side apply, waits for them, and
//! records them as the cluster stored them, so that later observations can detect drift.

// Suggested reading order.
pub mod names;
pub mod access;
pub mod object;
pub mod client;
mod cluster;
mod namespace;
mod set;
mod decorate;
mod apply;
mod jobs;
mod readiness;
mod pods;
mod wait;
mod drift;
mod applied;
mod observe;
mod logins;
mod listen;
mod remove;
mod cluster_engine;
mod helm;
mod pointer;
mod manifests;

pub use cluster::Cluster;
pub use helm::Helm;
pub use manifests::Manifests;

use crate::config::KubernetesConfig;
use access::Source;

/// The source of the cluster access.
fn source(config: &KubernetesConfig) -> Source {
    match &config.kubeconfig {
        Some(path) => Source::File { path: path.clone(), context: config.context.clone() },
        None => Source::Pod,
    }
}

/// Checks the cluster access without connecting.
pub fn check_access(config: &KubernetesConfig) -> Result<(), String> {
    source(config).read().map(|_| ())
}

//! Kubernetes: Helm releases and plain manifests, each component an instance of its own with a stable name.
//!
//! What a chart renders to or an archive holds is a set of objects. They are dressed (labels, credentials for images,
//! telemetry), checked against the cluster before anything changes, brought there by Helm or by server-side apply, waited
//! for, and written down as the cluster took them, so that later looks can say what somebody changed.

// Suggested reading order.
pub mod names;
pub mod access;
pub mod object;
pub mod client;
mod cluster;
mod namespace;
mod set;
mod dress;
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
mod way;
mod helm;
mod pointer;
mod manifests;

pub use cluster::Cluster;
pub use helm::Helm;
pub use manifests::Manifests;

use crate::config::KubernetesConfig;
use access::Source;

/// Where the way to the cluster is looked for.
fn source(config: &KubernetesConfig) -> Source {
    match &config.kubeconfig {
        Some(path) => Source::File { path: path.clone(), context: config.context.clone() },
        None => Source::Pod,
    }
}

/// Whether there is a way to the cluster, without going it.
pub fn check_access(config: &KubernetesConfig) -> Result<(), String> {
    source(config).read().map(|_| ())
}

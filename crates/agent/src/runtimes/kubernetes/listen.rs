//! Events of the cluster: our workloads and releases. Other changes are found by periodic observation.

use super::client::{ApiError, Client, Watch};
use super::cluster::Cluster;
use super::names;
use super::object::Resource;
use futures_util::future::select_all;
use serde_json::Value;
use std::time::Duration;

/// Delay between two attempts to watch the cluster.
const SUBSCRIBE_RETRY: Duration = Duration::from_secs(5);
/// Watched kinds, one connection for each.
const KINDS: [(&str, &str, &str, &str); 5] = [
    ("apps/v1", "Deployment", "deployments", names::DEPLOYMENT),
    ("apps/v1", "StatefulSet", "statefulsets", names::DEPLOYMENT),
    ("apps/v1", "DaemonSet", "daemonsets", names::DEPLOYMENT),
    ("batch/v1", "Job", "jobs", names::DEPLOYMENT),
    // Releases, by the labels of Helm.
    ("v1", "Secret", "secrets", "owner=helm"),
];

/// Open watches.
#[derive(Debug)]
pub(super) struct Listening(Vec<Watch>);

impl Listening {
    async fn begin(client: &Client, namespace: Option<&str>) -> Result<Self, ApiError> {
        let mut watches = Vec::new();
        for (api_version, kind, plural, selector) in KINDS {
            let path = Resource::fixed(api_version, kind, plural, true).path(namespace, None);
            match client.watch(&path, selector).await {
                Ok(watch) => watches.push(watch),
                Err(error @ ApiError::Unreachable(_)) => return Err(error),
                // Without the permission to watch, only periodic observation remains.
                Err(error) => tracing::debug!("{plural} are not watched: {error}"),
            }
        }
        if watches.is_empty() { Err(ApiError::Failed("nothing can be watched".to_owned())) } else { Ok(Self(watches)) }
    }

    /// The next event of any kind; `None` when one of the watches ends.
    async fn next(&mut self) -> Result<Option<Value>, ApiError> {
        let waiting: Vec<_> = self.0.iter_mut().map(|watch| Box::pin(watch.next())).collect();
        select_all(waiting).await.0
    }
}

impl Cluster {
    /// Waits for an event of our workloads.
    pub(super) async fn listen(&self) {
        let mut listening = self.listening.lock().await;
        loop {
            let Some(open) = listening.as_mut() else {
                match Listening::begin(&self.client, self.settings.namespace.as_deref()).await {
                    Ok(fresh) => {
                        *listening = Some(fresh);
                        // Covers events before the watch.
                        return;
                    }
                    Err(_) => {
                        tokio::time::sleep(SUBSCRIBE_RETRY).await;
                        continue;
                    }
                }
            };
            match open.next().await {
                Ok(Some(event)) if event["type"] == "BOOKMARK" => {}
                Ok(Some(event)) if event["type"] != "ERROR" => return,
                // Ended, as every few minutes, or the resource version is too old.
                _ => *listening = None,
            }
        }
    }
}

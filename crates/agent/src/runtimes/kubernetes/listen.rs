//! Events of the cluster: workloads with our mark, and releases. What is not heard of here is found by looking.

use super::client::{ApiError, Client, Watch};
use super::cluster::Cluster;
use super::names;
use super::object::Resource;
use futures_util::future::select_all;
use serde_json::Value;
use std::time::Duration;

/// Between two tries to hear the cluster's events.
const LISTEN_PAUSE: Duration = Duration::from_secs(5);
/// What is listened to, one connection for each.
const KINDS: [(&str, &str, &str, &str); 5] = [
    ("apps/v1", "Deployment", "deployments", names::DEPLOYMENT),
    ("apps/v1", "StatefulSet", "statefulsets", names::DEPLOYMENT),
    ("apps/v1", "DaemonSet", "daemonsets", names::DEPLOYMENT),
    ("batch/v1", "Job", "jobs", names::DEPLOYMENT),
    // Releases, by what Helm writes on them.
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
                Err(error @ ApiError::Silent(_)) => return Err(error),
                // Without the right to watch it is looked at now and then.
                Err(error) => tracing::debug!("{plural} are not watched: {error}"),
            }
        }
        if watches.is_empty() { Err(ApiError::Failed("nothing can be watched".to_owned())) } else { Ok(Self(watches)) }
    }

    /// The next event of any kind; `None` when one of the watches is over.
    async fn next(&mut self) -> Result<Option<Value>, ApiError> {
        let waiting: Vec<_> = self.0.iter_mut().map(|watch| Box::pin(watch.next())).collect();
        select_all(waiting).await.0
    }
}

impl Cluster {
    /// Until something of ours happens.
    pub(super) async fn listen(&self) {
        let mut listening = self.listening.lock().await;
        loop {
            let Some(open) = listening.as_mut() else {
                match Listening::begin(&self.client, self.settings.namespace.as_deref()).await {
                    Ok(fresh) => {
                        *listening = Some(fresh);
                        // Whatever happened while nobody listened.
                        return;
                    }
                    Err(_) => {
                        tokio::time::sleep(LISTEN_PAUSE).await;
                        continue;
                    }
                }
            };
            match open.next().await {
                Ok(Some(event)) if event["type"] == "BOOKMARK" => {}
                Ok(Some(event)) if event["type"] != "ERROR" => return,
                // Over, as every few minutes, or the cluster has forgotten where we were.
                _ => *listening = None,
            }
        }
    }
}

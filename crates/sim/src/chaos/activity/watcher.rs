//! Watches the manifests of one client: versions only increase, and a version never has two contents.

use super::RunContext;
use crate::chaos::device::DeviceClient;
use margo::digest::Digest;
use std::collections::BTreeMap;

/// The observations of one watcher.
#[derive(Debug, Default)]
pub struct WatchResult {
    pub client: String,
    pub polls: u64,
    pub versions: BTreeMap<u64, Digest>,
    pub violations: Vec<String>,
}

/// Polls until the end. A gap while the server is down is allowed; an older version is not.
pub async fn watch(mut stage: RunContext, client: String, device: DeviceClient) -> WatchResult {
    let mut watched = WatchResult { client, ..WatchResult::default() };
    let mut etag: Option<String> = None;
    while !stage.is_over() {
        stage.ready().await;
        let Ok(answer) = device.manifest(etag.as_deref()).await else { continue };
        watched.polls += 1;
        let Some(fetched) = answer else { continue };
        let version = fetched.manifest.manifest_version;
        if let Some((newest, _)) = watched.versions.last_key_value()
            && version < *newest
        {
            watched.violations.push(format!("{}: version {version} after {newest}", watched.client));
        }
        let known = watched.versions.entry(version).or_insert_with(|| fetched.digest.clone());
        if *known != fetched.digest {
            watched.violations.push(format!("{}: version {version} has two contents", watched.client));
        }
        etag = fetched.etag;
    }
    watched
}

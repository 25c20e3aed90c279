//! What Helm and plain manifests do each in their own way, and the engine that is the same for both.

use super::cluster::{Cluster, Instance};
use crate::machine::io::{ApplyWork, SeenComponent, WorkFailure};
use crate::preload::Preload;
use crate::runtimes::Future;
use crate::runtimes::engine::Engine;
use crate::runtimes::ledger::Entry;
use serde_json::Value;

/// How components of one type get into the cluster and out of it. The methods are those of [`Engine`].
pub(super) trait Way: Send + Sync + 'static {
    const TYPE: &'static str;

    fn cluster(&self) -> &Cluster;

    fn prepare_one(
        &self,
        work: &ApplyWork,
        before: Option<&Entry>,
    ) -> impl std::future::Future<Output = Result<Value, WorkFailure>> + Send;

    fn apply_one(
        &self,
        work: &ApplyWork,
        entry: &Entry,
    ) -> impl std::future::Future<Output = Result<(), WorkFailure>> + Send;

    fn remove_one(&self, entry: &Entry) -> impl std::future::Future<Output = Result<(), WorkFailure>> + Send;

    fn observe_one(&self, entry: &Entry) -> impl std::future::Future<Output = Result<SeenComponent, String>> + Send;
}

impl<W: Way> Engine for W {
    fn deployment_type(&self) -> &'static str {
        W::TYPE
    }

    fn prepare<'a>(&'a self, work: &'a ApplyWork, before: Option<&'a Entry>) -> Future<'a, Result<Value, WorkFailure>> {
        Box::pin(self.prepare_one(work, before))
    }

    fn apply<'a>(&'a self, work: &'a ApplyWork, entry: &'a Entry) -> Future<'a, Result<(), WorkFailure>> {
        Box::pin(self.apply_one(work, entry))
    }

    fn remove<'a>(&'a self, entry: &'a Entry) -> Future<'a, Result<(), WorkFailure>> {
        Box::pin(self.remove_one(entry))
    }

    fn observe<'a>(&'a self, entries: &'a [Entry]) -> Future<'a, Result<Vec<SeenComponent>, String>> {
        Box::pin(async move {
            if entries.is_empty() {
                self.cluster().client.version().await.map_err(|error| error.to_string())?;
            }
            let mut seen = Vec::new();
            for entry in entries {
                seen.push(self.observe_one(entry).await?);
            }
            Ok(seen)
        })
    }

    fn changed(&self) -> Future<'_, ()> {
        Box::pin(self.cluster().listen())
    }

    fn hold(&self, held: bool) {
        self.cluster().hold(held);
    }

    fn preload(&self, preload: &Preload) -> Result<(), String> {
        self.cluster().artifacts.preload(preload).map_err(|error| error.chain())
    }

    fn logs<'a>(&'a self, entry: &'a Entry, lines: usize) -> Future<'a, Result<String, String>> {
        Box::pin(async move {
            self.cluster().pod_logs(&Instance::of(entry), lines).await.map_err(|error| error.to_string())
        })
    }
}

//! The operations that differ between Helm and plain manifests, and the engine that both share.

use super::cluster::{Cluster, Instance};
use crate::machine::io::{ApplyWork, ObservedComponent, WorkFailure};
use crate::preload::Preload;
use crate::runtimes::Future;
use crate::runtimes::engine::Engine;
use crate::runtimes::ledger::Entry;
use serde_json::Value;

/// Applies and removes components of one type. The methods correspond to those of [`Engine`].
pub(super) trait ClusterEngine: Send + Sync + 'static {
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

    fn observe_one(&self, entry: &Entry)
    -> impl std::future::Future<Output = Result<ObservedComponent, String>> + Send;
}

impl<W: ClusterEngine> Engine for W {
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

    fn observe<'a>(&'a self, entries: &'a [Entry]) -> Future<'a, Result<Vec<ObservedComponent>, String>> {
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

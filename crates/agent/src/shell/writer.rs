//! Writes to disk in order, one at a time, on a blocking thread.

use crate::disk::StateDir;
use crate::machine::io::{Input, PersistFailure, Record, WriteId};
use margo::Digest;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub(super) struct Writer {
    /// The machine has at most one write of each kind in flight, so this stays short.
    jobs: mpsc::UnboundedSender<Job>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
enum Job {
    Persist(WriteId, Vec<Record>),
    Forget(Vec<Digest>),
}

impl Writer {
    pub(super) fn start(state: Arc<StateDir>, inputs: mpsc::Sender<Input>) -> Self {
        let (jobs, mut todo) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(job) = todo.recv().await {
                let state = Arc::clone(&state);
                match job {
                    Job::Persist(write, records) => {
                        let result = tokio::task::spawn_blocking(move || state.persist(&records)).await;
                        let result = result.unwrap_or_else(|error| {
                            Err(PersistFailure { disk_full: false, message: error.to_string() })
                        });
                        // The receiver may be gone; pending writes are still executed.
                        let _ = inputs.send(Input::Persisted { write, result }).await;
                    }
                    Job::Forget(digests) => {
                        let _ = tokio::task::spawn_blocking(move || state.forget(&digests)).await;
                    }
                }
            }
        });
        Self { jobs, task }
    }

    /// Executes pending writes and releases the state folder.
    pub(super) async fn finish(self) {
        drop(self.jobs);
        let _ = self.task.await;
    }

    pub(super) fn persist(&self, write: WriteId, records: Vec<Record>) {
        let _ = self.jobs.send(Job::Persist(write, records));
    }

    pub(super) fn forget(&self, digests: Vec<Digest>) {
        let _ = self.jobs.send(Job::Forget(digests));
    }
}

//! Group commit: reports that arrive together are written in one transaction, and answered after its commit.

use crate::heads::Heads;
use crate::telemetry::Metrics;
use margrave_store::{StatusOutcome, StatusWrite, Store, StoreError};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Reports that may wait. At a few hundred microseconds each that is about a second; beyond it callers come back later.
const WAITING_MAX: usize = 4_096;
/// What all waiting reports may hold in memory together; most are a few hundred bytes, the largest 256 KiB.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Reports per transaction: enough to share one sync of the disk, few enough to keep other writers from waiting.
const BATCH_MAX: usize = 256;

/// Why a report was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritten {
    /// Too many are waiting.
    Busy,
    /// The disk is full.
    Full,
    /// The store failed; it is in the log.
    Failed,
}

struct Answer {
    sender: oneshot::Sender<Result<StatusOutcome, Unwritten>>,
    /// Given back when the report is written and let go.
    _room: OwnedSemaphorePermit,
}

type Waiting = (StatusWrite, Answer);

/// Hands reports to the writer; cheap to clone.
#[derive(Debug, Clone)]
pub struct StatusQueue {
    sender: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

impl StatusQueue {
    /// Starts the writer. It ends when the last handle is dropped and everything handed over is written.
    pub fn start(store: Store, heads: Arc<Heads>, metrics: Arc<Metrics>) -> (Self, tokio::task::JoinHandle<()>) {
        Self::start_bounded(Writer { store, heads, metrics }, WAITING_MAX, WAITING_BYTES_MAX)
    }

    fn start_bounded(writer: Writer, waiting_max: usize, bytes_max: usize) -> (Self, tokio::task::JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(waiting_max);
        let room = Arc::new(Semaphore::new(bytes_max));
        (Self { sender, room }, tokio::spawn(writer.run(receiver)))
    }

    /// Returns after the commit.
    pub async fn write(&self, report: StatusWrite) -> Result<StatusOutcome, Unwritten> {
        let bytes = u32::try_from(report.body.len()).map_err(|_| Unwritten::Busy)?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes).map_err(|_| Unwritten::Busy)?;
        let (sender, outcome) = oneshot::channel();
        self.sender.try_send((report, Answer { sender, _room: room })).map_err(|_| Unwritten::Busy)?;
        outcome.await.unwrap_or(Err(Unwritten::Failed))
    }
}

struct Writer {
    store: Store,
    heads: Arc<Heads>,
    metrics: Arc<Metrics>,
}

impl Writer {
    async fn run(self, mut receiver: mpsc::Receiver<Waiting>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let (reports, answers): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
            let outcomes = self.commit(&reports).await;
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // A caller that has gone away does not matter: its report is written.
                let _ = answer.sender.send(outcome);
            }
        }
    }

    /// One outcome per report. A report that makes the transaction fail does not take the others with it.
    async fn commit(&self, reports: &[StatusWrite]) -> Vec<Result<StatusOutcome, Unwritten>> {
        self.metrics.status_batch();
        match self.write(reports).await {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(error) if reports.len() == 1 => vec![Err(failed(&self.metrics, &error))],
            Err(error @ StoreError::Full(_)) => vec![Err(failed(&self.metrics, &error)); reports.len()],
            Err(_) => {
                let mut outcomes = Vec::with_capacity(reports.len());
                for report in reports {
                    outcomes.push(match self.write(std::slice::from_ref(report)).await {
                        Ok(one) => one.first().copied().ok_or(Unwritten::Failed),
                        Err(error) => Err(failed(&self.metrics, &error)),
                    });
                }
                outcomes
            }
        }
    }

    /// Invariant 2: a client ahead of its manifest is told a version above its own before its report counts, so that the report
    /// never passes for the deployment of today.
    async fn write(&self, reports: &[StatusWrite]) -> Result<Vec<StatusOutcome>, StoreError> {
        for report in reports {
            let adopted = report.status.adopted_manifest_version;
            if self.heads.get(&report.client).is_some_and(|head| head.version < adopted)
                && let Some(head) = self.store.manifest_raise(&report.client, adopted, report.received_at).await?
            {
                if head.version > adopted {
                    tracing::warn!(
                        client.id = %report.client,
                        adopted,
                        version = head.version,
                        "client `{}` is ahead of this server, as after a restore: published above its version",
                        report.client
                    );
                }
                self.heads.put(head);
            }
        }
        self.store.statuses_put(reports).await
    }
}

fn failed(metrics: &Metrics, error: &StoreError) -> Unwritten {
    metrics.store_error();
    tracing::error!(error = error as &dyn std::error::Error, "cannot write status reports");
    if matches!(error, StoreError::Full(_)) { Unwritten::Full } else { Unwritten::Failed }
}

#[cfg(test)]
mod tests;

//! Group commit: reports that arrive together are written in one transaction, and answered after its commit.

use crate::telemetry::Metrics;
use margrave_store::{StatusOutcome, StatusWrite, Store, StoreError};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Reports that may wait. At a few hundred microseconds each that is about a second; beyond it callers come back later.
const WAITING_MAX: usize = 4_096;
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

type Waiting = (StatusWrite, oneshot::Sender<Result<StatusOutcome, Unwritten>>);

/// Hands reports to the writer; cheap to clone.
#[derive(Debug, Clone)]
pub struct StatusQueue {
    sender: mpsc::Sender<Waiting>,
}

impl StatusQueue {
    /// Starts the writer. It ends when the last handle is dropped and everything handed over is written.
    pub fn start(store: Store, metrics: Arc<Metrics>) -> (Self, tokio::task::JoinHandle<()>) {
        Self::start_bounded(store, metrics, WAITING_MAX)
    }

    fn start_bounded(store: Store, metrics: Arc<Metrics>, waiting_max: usize) -> (Self, tokio::task::JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(waiting_max);
        (Self { sender }, tokio::spawn(run(store, metrics, receiver)))
    }

    /// Returns after the commit.
    pub async fn write(&self, report: StatusWrite) -> Result<StatusOutcome, Unwritten> {
        let (answer, outcome) = oneshot::channel();
        self.sender.try_send((report, answer)).map_err(|_| Unwritten::Busy)?;
        outcome.await.unwrap_or(Err(Unwritten::Failed))
    }
}

async fn run(store: Store, metrics: Arc<Metrics>, mut receiver: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let (reports, answers): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        let outcomes = commit(&store, &metrics, &reports).await;
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // A caller that has gone away does not matter: its report is written.
            let _ = answer.send(outcome);
        }
    }
}

/// One outcome per report. A report that makes the transaction fail does not take the others with it.
async fn commit(store: &Store, metrics: &Metrics, reports: &[StatusWrite]) -> Vec<Result<StatusOutcome, Unwritten>> {
    metrics.status_batch();
    match store.statuses_put(reports).await {
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(error) if reports.len() == 1 => vec![Err(failed(metrics, &error))],
        Err(error @ StoreError::Full(_)) => vec![Err(failed(metrics, &error)); reports.len()],
        Err(_) => {
            let mut outcomes = Vec::with_capacity(reports.len());
            for report in reports {
                outcomes.push(match store.statuses_put(std::slice::from_ref(report)).await {
                    Ok(one) => one.first().copied().ok_or(Unwritten::Failed),
                    Err(error) => Err(failed(metrics, &error)),
                });
            }
            outcomes
        }
    }
}

fn failed(metrics: &Metrics, error: &StoreError) -> Unwritten {
    metrics.store_error();
    tracing::error!(error = error as &dyn std::error::Error, "cannot write status reports");
    if matches!(error, StoreError::Full(_)) { Unwritten::Full } else { Unwritten::Failed }
}

#[cfg(test)]
mod tests;

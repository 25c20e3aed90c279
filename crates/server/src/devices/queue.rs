//! Group commit: reports that arrive together are written in one transaction, and answered after its commit.

use crate::heads::Heads;
use crate::precedence::{Precedence, Report};
use crate::telemetry::Metrics;
use margrave_store::{DevicePut, DeviceWrite, StatusOutcome, StatusWrite, Store, StoreError};
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

/// One kind of report that is written in groups.
pub trait Group: Send + Sync + 'static {
    type Report: Send + Sync + 'static;
    type Outcome: Copy + Send + 'static;
    /// For the log: what could not be written.
    const WHAT: &'static str;

    fn bytes(report: &Self::Report) -> usize;

    /// All or none of them; one outcome per report, in order.
    fn write(&self, reports: &[Self::Report]) -> impl Future<Output = Result<Vec<Self::Outcome>, StoreError>> + Send;

    fn metrics(&self) -> &Metrics;

    /// Counts one transaction.
    fn count_batch(&self);
}

struct Answer<T> {
    sender: oneshot::Sender<Result<T, Unwritten>>,
    /// Given back when the report is written and let go.
    _room: OwnedSemaphorePermit,
    _report: Report,
}

type Waiting<G> = (<G as Group>::Report, Answer<<G as Group>::Outcome>);

/// Hands reports to the writer; cheap to clone.
pub struct Queue<G: Group> {
    sender: mpsc::Sender<Waiting<G>>,
    room: Arc<Semaphore>,
    precedence: Precedence,
}

/// Hands status reports to the writer.
pub type StatusQueue = Queue<Statuses>;
/// Hands capability reports to the writer: a plant that comes to life reports all of them at once.
pub type CapabilityQueue = Queue<Capabilities>;

impl<G: Group> Clone for Queue<G> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), room: Arc::clone(&self.room), precedence: self.precedence.clone() }
    }
}

impl<G: Group> Queue<G> {
    /// Starts the writer. It ends when the last handle is dropped and everything handed over is written.
    pub fn start(group: G, precedence: Precedence) -> (Self, tokio::task::JoinHandle<()>) {
        Self::start_bounded(group, precedence, WAITING_MAX, WAITING_BYTES_MAX)
    }

    fn start_bounded(
        group: G,
        precedence: Precedence,
        waiting_max: usize,
        bytes_max: usize,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(waiting_max);
        let room = Arc::new(Semaphore::new(bytes_max));
        let task = tokio::spawn(run(group, precedence.clone(), receiver));
        (Self { sender, room, precedence }, task)
    }

    /// Returns after the commit.
    pub async fn write(&self, report: G::Report) -> Result<G::Outcome, Unwritten> {
        let bytes = u32::try_from(G::bytes(&report)).map_err(|_| Unwritten::Busy)?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes).map_err(|_| Unwritten::Busy)?;
        let (sender, outcome) = oneshot::channel();
        let answer = Answer { sender, _room: room, _report: self.precedence.report() };
        self.sender.try_send((report, answer)).map_err(|_| Unwritten::Busy)?;
        outcome.await.unwrap_or(Err(Unwritten::Failed))
    }
}

async fn run<G: Group>(group: G, precedence: Precedence, mut receiver: mpsc::Receiver<Waiting<G>>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
        precedence.behind_batch().await;
        // Those that came meanwhile come along.
        while batch.len() < BATCH_MAX
            && let Ok(more) = receiver.try_recv()
        {
            batch.push(more);
        }
        let (reports, answers): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        let outcomes = commit(&group, &reports).await;
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // A caller that has gone away does not matter: its report is written.
            let _ = answer.sender.send(outcome);
        }
    }
}

/// One outcome per report. A report that makes the transaction fail does not take the others with it.
async fn commit<G: Group>(group: &G, reports: &[G::Report]) -> Vec<Result<G::Outcome, Unwritten>> {
    group.count_batch();
    match group.write(reports).await {
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(error) if reports.len() == 1 => vec![Err(failed(group, &error))],
        Err(error @ StoreError::Full(_)) => vec![Err(failed(group, &error)); reports.len()],
        Err(_) => {
            let mut outcomes = Vec::with_capacity(reports.len());
            for report in reports {
                outcomes.push(match group.write(std::slice::from_ref(report)).await {
                    Ok(one) => one.first().copied().ok_or(Unwritten::Failed),
                    Err(error) => Err(failed(group, &error)),
                });
            }
            outcomes
        }
    }
}

fn failed<G: Group>(group: &G, error: &StoreError) -> Unwritten {
    group.metrics().store_error();
    tracing::error!(error = error as &dyn std::error::Error, "cannot write {}", G::WHAT);
    if matches!(error, StoreError::Full(_)) { Unwritten::Full } else { Unwritten::Failed }
}

/// Writes status reports.
pub struct Statuses {
    pub store: Store,
    pub heads: Arc<Heads>,
    pub metrics: Arc<Metrics>,
}

impl Group for Statuses {
    type Report = StatusWrite;
    type Outcome = StatusOutcome;
    const WHAT: &'static str = "status reports";

    fn bytes(report: &StatusWrite) -> usize {
        report.body.len()
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

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn count_batch(&self) {
        self.metrics.status_batch();
    }
}

/// Writes capability reports.
pub struct Capabilities {
    pub store: Store,
    pub metrics: Arc<Metrics>,
}

impl Group for Capabilities {
    type Report = DeviceWrite;
    type Outcome = DevicePut;
    const WHAT: &'static str = "capability reports";

    fn bytes(report: &DeviceWrite) -> usize {
        report.body.len()
    }

    async fn write(&self, reports: &[DeviceWrite]) -> Result<Vec<DevicePut>, StoreError> {
        self.store.devices_put(reports).await
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn count_batch(&self) {
        self.metrics.capability_batch();
    }
}

#[cfg(test)]
mod tests;

//! Batched commits: concurrent reports are written in one transaction, and answered after its commit.

use crate::manifest_cache::ManifestCache;
use crate::precedence::{Precedence, Report};
use crate::telemetry::Metrics;
use margrave_store::{DevicePut, DeviceWrite, PublishAbove, StatusOutcome, StatusWrite, Store, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Queue length. At a few hundred microseconds each that is about a second; further callers have to retry later.
const WAITING_MAX: usize = 4_096;
/// Memory for all queued reports; most are a few hundred bytes, the largest 256 KiB.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Reports per transaction: enough to share one disk sync, few enough not to block other writers.
const BATCH_MAX: usize = 256;

/// Why a report was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRefused {
    /// The queue is full.
    Busy,
    /// The disk is full.
    Full,
    /// The store failed; the error is in the log.
    Failed,
}

/// One kind of report that is written in groups.
pub trait ReportKind: Send + Sync + 'static {
    type Report: Send + Sync + 'static;
    type Outcome: Copy + Send + 'static;
    /// For the log: what could not be written.
    const WHAT: &'static str;

    fn bytes(report: &Self::Report) -> usize;

    /// Writes all or none; one outcome per report, in order.
    fn write(&self, reports: &[Self::Report]) -> impl Future<Output = Result<Vec<Self::Outcome>, StoreError>> + Send;

    fn metrics(&self) -> &Metrics;

    /// Counts one transaction.
    fn count_batch(&self);
}

struct Answer<T> {
    sender: oneshot::Sender<Result<T, WriteRefused>>,
    /// Released when the report is written and dropped.
    _room: OwnedSemaphorePermit,
    _report: Report,
}

type Waiting<G> = (<G as ReportKind>::Report, Answer<<G as ReportKind>::Outcome>);

/// Sends reports to the writer; cheap to clone.
pub struct Queue<G: ReportKind> {
    sender: mpsc::Sender<Waiting<G>>,
    room: Arc<Semaphore>,
    precedence: Precedence,
}

/// Sends status reports to the writer.
pub type StatusQueue = Queue<Statuses>;
/// Sends capability reports to the writer: a starting plant reports all of them at once.
pub type CapabilityQueue = Queue<Capabilities>;

impl<G: ReportKind> Clone for Queue<G> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), room: Arc::clone(&self.room), precedence: self.precedence.clone() }
    }
}

impl<G: ReportKind> Queue<G> {
    /// Starts the writer. It ends when the last handle is dropped and all queued reports are written.
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
    pub async fn write(&self, report: G::Report) -> Result<G::Outcome, WriteRefused> {
        let bytes = u32::try_from(G::bytes(&report)).map_err(|_| WriteRefused::Busy)?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes).map_err(|_| WriteRefused::Busy)?;
        let (sender, outcome) = oneshot::channel();
        let answer = Answer { sender, _room: room, _report: self.precedence.report() };
        self.sender.try_send((report, answer)).map_err(|_| WriteRefused::Busy)?;
        outcome.await.unwrap_or(Err(WriteRefused::Failed))
    }
}

async fn run<G: ReportKind>(group: G, precedence: Precedence, mut receiver: mpsc::Receiver<Waiting<G>>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
        precedence.after_batch().await;
        // Reports that arrived in the meantime join the batch.
        while batch.len() < BATCH_MAX
            && let Ok(more) = receiver.try_recv()
        {
            batch.push(more);
        }
        let (reports, senders): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        let outcomes = commit(&group, &reports).await;
        for (answer, outcome) in senders.into_iter().zip(outcomes) {
            // A caller may have disconnected: its report is written anyway.
            let _ = answer.sender.send(outcome);
        }
    }
}

/// One outcome per report. A report that makes the transaction fail does not affect the others.
async fn commit<G: ReportKind>(group: &G, reports: &[G::Report]) -> Vec<Result<G::Outcome, WriteRefused>> {
    group.count_batch();
    match group.write(reports).await {
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(error) if reports.len() == 1 => vec![Err(failed(group, &error))],
        Err(error @ StoreError::Full(_)) => vec![Err(failed(group, &error)); reports.len()],
        Err(_) => {
            let mut outcomes = Vec::with_capacity(reports.len());
            for report in reports {
                outcomes.push(match group.write(std::slice::from_ref(report)).await {
                    Ok(one) => one.first().copied().ok_or(WriteRefused::Failed),
                    Err(error) => Err(failed(group, &error)),
                });
            }
            outcomes
        }
    }
}

fn failed<G: ReportKind>(group: &G, error: &StoreError) -> WriteRefused {
    group.metrics().store_error();
    tracing::error!(error = error as &dyn std::error::Error, "cannot write {}", G::WHAT);
    if matches!(error, StoreError::Full(_)) { WriteRefused::Full } else { WriteRefused::Failed }
}

/// Writes status reports.
pub struct Statuses {
    pub store: Store,
    pub heads: Arc<ManifestCache>,
    pub metrics: Arc<Metrics>,
}

impl Statuses {
    /// Raises the manifest above the version of a report, if that is later; false if it is too far ahead.
    async fn raise(&self, report: &StatusWrite) -> Result<bool, StoreError> {
        let (client, adopted) = (&report.client, report.status.adopted_manifest_version);
        if self.heads.get(client).is_none_or(|head| head.version >= adopted) {
            return Ok(true);
        }
        let deployment = report.status.deployment_id;
        match self.store.manifest_publish_above(client, deployment, adopted, report.received_at).await? {
            // A report about no deployment of its client is rejected as such.
            PublishAbove::UnknownDeployment => {}
            PublishAbove::TooFarAhead { version } => {
                // Once per version: the client repeats its report.
                if !self.heads.reject_version(client, adopted) {
                    return Ok(false);
                }
                tracing::warn!(
                    security = true,
                    client.id = %client,
                    deployment.id = %deployment,
                    adopted,
                    version,
                    "client `{client}` reports a manifest version that was never issued; its report is rejected"
                );
                return Ok(false);
            }
            PublishAbove::Head(head) => {
                if head.version > adopted {
                    tracing::warn!(
                        client.id = %client,
                        adopted,
                        version = head.version,
                        "client `{client}` is ahead of this server, as after a restore: published above its version"
                    );
                }
                self.heads.put(head);
            }
        }
        Ok(true)
    }
}

impl ReportKind for Statuses {
    type Report = StatusWrite;
    type Outcome = StatusOutcome;
    const WHAT: &'static str = "status reports";

    fn bytes(report: &StatusWrite) -> usize {
        report.body.len()
    }

    /// Invariant 2: if a client is ahead of its manifest, the server publishes a version above the client's before its
    /// report counts, so that the report is never attributed to the current deployment.
    async fn write(&self, reports: &[StatusWrite]) -> Result<Vec<StatusOutcome>, StoreError> {
        let mut too_far = BTreeSet::new();
        for (index, report) in reports.iter().enumerate() {
            if !self.raise(report).await? {
                too_far.insert(index);
            }
        }
        if too_far.is_empty() {
            return self.store.statuses_put(reports).await;
        }
        let rest = reports.iter().enumerate().filter(|(index, _)| !too_far.contains(index));
        let rest: Vec<StatusWrite> = rest.map(|(_, report)| report.clone()).collect();
        let mut written = self.store.statuses_put(&rest).await?.into_iter();
        let refused = StatusOutcome::VersionOutOfRange;
        let outcome = |index| if too_far.contains(&index) { refused } else { written.next().unwrap_or(refused) };
        Ok((0..reports.len()).map(outcome).collect())
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

impl ReportKind for Capabilities {
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

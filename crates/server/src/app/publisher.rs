//! Publishes rollouts in bounded batches, round-robin, so that a large one does not delay a small one.
//!
//! A rollout and its progress are durable before this loop sees it; a restart continues where it stopped.

pub(crate) mod documents;
mod batch_size;
mod queue;
mod pending_heads;

use crate::catalog::Descriptions;
use crate::manifest_cache::ManifestCache;
use crate::precedence::Precedence;
use crate::telemetry::Metrics;
use batch_size::BatchSize;
use margrave_core::model::{Rollout, RolloutTarget};
use margrave_core::time::Clock;
use margrave_store::{BatchItem, Store, StoreError};
use pending_heads::PendingHeads;
use queue::Queue;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Rollouts published concurrently; bounds memory, because each holds its list of targets.
const ROLLOUTS_MAX: u32 = 32;

/// A wake-up can get lost with a replica or a crash; this recheck turns that into a delay, never a loss.
const RECHECK: Duration = Duration::from_secs(5);

/// How long a batch waits for pending device reports before it takes the write lock.
const REPORT_PRIORITY_WAIT: Duration = Duration::from_millis(20);

/// Dependencies of the loop.
#[derive(Clone)]
pub struct Parts {
    pub store: Store,
    pub heads: Arc<ManifestCache>,
    pub clock: Arc<dyn Clock>,
    pub descriptions: Arc<Descriptions>,
    pub metrics: Arc<Metrics>,
}

/// Wakes the publishing loop; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Publisher {
    notify: Arc<Notify>,
    /// Set with every wake-up, so that a loop busy with a large rollout sees it between two batches.
    woken: Arc<AtomicBool>,
    planning: Arc<Mutex<()>>,
}

impl Publisher {
    /// Wakes the publisher. A lost wake-up delays a rollout until the next recheck; it never loses one.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Held from planning until a rollout is recorded, so that two rollouts do not both find a device free.
    pub(crate) async fn planning(&self) -> MutexGuard<'_, ()> {
        self.planning.lock().await
    }
}

/// Starts the loop. It ends after the current batch once `stop` is cancelled.
pub fn start(parts: Parts, precedence: Precedence, stop: CancellationToken) -> (Publisher, JoinHandle<()>) {
    let publisher = Publisher::default();
    let task = tokio::spawn(run(parts, precedence, publisher.clone(), stop));
    (publisher, task)
}

async fn run(parts: Parts, precedence: Precedence, publisher: Publisher, stop: CancellationToken) {
    let (mut queue, mut batch_size, mut pending_heads) =
        (Queue::default(), BatchSize::default(), PendingHeads::default());
    while !stop.is_cancelled() {
        if publisher.woken.swap(false, Ordering::AcqRel) || queue.is_empty() {
            load_unfinished(&parts, &mut queue).await;
        }
        if let Some(entry) = queue.next_due(Instant::now()) {
            let commits = parts.store.commits();
            let outcome = sized_step(&parts, &precedence, entry.rollout(), &mut batch_size, &mut pending_heads).await;
            settle(&parts.metrics, &mut queue, entry, outcome);
            // One commit is the batch's own. A shared database commits for several servers.
            let others_wrote = !parts.store.is_shared() && parts.store.commits() > commits + 1;
            let rest = async {
                if others_wrote {
                    // Flush during the pause, or the next report would have to do it.
                    tokio::join!(tokio::time::sleep(batch_size.rest()), pending_heads.publish(&parts));
                } else {
                    tokio::task::yield_now().await;
                    pending_heads.notify_due(&parts, Instant::now()).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = rest => {}
            }
            continue;
        }
        pending_heads.publish(&parts).await;
        let rest = queue.until_due(Instant::now()).unwrap_or(RECHECK).min(RECHECK);
        tokio::select! {
            () = stop.cancelled() => break,
            () = publisher.notify.notified() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Appends every unfinished rollout that is not in the queue.
async fn load_unfinished(parts: &Parts, queue: &mut Queue) {
    match parts.store.rollouts_unfinished(ROLLOUTS_MAX).await {
        Ok(rollouts) => rollouts.into_iter().for_each(|rollout| queue.add(rollout)),
        Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "cannot read the unfinished rollouts"),
    }
}

/// One batch of at most `targets_max`; returns the number of published targets, or `None` when all are published.
///
/// Public so that the deterministic simulation publishes by exactly this code.
pub async fn step(parts: &Parts, rollout: &Rollout, targets_max: usize) -> Result<Option<usize>, StoreError> {
    let items = documents::items(parts, rollout, batch(rollout, targets_max)).await?;
    let heads = parts.store.rollout_apply(rollout.id, rollout.done, &items, parts.clock.now()).await?;
    let published = heads.len();
    for head in heads {
        parts.heads.put(head);
    }
    progress(parts, rollout, &items, published).await
}

/// The next batch, as large as allowed; only the write blocks others. Only the last batch of a rollout waits for the
/// disk: when a rollout is finished, all of it is durable.
async fn sized_step(
    parts: &Parts,
    precedence: &Precedence,
    rollout: &Rollout,
    batch_size: &mut BatchSize,
    pending_heads: &mut PendingHeads,
) -> Result<Option<usize>, StoreError> {
    let items = documents::items(parts, rollout, batch(rollout, batch_size.targets())).await?;
    // A shared database commits for several servers.
    let batch = if parts.store.is_shared() { None } else { Some(precedence.batch(REPORT_PRIORITY_WAIT).await) };
    let (store, started, now) = (&parts.store, Instant::now(), parts.clock.now());
    let is_last = rollout.done + items.len() >= rollout.targets.len();
    let heads = if is_last {
        store.rollout_apply(rollout.id, rollout.done, &items, now).await?
    } else {
        let (heads, took) = store.rollout_apply_soon(rollout.id, rollout.done, &items, now).await?;
        batch_size.learn(items.len(), took);
        heads
    };
    drop(batch);
    let published = heads.len();
    pending_heads.add(heads, started);
    pending_heads.notify_durable(parts);
    progress(parts, rollout, &items, published).await
}

fn batch(rollout: &Rollout, targets_max: usize) -> &[RolloutTarget] {
    let rest = &rollout.targets[rollout.done.min(rollout.targets.len())..];
    &rest[..rest.len().min(targets_max)]
}

/// Progress of the rollout after a batch with this many manifests.
async fn progress(
    parts: &Parts,
    rollout: &Rollout,
    items: &[BatchItem],
    published: usize,
) -> Result<Option<usize>, StoreError> {
    parts.metrics.publish_batch();
    tracing::debug!(
        rollout.id = %rollout.id,
        rollout.done = rollout.done + items.len(),
        rollout.total = rollout.targets.len(),
        manifests = published,
        "published a batch of rollout `{}`",
        rollout.id
    );
    // An empty batch may have been published by another process, or here with a lost commit answer: load the heads that
    // were
    // not handed over, and read the real progress of the rollout.
    if published == 0 {
        let clients: BTreeSet<_> = items.iter().map(|item| item.target.client.clone()).collect();
        for head in parts.store.heads_of(&Vec::from_iter(clients)).await? {
            parts.heads.put(head);
        }
        let now = parts.store.rollout_get(rollout.id).await?.filter(|rollout| rollout.finished_at.is_none());
        return Ok(now.map(|rollout| rollout.done));
    }
    let done = rollout.done + items.len();
    Ok((done < rollout.targets.len()).then_some(done))
}

fn settle(metrics: &Metrics, queue: &mut Queue, entry: queue::Entry, outcome: Result<Option<usize>, StoreError>) {
    let id = entry.rollout().id;
    match outcome {
        Ok(Some(done)) => queue.put_back(Rollout { done, ..entry.into_rollout() }),
        Ok(None) => tracing::info!(rollout.id = %id, "published rollout `{id}`"),
        Err(error) => {
            metrics.store_error();
            let pause = queue.put_back_failed(entry, Instant::now());
            tracing::error!(
                error = &error as &dyn std::error::Error,
                rollout.id = %id,
                retry_ms = pause.as_millis() as u64,
                "cannot publish a batch of rollout `{id}`, will retry"
            );
        }
    }
}

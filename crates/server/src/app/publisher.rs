//! Carries out changes in bounded batches, turn by turn, so that a large one does not hold back a small one.
//!
//! A change is durable before this loop hears of it, and says itself how far it is; a restart goes on where it stopped.

pub(crate) mod documents;
mod pace;
mod queue;
mod untold;

use crate::catalog::Descriptions;
use crate::heads::Heads;
use crate::precedence::Precedence;
use crate::telemetry::Metrics;
use margrave_core::model::{Change, ChangeTarget};
use margrave_core::time::Clock;
use margrave_store::{BatchItem, Store, StoreError};
use pace::Pace;
use queue::Queue;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use untold::Untold;

/// Changes taken turns with at once; bounds memory, since each holds its list of targets.
const CHANGES_MAX: u32 = 32;

/// A wake-up may get lost with a replica or a crash; looking again this often makes that a delay, never a loss.
const RECHECK: Duration = Duration::from_secs(5);

/// How long a batch lets reports of devices go first.
const PATIENCE: Duration = Duration::from_millis(20);

/// What the loop needs.
#[derive(Clone)]
pub struct Parts {
    pub store: Store,
    pub heads: Arc<Heads>,
    pub clock: Arc<dyn Clock>,
    pub descriptions: Arc<Descriptions>,
    pub metrics: Arc<Metrics>,
}

/// Wakes the publishing loop; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Publisher {
    notify: Arc<Notify>,
    /// Set with every wake-up, so that a loop busy with a large change sees it between two batches.
    woken: Arc<AtomicBool>,
    planning: Arc<Mutex<()>>,
}

impl Publisher {
    /// Says that there is a change to carry out. Losing the word costs a delay, never a change.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Held from looking at the fleet until a change is recorded, so that two changes do not both find a device free.
    pub(crate) async fn planning(&self) -> MutexGuard<'_, ()> {
        self.planning.lock().await
    }
}

/// Starts the loop. It ends after the batch at hand once `stop` is cancelled.
pub fn start(parts: Parts, precedence: Precedence, stop: CancellationToken) -> (Publisher, JoinHandle<()>) {
    let publisher = Publisher::default();
    let task = tokio::spawn(run(parts, precedence, publisher.clone(), stop));
    (publisher, task)
}

async fn run(parts: Parts, precedence: Precedence, publisher: Publisher, stop: CancellationToken) {
    let (mut queue, mut pace, mut untold) = (Queue::default(), Pace::default(), Untold::default());
    while !stop.is_cancelled() {
        if publisher.woken.swap(false, Ordering::AcqRel) || queue.is_empty() {
            take_up(&parts, &mut queue).await;
        }
        if let Some(entry) = queue.next_due(Instant::now()) {
            let commits = parts.store.commits();
            let outcome = paced_step(&parts, &precedence, entry.change(), &mut pace, &mut untold).await;
            settle(&parts.metrics, &mut queue, entry, outcome);
            // One commit is the batch's own. A shared database writes for several at once.
            let others_wrote = !parts.store.is_shared() && parts.store.commits() > commits + 1;
            let rest = async {
                if others_wrote {
                    // On disk while it rests, or the next report would have to bring it there.
                    tokio::join!(tokio::time::sleep(pace.rest()), untold.tell(&parts));
                } else {
                    tokio::task::yield_now().await;
                    untold.tell_due(&parts, Instant::now()).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = rest => {}
            }
            continue;
        }
        untold.tell(&parts).await;
        let rest = queue.until_due(Instant::now()).unwrap_or(RECHECK).min(RECHECK);
        tokio::select! {
            () = stop.cancelled() => break,
            () = publisher.notify.notified() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Puts every unfinished change that is not being worked on at the end of the queue.
async fn take_up(parts: &Parts, queue: &mut Queue) {
    match parts.store.changes_unfinished(CHANGES_MAX).await {
        Ok(changes) => changes.into_iter().for_each(|change| queue.add(change)),
        Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "cannot read the unfinished changes"),
    }
}

/// One batch of at most `targets_max`; returns how many targets are done afterwards, or `None` when all are.
///
/// Public so that the deterministic simulation publishes by exactly this code.
pub async fn step(parts: &Parts, change: &Change, targets_max: usize) -> Result<Option<usize>, StoreError> {
    let items = documents::items(parts, change, batch(change, targets_max)).await?;
    let heads = parts.store.change_apply(change.id, change.done, &items, parts.clock.now()).await?;
    let published = heads.len();
    for head in heads {
        parts.heads.put(head);
    }
    progress(parts, change, &items, published).await
}

/// The next batch, as large as it may be; only writing it keeps others waiting. Only the last one of a change waits for the
/// disk: when a change is finished, all of it is there.
async fn paced_step(
    parts: &Parts,
    precedence: &Precedence,
    change: &Change,
    pace: &mut Pace,
    untold: &mut Untold,
) -> Result<Option<usize>, StoreError> {
    let items = documents::items(parts, change, batch(change, pace.targets())).await?;
    // A shared database writes for several at once.
    let batch = if parts.store.is_shared() { None } else { Some(precedence.batch(PATIENCE).await) };
    let (store, begun, now) = (&parts.store, Instant::now(), parts.clock.now());
    let is_last = change.done + items.len() >= change.targets.len();
    let heads = if is_last {
        store.change_apply(change.id, change.done, &items, now).await?
    } else {
        let (heads, took) = store.change_apply_soon(change.id, change.done, &items, now).await?;
        pace.learn(items.len(), took);
        heads
    };
    drop(batch);
    let published = heads.len();
    untold.add(heads, begun);
    untold.tell_kept(parts);
    progress(parts, change, &items, published).await
}

fn batch(change: &Change, targets_max: usize) -> &[ChangeTarget] {
    let rest = &change.targets[change.done.min(change.targets.len())..];
    &rest[..rest.len().min(targets_max)]
}

/// How far the change is after a batch with so many manifests.
async fn progress(
    parts: &Parts,
    change: &Change,
    items: &[BatchItem],
    published: usize,
) -> Result<Option<usize>, StoreError> {
    parts.metrics.publish_batch();
    tracing::debug!(
        change.id = %change.id,
        change.done = change.done + items.len(),
        change.total = change.targets.len(),
        manifests = published,
        "published a batch of change `{}`",
        change.id
    );
    // Nothing published may mean that the batch was done before, by another process, or here with the answer to the commit
    // lost: take the heads that nobody handed over, and ask how far the change really is.
    if published == 0 {
        let clients: BTreeSet<_> = items.iter().map(|item| item.target.client.clone()).collect();
        for head in parts.store.heads_of(&Vec::from_iter(clients)).await? {
            parts.heads.put(head);
        }
        let now = parts.store.change_get(change.id).await?.filter(|change| change.finished_at.is_none());
        return Ok(now.map(|change| change.done));
    }
    let done = change.done + items.len();
    Ok((done < change.targets.len()).then_some(done))
}

fn settle(metrics: &Metrics, queue: &mut Queue, entry: queue::Entry, outcome: Result<Option<usize>, StoreError>) {
    let id = entry.change().id;
    match outcome {
        Ok(Some(done)) => queue.put_back(Change { done, ..entry.into_change() }),
        Ok(None) => tracing::info!(change.id = %id, "carried out change `{id}`"),
        Err(error) => {
            metrics.store_error();
            let pause = queue.put_back_failed(entry, Instant::now());
            tracing::error!(
                error = &error as &dyn std::error::Error,
                change.id = %id,
                retry_ms = pause.as_millis() as u64,
                "cannot carry out a batch of change `{id}`, will try again"
            );
        }
    }
}

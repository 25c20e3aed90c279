//! Published heads of which devices are not notified yet: their batches are committed, but may not be on disk.

use super::Parts;
use margrave_store::Head;
use std::time::Duration;
use tokio::time::Instant;

/// How long heads wait for another commit to flush theirs to disk. Long enough for many batches to share one sync,
/// short compared to the second in which a waiting device should get an update.
const PENDING_HEADS_WAIT_MAX: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct PendingHeads {
    heads: Vec<Head>,
    /// When the batch of the first one began.
    since: Option<Instant>,
}

impl PendingHeads {
    pub(super) fn add(&mut self, heads: Vec<Head>, started: Instant) {
        if !heads.is_empty() {
            self.since.get_or_insert(started);
            self.heads.extend(heads);
        }
    }

    /// Notifies devices if the heads are on disk already.
    pub(super) fn notify_durable(&mut self, parts: &Parts) {
        if parts.store.is_settled() {
            self.notify_devices(parts);
        }
    }

    /// Notifies devices if the heads are on disk, or flushes them once they have waited long enough.
    pub(super) async fn notify_due(&mut self, parts: &Parts, now: Instant) {
        match self.since {
            Some(since) if now.duration_since(since) >= PENDING_HEADS_WAIT_MAX => self.publish(parts).await,
            _ => self.notify_durable(parts),
        }
    }

    pub(super) async fn publish(&mut self, parts: &Parts) {
        if self.heads.is_empty() {
            return;
        }
        // On failure they stay here until they are durable; devices are notified later.
        match parts.store.settle().await {
            Ok(()) => self.notify_devices(parts),
            Err(error) => {
                parts.metrics.store_error();
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    manifests = self.heads.len(),
                    "cannot flush published manifests to disk, will retry before devices are notified"
                );
            }
        }
    }

    fn notify_devices(&mut self, parts: &Parts) {
        self.since = None;
        self.heads.drain(..).for_each(|head| parts.heads.put(head));
    }
}

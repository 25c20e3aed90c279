//! Heads that are published and not told yet: their batches are committed, and perhaps not on disk.

use super::Parts;
use margrave_store::Head;
use std::time::Duration;
use tokio::time::Instant;

/// The longest that heads wait for somebody else's commit to bring theirs to disk. Long enough for many batches to share one
/// sync, short against the second in which news should reach a device that waits.
const UNTOLD_MAX: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Untold {
    heads: Vec<Head>,
    /// When the batch of the first one began.
    since: Option<Instant>,
}

impl Untold {
    pub(super) fn add(&mut self, heads: Vec<Head>, begun: Instant) {
        if !heads.is_empty() {
            self.since.get_or_insert(begun);
            self.heads.extend(heads);
        }
    }

    /// Tells them if they are on disk anyway.
    pub(super) fn tell_kept(&mut self, parts: &Parts) {
        if parts.store.is_settled() {
            self.hand_over(parts);
        }
    }

    /// Tells them if they are on disk, or have waited long enough to be brought there.
    pub(super) async fn tell_due(&mut self, parts: &Parts, now: Instant) {
        match self.since {
            Some(since) if now.duration_since(since) >= UNTOLD_MAX => self.tell(parts).await,
            _ => self.tell_kept(parts),
        }
    }

    pub(super) async fn tell(&mut self, parts: &Parts) {
        if self.heads.is_empty() {
            return;
        }
        // Whatever happens they stay here until they are kept; devices hear of them later then.
        match parts.store.settle().await {
            Ok(()) => self.hand_over(parts),
            Err(error) => {
                parts.metrics.store_error();
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    manifests = self.heads.len(),
                    "cannot bring published manifests to disk, will try again before devices are told"
                );
            }
        }
    }

    fn hand_over(&mut self, parts: &Parts) {
        self.since = None;
        self.heads.drain(..).for_each(|head| parts.heads.put(head));
    }
}

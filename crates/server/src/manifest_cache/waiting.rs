//! Waits for the next head of one client: a lock-free slot that is filled only during a wait.

use super::{Entry, Head};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Content of the slot of an entry.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    notify: Notify,
    replaced: AtomicBool,
}

impl Waiter {
    pub(super) fn wake(&self) {
        self.notify.notify_one();
    }
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// There may be a new head: check it.
    Look,
    /// A newer wait for this client replaced this one.
    Replaced,
}

/// One wait; it ends when this is dropped.
#[derive(Debug)]
pub struct Waiting {
    entry: Arc<Entry>,
    waiter: Arc<Waiter>,
}

impl Waiting {
    pub(super) fn begin(entry: Arc<Entry>) -> Self {
        let waiter = Arc::new(Waiter::default());
        if let Some(older) = entry.waiter.swap(Some(Arc::clone(&waiter))) {
            older.replaced.store(true, Ordering::Release);
            older.wake();
        }
        Self { entry, waiter }
    }

    /// The current head. Reading it after the wait has begun misses nothing.
    pub fn head(&self) -> Arc<Head> {
        Arc::clone(&self.entry.current.load().head)
    }

    /// Returns when the head should be checked again. A notification before the call counts.
    pub async fn woken(&self) -> WakeReason {
        self.waiter.notify.notified().await;
        if self.waiter.replaced.load(Ordering::Acquire) { WakeReason::Replaced } else { WakeReason::Look }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Removes only its own notification: the slot may contain a newer wait.
        self.entry.waiter.compare_and_swap(&Some(Arc::clone(&self.waiter)), None);
    }
}

#[cfg(test)]
mod tests {
    use super::WakeReason;
    use crate::manifest_cache::ManifestCache;
    use margo::digest::Digest;
    use margrave_core::model::ClientState;
    use margrave_store::Head;

    fn head(version: u64) -> Head {
        let digest = Digest::of(&version.to_be_bytes());
        Head { client: "press".parse().unwrap(), state: ClientState::Accepted, revision: 1, version, digest }
    }

    #[tokio::test]
    async fn a_new_head_wakes_its_waiter_and_a_newer_wait_replaces_an_older_one() {
        let heads = ManifestCache::default();
        let press = "press".parse().unwrap();
        assert!(heads.wait(&press).is_none(), "unknown client");
        heads.put(head(1));
        let first = heads.wait(&press).unwrap();
        heads.put(head(2));
        assert_eq!(first.woken().await, WakeReason::Look, "a notification before the call counts");
        assert_eq!(first.head().version, 2);
        let second = heads.wait(&press).unwrap();
        assert_eq!(first.woken().await, WakeReason::Replaced);
        drop(first);
        heads.put(head(3));
        assert_eq!(second.woken().await, WakeReason::Look, "the end of the older wait does not end the newer one");
        drop(second);
        heads.put(head(4));
        assert_eq!(heads.get(&press).unwrap().version, 4);
    }
}

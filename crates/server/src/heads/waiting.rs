//! Waiting for the next head of one client: a slot that is filled only while somebody waits, and no lock for anybody.

use super::{Entry, Head};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// What the slot of an entry holds.
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

/// Why a wait came to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// There may be a new head: look.
    Look,
    /// Somebody else waits for this client now.
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

    /// The head now. Looked at after the wait has begun, it misses nothing.
    pub fn head(&self) -> Arc<Head> {
        Arc::clone(&self.entry.current.load().head)
    }

    /// Returns when it is worth looking again. A word that came before the call counts.
    pub async fn woken(&self) -> Woken {
        self.waiter.notify.notified().await;
        if self.waiter.replaced.load(Ordering::Acquire) { Woken::Replaced } else { Woken::Look }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Only the own word is taken back: a newer wait may stand in the slot.
        self.entry.waiter.compare_and_swap(&Some(Arc::clone(&self.waiter)), None);
    }
}

#[cfg(test)]
mod tests {
    use super::Woken;
    use crate::heads::Heads;
    use margo::digest::Digest;
    use margrave_core::model::ClientState;
    use margrave_store::Head;

    fn head(version: u64) -> Head {
        let digest = Digest::of(&version.to_be_bytes());
        Head { client: "press".parse().unwrap(), state: ClientState::Accepted, revision: 1, version, digest }
    }

    #[tokio::test]
    async fn a_new_head_wakes_who_waits_for_it_and_a_newer_wait_replaces_an_older_one() {
        let heads = Heads::default();
        let press = "press".parse().unwrap();
        assert!(heads.wait(&press).is_none(), "nobody to wait for");
        heads.put(head(1));
        let first = heads.wait(&press).unwrap();
        heads.put(head(2));
        assert_eq!(first.woken().await, Woken::Look, "a word before the call counts");
        assert_eq!(first.head().version, 2);
        let second = heads.wait(&press).unwrap();
        assert_eq!(first.woken().await, Woken::Replaced);
        drop(first);
        heads.put(head(3));
        assert_eq!(second.woken().await, Woken::Look, "the end of the older wait does not end the newer one");
        drop(second);
        heads.put(head(4));
        assert_eq!(heads.get(&press).unwrap().version, 4);
    }
}

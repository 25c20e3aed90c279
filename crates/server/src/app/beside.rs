//! Work over a whole fleet, done beside whoever asks for it: begun once, looked at by many, kept for a while (ADR 31).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

/// Devices looked at while somebody waits; more are looked at beside the request.
pub(crate) const AT_ONCE_MAX: u64 = 200;
/// How long a page waits for what is being worked out before it says how far that is.
pub(crate) const PAGE_WAITS: Duration = Duration::from_millis(80);
/// After this time the fleet may look different, and it is worked out anew for whoever asks.
const FRESH: Duration = Duration::from_mins(2);
/// Results that are kept.
const KEPT_MAX: usize = 32;

/// What is being worked out or was not long ago.
pub struct Beside<K, T> {
    known: Mutex<HashMap<K, Known<T>>>,
    /// A fleet is large enough to be looked at one at a time.
    turn: Arc<Semaphore>,
}

struct Known<T> {
    begun: Instant,
    sight: watch::Receiver<Sight<T>>,
}

/// As far as it is.
#[derive(Debug, Clone)]
pub struct Sight<T> {
    pub value: Option<T>,
    pub done: bool,
}

/// Tells how far the work is while it goes on.
pub struct Telling<T>(watch::Sender<Sight<T>>);

impl<T> Telling<T> {
    pub(crate) fn so_far(&self, value: T) {
        self.0.send_replace(Sight { value: Some(value), done: false });
    }
}

impl<K, T> Default for Beside<K, T> {
    fn default() -> Self {
        Self { known: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl<K, T> fmt::Debug for Beside<K, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Beside").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash + Clone, T: Clone + Send + Sync + 'static> Beside<K, T> {
    /// What it comes to, or how far it is after `patience`. `work` is begun unless somebody has.
    pub(crate) async fn look<F>(&self, key: K, patience: Duration, work: impl FnOnce(Arc<Telling<T>>) -> F) -> Sight<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut sight = self.begun(key, work);
        // Out of patience, or whoever worked on it is gone: then as far as it came.
        drop(tokio::time::timeout(patience, sight.wait_for(|sight| sight.done)).await);
        sight.borrow().clone()
    }

    fn begun<F>(&self, key: K, work: impl FnOnce(Arc<Telling<T>>) -> F) -> watch::Receiver<Sight<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut known = self.known.lock();
        if let Some(known) = known.get(&key).filter(|known| known.is_of_use()) {
            return known.sight.clone();
        }
        if known.len() >= KEPT_MAX
            && let Some(oldest) = known.iter().min_by_key(|(_, known)| known.begun).map(|(key, _)| key.clone())
        {
            known.remove(&oldest);
        }
        let (sender, sight) = watch::channel(Sight { value: None, done: false });
        known.insert(key, Known { begun: Instant::now(), sight: sight.clone() });
        let (telling, turn) = (Arc::new(Telling(sender)), Arc::clone(&self.turn));
        let work = work(Arc::clone(&telling));
        tokio::spawn(async move {
            let Ok(_turn) = turn.acquire().await else { return };
            let value = work.await;
            telling.0.send_replace(Sight { value: Some(value), done: true });
        });
        sight
    }
}

impl<T> Known<T> {
    fn is_of_use(&self) -> bool {
        let done = self.sight.borrow().done;
        // Whoever worked on it is gone without a result only when the server stops or the work panicked.
        if done { self.begun.elapsed() < FRESH } else { self.sight.has_changed().is_ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::Beside;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::Notify;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn many_look_at_what_is_worked_out_once() {
        let (beside, begun, go) = (Beside::<&str, u32>::default(), AtomicUsize::new(0), Arc::new(Notify::new()));
        let look = |patience| {
            beside.look("all", patience, |telling| {
                begun.fetch_add(1, Ordering::Relaxed);
                let go = Arc::clone(&go);
                async move {
                    telling.so_far(1);
                    go.notified().await;
                    2
                }
            })
        };
        let early = look(Duration::from_millis(80)).await;
        assert_eq!((early.value, early.done), (Some(1), false));
        go.notify_one();
        let late = look(LONG).await;
        assert_eq!((late.value, late.done), (Some(2), true));
        assert_eq!(begun.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn what_failed_without_a_word_is_begun_anew() {
        let beside = Beside::<&str, u32>::default();
        let first = beside.look("all", LONG, |_| async { panic!("as a defect would") }).await;
        assert_eq!((first.value, first.done), (None, false));
        let second = beside.look("all", LONG, |_| async { 2 }).await;
        assert_eq!(second.value, Some(2));
    }
}

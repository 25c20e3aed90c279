//! Fleet-wide computations that run in the background: started once per key, shared by all viewers, cached briefly (ADR
//! 31).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

/// Devices evaluated during a request; larger numbers are evaluated in the background.
pub(crate) const AT_ONCE_MAX: u64 = 200;
/// How long a page waits for a computation before it shows the progress.
pub(crate) const PAGE_WAITS: Duration = Duration::from_millis(80);
/// How long the result of a long computation is valid; after this time it is computed again on request.
const FRESH: Duration = Duration::from_mins(2);
/// A sorted page that took less than this is computed for every request.
const QUICK: Duration = Duration::from_millis(60);
/// A slower one is valid for this many times as long as it took, so that sorting leaves most of a core to others.
const REST: u32 = 10;
/// Results kept in the cache.
const CACHED_MAX: usize = 32;

/// Computations that are running or finished recently.
pub struct BackgroundCache<K, T> {
    entries: Mutex<HashMap<K, Entry<T>>>,
    /// Only one fleet-wide computation runs at a time.
    one_at_a_time: Arc<Semaphore>,
    validity: Validity,
}

/// How long a result is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Validity {
    /// For a fixed time.
    Fixed,
    /// The longer it took, the longer; and in place of the next one until that is ready.
    UntilRenewed,
}

struct Entry<T> {
    started: Instant,
    /// How long it took, once it is done.
    took: Arc<OnceLock<Duration>>,
    progress: watch::Receiver<Progress<T>>,
}

/// The result so far.
#[derive(Debug, Clone)]
pub struct Progress<T> {
    pub value: Option<T>,
    pub done: bool,
}

/// Publishes the progress of a running computation.
pub struct ProgressSender<T>(watch::Sender<Progress<T>>);

impl<T> ProgressSender<T> {
    pub(crate) fn so_far(&self, value: T) {
        self.0.send_replace(Progress { value: Some(value), done: false });
    }
}

impl<K, T> Default for BackgroundCache<K, T> {
    fn default() -> Self {
        Self { entries: Mutex::default(), one_at_a_time: Arc::new(Semaphore::new(1)), validity: Validity::Fixed }
    }
}

impl<K, T> BackgroundCache<K, T> {
    /// For results that pages show all the time: computed for every request where that is quick, otherwise the last
    /// result is shown while the next one is computed.
    pub(crate) fn until_renewed() -> Self {
        Self { validity: Validity::UntilRenewed, ..Self::default() }
    }
}

impl<K, T> fmt::Debug for BackgroundCache<K, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BackgroundCache").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash + Clone, T: Clone + Send + Sync + 'static> BackgroundCache<K, T> {
    /// The result, or the progress after `max_wait`. Starts `compute` unless it is running already.
    pub(crate) async fn get_or_start<F>(
        &self,
        key: K,
        max_wait: Duration,
        compute: impl FnOnce(Arc<ProgressSender<T>>) -> F,
    ) -> Progress<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut progress = self.start_or_join(key, compute);
        // The wait is over or the computation ended early: return the progress so far.
        drop(tokio::time::timeout(max_wait, progress.wait_for(|progress| progress.done)).await);
        progress.borrow().clone()
    }

    fn start_or_join<F>(
        &self,
        key: K,
        compute: impl FnOnce(Arc<ProgressSender<T>>) -> F,
    ) -> watch::Receiver<Progress<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&key).filter(|entry| entry.is_of_use(self.validity)) {
            return entry.progress.clone();
        }
        let earlier = entries.get(&key).filter(|_| self.validity == Validity::UntilRenewed);
        let earlier = earlier.and_then(|entry| entry.progress.borrow().value.clone());
        if entries.len() >= CACHED_MAX
            && let Some(oldest) = entries.iter().min_by_key(|(_, entry)| entry.started).map(|(key, _)| key.clone())
        {
            entries.remove(&oldest);
        }
        let (sender, progress) = watch::channel(Progress { value: earlier, done: false });
        let (started, took) = (Instant::now(), Arc::new(OnceLock::new()));
        entries.insert(key, Entry { started, took: Arc::clone(&took), progress: progress.clone() });
        let (sender, one_at_a_time) = (Arc::new(ProgressSender(sender)), Arc::clone(&self.one_at_a_time));
        let work = compute(Arc::clone(&sender));
        tokio::spawn(async move {
            let Ok(_permit) = one_at_a_time.acquire().await else { return };
            let started = Instant::now();
            let value = work.await;
            let _ = took.set(started.elapsed());
            sender.0.send_replace(Progress { value: Some(value), done: true });
        });
        progress
    }
}

impl<T> Entry<T> {
    fn is_of_use(&self, validity: Validity) -> bool {
        let done = self.progress.borrow().done;
        if !done {
            // A computation ends without a result only when the server stops or the task panicked.
            return self.progress.has_changed().is_ok();
        }
        let took = self.took.get().copied().unwrap_or_default();
        let valid = match validity {
            Validity::Fixed => FRESH,
            Validity::UntilRenewed if took <= QUICK => Duration::ZERO,
            Validity::UntilRenewed => took * REST,
        };
        self.started.elapsed() < valid
    }
}

#[cfg(test)]
mod tests {
    use super::BackgroundCache;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::Notify;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn computes_once_for_many_viewers() {
        let (cache, started, go) =
            (BackgroundCache::<&str, u32>::default(), AtomicUsize::new(0), Arc::new(Notify::new()));
        let get_or_start = |max_wait| {
            cache.get_or_start("all", max_wait, |sender| {
                started.fetch_add(1, Ordering::Relaxed);
                let go = Arc::clone(&go);
                async move {
                    sender.so_far(1);
                    go.notified().await;
                    2
                }
            })
        };
        let early = get_or_start(Duration::from_millis(80)).await;
        assert_eq!((early.value, early.done), (Some(1), false));
        go.notify_one();
        let late = get_or_start(LONG).await;
        assert_eq!((late.value, late.done), (Some(2), true));
        assert_eq!(started.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn restarts_a_task_that_panicked() {
        let cache = BackgroundCache::<&str, u32>::default();
        let first = cache.get_or_start("all", LONG, |_| async { panic!("as a defect would") }).await;
        assert_eq!((first.value, first.done), (None, false));
        let second = cache.get_or_start("all", LONG, |_| async { 2 }).await;
        assert_eq!(second.value, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_quick_sorts_and_shows_the_last_slow_one_until_the_next_is_ready() {
        let cache = BackgroundCache::<&str, u32>::until_renewed();
        for expected in [1, 2] {
            let quick = cache.get_or_start("quick", LONG, |_| async move { expected }).await;
            assert_eq!((quick.value, quick.done), (Some(expected), true));
        }
        let slow = |value| {
            move |_: Arc<super::ProgressSender<u32>>| async move {
                // Real time: it decides how long the result is valid.
                let until = std::time::Instant::now() + super::QUICK * 2;
                while std::time::Instant::now() < until {
                    tokio::task::yield_now().await;
                }
                value
            }
        };
        assert_eq!(cache.get_or_start("slow", LONG, slow(1)).await.value, Some(1));
        assert_eq!(cache.get_or_start("slow", LONG, slow(2)).await.value, Some(1), "still valid");
        cache.entries.lock().get_mut("slow").unwrap().started -= LONG;
        let renewing = cache.get_or_start("slow", Duration::ZERO, slow(3)).await;
        assert_eq!((renewing.value, renewing.done), (Some(1), false));
    }
}

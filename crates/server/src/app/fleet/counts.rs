//! Number of matching devices. Slow counts of a large fleet are cached and refreshed in the background.

use crate::app::error::AppResult;
use crate::state::ServerState;
use margrave_core::model::DeviceState;
use margrave_core::time::Timestamp;
use margrave_store::DeviceSearch;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// A count that took less than this is repeated on every request.
const QUICK: Duration = Duration::from_millis(60);
/// Maximum age of the counts shown, however long counting takes.
const OLD: Duration = Duration::from_mins(2);
/// Counting uses at most one part in this many of a core.
const REST: u32 = 10;
/// Searches whose counts are cached.
const CACHED_MAX: usize = 64;

pub(super) type Counts = BTreeMap<DeviceState, u64>;

/// Recent counts, by search.
#[derive(Debug)]
pub struct CountCache {
    entries: Mutex<HashMap<String, CachedCount>>,
    /// Only one count of a large fleet runs at a time.
    one_at_a_time: Arc<Semaphore>,
}

impl Default for CountCache {
    fn default() -> Self {
        Self { entries: Mutex::default(), one_at_a_time: Arc::new(Semaphore::new(1)) }
    }
}

#[derive(Debug, Clone)]
struct CachedCount {
    /// The newest event when counting began: until a newer one, hardly anything can have changed.
    newest: i64,
    at: Timestamp,
    took: Duration,
    counts: Counts,
}

/// How to use a cached count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CacheUse {
    AsItIs,
    /// Shown, and refreshed in the background.
    AndRenew,
    No,
}

impl CachedCount {
    fn is_of(&self, newest: i64, now: Timestamp) -> CacheUse {
        let age = now.since(self.at);
        match () {
            () if self.took <= QUICK || age >= OLD => CacheUse::No,
            () if self.newest == newest || age < self.took * REST => CacheUse::AsItIs,
            () => CacheUse::AndRenew,
        }
    }
}

/// Number of matching devices by state, ignoring the state filter.
pub(super) async fn of(state: &ServerState, search: DeviceSearch) -> AppResult<Counts> {
    let key = format!("{:?}", (&search.selector, &search.text, &search.runs));
    let newest = *state.store.events_newest().borrow();
    let entries = state.fleet_counts.entries.lock().get(&key).cloned();
    if let Some(entries) = entries {
        match entries.is_of(newest, state.now()) {
            CacheUse::AsItIs => return Ok(entries.counts),
            CacheUse::AndRenew => {
                renew(state, key, search);
                return Ok(entries.counts);
            }
            CacheUse::No => {}
        }
    }
    count(state, key, &search).await
}

async fn count(state: &ServerState, key: String, search: &DeviceSearch) -> AppResult<Counts> {
    // Before counting: events during the count trigger a recount.
    let (newest, at, started) = (*state.store.events_newest().borrow(), state.now(), Instant::now());
    let counts = state.store.devices_counted(search).await?;
    let took = started.elapsed();
    if took > QUICK {
        let mut stored = state.fleet_counts.entries.lock();
        if stored.len() >= CACHED_MAX {
            stored.clear();
        }
        stored.insert(key, CachedCount { newest, at, took, counts: counts.clone() });
    }
    Ok(counts)
}

fn renew(state: &ServerState, key: String, search: DeviceSearch) {
    let Ok(one_at_a_time) = Arc::clone(&state.fleet_counts.one_at_a_time).try_acquire_owned() else { return };
    let state = state.clone();
    tokio::spawn(async move {
        let _turn = one_at_a_time;
        if let Err(error) = count(&state, key, &search).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot count devices");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_only_slow_counts_and_only_briefly() {
        let entries = |took| CachedCount {
            newest: 7,
            at: Timestamp(0),
            took: Duration::from_millis(took),
            counts: Counts::new(),
        };
        let after = |seconds| Timestamp(0).plus(Duration::from_secs(seconds));
        assert_eq!(entries(20).is_of(7, after(0)), CacheUse::No, "a small fleet is counted for every request");
        assert_eq!(entries(500).is_of(7, after(100)), CacheUse::AsItIs, "no new events");
        assert_eq!(entries(500).is_of(8, after(4)), CacheUse::AsItIs, "counting pauses between runs");
        assert_eq!(entries(500).is_of(8, after(6)), CacheUse::AndRenew);
        assert_eq!(entries(500).is_of(7, after(120)), CacheUse::No, "too old");
    }
}

//! How many devices match. What takes long to count in a large fleet is kept for a while and counted anew beside the request.

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

/// Counted within this time, it is counted anew for whoever asks.
const QUICK: Duration = Duration::from_millis(60);
/// However long it takes, nobody sees numbers older than this without waiting for new ones.
const OLD: Duration = Duration::from_mins(2);
/// Counting takes at most one part in this many of a core.
const REST: u32 = 10;
/// Searches whose counts are kept.
const KEPT_MAX: usize = 64;

pub(super) type Counts = BTreeMap<DeviceState, u64>;

/// What was counted not long ago, by what was looked for.
#[derive(Debug)]
pub struct Kept {
    known: Mutex<HashMap<String, Known>>,
    /// A fleet is large enough to be counted anew by one at a time.
    turn: Arc<Semaphore>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { known: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

#[derive(Debug, Clone)]
struct Known {
    /// The newest event when counting began: until there is another, hardly anything can have changed.
    newest: i64,
    at: Timestamp,
    took: Duration,
    counts: Counts,
}

/// What is to be done with what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    AsItIs,
    /// Shown, and counted anew meanwhile.
    AndRenew,
    No,
}

impl Known {
    fn is_of(&self, newest: i64, now: Timestamp) -> Use {
        let age = now.since(self.at);
        match () {
            () if self.took <= QUICK || age >= OLD => Use::No,
            () if self.newest == newest || age < self.took * REST => Use::AsItIs,
            () => Use::AndRenew,
        }
    }
}

/// How many of each state match, whatever state the search asks for.
pub(super) async fn of(state: &ServerState, search: DeviceSearch) -> AppResult<Counts> {
    let key = format!("{:?}", (&search.selector, &search.text, &search.runs));
    let newest = *state.store.events_newest().borrow();
    let known = state.fleet_counts.known.lock().get(&key).cloned();
    if let Some(known) = known {
        match known.is_of(newest, state.now()) {
            Use::AsItIs => return Ok(known.counts),
            Use::AndRenew => {
                renew(state, key, search);
                return Ok(known.counts);
            }
            Use::No => {}
        }
    }
    count(state, key, &search).await
}

async fn count(state: &ServerState, key: String, search: &DeviceSearch) -> AppResult<Counts> {
    // Before counting: what happens meanwhile is counted again.
    let (newest, at, begun) = (*state.store.events_newest().borrow(), state.now(), Instant::now());
    let counts = state.store.devices_counted(search).await?;
    let took = begun.elapsed();
    if took > QUICK {
        let mut kept = state.fleet_counts.known.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Known { newest, at, took, counts: counts.clone() });
    }
    Ok(counts)
}

fn renew(state: &ServerState, key: String, search: DeviceSearch) {
    let Ok(turn) = Arc::clone(&state.fleet_counts.turn).try_acquire_owned() else { return };
    let state = state.clone();
    tokio::spawn(async move {
        let _turn = turn;
        if let Err(error) = count(&state, key, &search).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot count devices");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_took_long_is_shown_again_and_never_for_long() {
        let known =
            |took| Known { newest: 7, at: Timestamp(0), took: Duration::from_millis(took), counts: Counts::new() };
        let after = |seconds| Timestamp(0).plus(Duration::from_secs(seconds));
        assert_eq!(known(20).is_of(7, after(0)), Use::No, "a small fleet is counted for everybody");
        assert_eq!(known(500).is_of(7, after(100)), Use::AsItIs, "nothing has happened");
        assert_eq!(known(500).is_of(8, after(4)), Use::AsItIs, "counting has its rests");
        assert_eq!(known(500).is_of(8, after(6)), Use::AndRenew);
        assert_eq!(known(500).is_of(7, after(120)), Use::No, "too old");
    }
}

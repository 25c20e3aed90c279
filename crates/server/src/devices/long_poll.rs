//! `Prefer: wait=N` (RFC 7240): an unchanged poll is answered when there is a new manifest, or when the time is up.

use crate::config::{Config, Limits};
use crate::manifest_cache::{Waiting, WakeReason};
use crate::net::Lifetime;
use crate::telemetry::Metrics;
use http::HeaderValue;
use margrave_core::model::ClientState;
use margrave_store::Head;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Number of open long polls, and their limit.
#[derive(Debug)]
pub struct LongPolls {
    longest: Duration,
    most: usize,
    open_count: AtomicUsize,
    started: Notify,
    metrics: Arc<Metrics>,
}

/// A slot for one long poll: counted until it is dropped.
#[derive(Debug)]
pub(super) struct LongPollSlot {
    long_polls: Arc<LongPolls>,
    length: Duration,
    outcome: &'static str,
}

impl LongPolls {
    /// A waiting client is seen only when the wait ends, so it ends well before the client counts as offline: the pause
    /// until the next poll and the delay of writing last-seen times come on top.
    pub fn new(config: &Config, metrics: Arc<Metrics>) -> Self {
        let Limits { long_poll_max, long_polls, .. } = &config.limits;
        let longest = long_poll_max.0.min(config.offline_after() * 2 / 5);
        Self { longest, most: *long_polls, open_count: AtomicUsize::new(0), started: Notify::new(), metrics }
    }

    /// Number of open long polls.
    pub fn open_count(&self) -> usize {
        self.open_count.load(Ordering::Relaxed)
    }

    /// Returns when the first client starts to wait.
    pub async fn started(&self) {
        self.started.notified().await;
    }

    /// A slot for a poll that wants to wait this many seconds. Without a slot the poll is answered at once, as by a
    /// server that does not support the preference.
    pub(super) fn room(self: &Arc<Self>, seconds: u64) -> Option<LongPollSlot> {
        // The answer contains whole seconds; less than one is no wait.
        let length = Duration::from_secs(seconds.min(self.longest.as_secs()));
        if length.is_zero() {
            return None;
        }
        let one_more = |open_count: usize| (open_count < self.most).then(|| open_count + 1);
        let Ok(before) = self.open_count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) else {
            self.metrics.long_poll_refused();
            return None;
        };
        if before == 0 {
            self.started.notify_one();
        }
        self.metrics.long_poll_started();
        // Default: the client has disconnected before the answer.
        Some(LongPollSlot { long_polls: Arc::clone(self), length, outcome: "gone" })
    }
}

impl Drop for LongPollSlot {
    fn drop(&mut self) {
        self.long_polls.open_count.fetch_sub(1, Ordering::Relaxed);
        self.long_polls.metrics.long_poll_ended(self.outcome);
    }
}

/// One open long poll.
pub(super) struct LongPoll {
    pub(super) waiting: Waiting,
    /// The head that the poll asks about.
    pub(super) unchanged: Arc<Head>,
    /// When the connection has to close, the poll is answered early.
    pub(super) lifetime: Arc<Lifetime>,
}

impl LongPoll {
    /// Waits, and returns the preference applied for the answer.
    pub(super) async fn run(self, mut room: LongPollSlot) -> Option<HeaderValue> {
        let outcome = tokio::select! {
            woken = self.news() => match woken {
                WakeReason::Look => "changed",
                WakeReason::Replaced => "replaced",
            },
            () = self.closing() => "closing",
            () = sleep(room.length) => "elapsed",
        };
        room.outcome = outcome;
        // Two concurrent polls of one client would otherwise keep replacing each other.
        (outcome != "replaced").then(|| HeaderValue::try_from(format!("wait={}", room.length.as_secs())).ok()).flatten()
    }

    /// Registers nothing: it is polled by the task of the connection, which is woken when it has to close.
    async fn closing(&self) {
        poll_fn(|_| if self.lifetime.closing().is_some() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Returns when the answer to an ordinary poll would differ, or when a newer poll replaced this one.
    async fn news(&self) -> WakeReason {
        loop {
            let head = self.waiting.head();
            if head.state != ClientState::Accepted || head.digest != self.unchanged.digest {
                return WakeReason::Look;
            }
            if self.waiting.woken().await == WakeReason::Replaced {
                return WakeReason::Replaced;
            }
        }
    }
}

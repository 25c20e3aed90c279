//! `Prefer: wait=N` (RFC 7240): a poll that finds nothing new is answered when there is something, or when the time is up.

use crate::config::{Config, Limits};
use crate::heads::{Waiting, Woken};
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

/// How many polls are held, and how many may be.
#[derive(Debug)]
pub struct Holds {
    longest: Duration,
    most: usize,
    held: AtomicUsize,
    begun: Notify,
    metrics: Arc<Metrics>,
}

/// Room for one poll: counted from here to its end, whichever way it ends.
#[derive(Debug)]
pub(super) struct Room {
    holds: Arc<Holds>,
    length: Duration,
    outcome: &'static str,
}

impl Holds {
    /// Who waits is heard of only when the wait ends, so it ends well before a client counts as silent: the pause until the next
    /// poll comes on top, and the time until it is written down.
    pub fn new(config: &Config, metrics: Arc<Metrics>) -> Self {
        let Limits { hold_max, holds, .. } = &config.limits;
        let longest = hold_max.0.min(config.silent_after() * 2 / 5);
        Self { longest, most: *holds, held: AtomicUsize::new(0), begun: Notify::new(), metrics }
    }

    /// How many are held now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns when somebody begins to wait after nobody did.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Room for one more that wants to wait this many seconds. Without it the poll is answered at once, as by a server that
    /// has never heard of the preference.
    pub(super) fn room(self: &Arc<Self>, seconds: u64) -> Option<Room> {
        // Whole seconds go into the answer; less than one is no wait.
        let length = Duration::from_secs(seconds.min(self.longest.as_secs()));
        if length.is_zero() {
            return None;
        }
        let one_more = |held: usize| (held < self.most).then(|| held + 1);
        let Ok(before) = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) else {
            self.metrics.hold_refused();
            return None;
        };
        if before == 0 {
            self.begun.notify_one();
        }
        self.metrics.hold_began();
        // Unless told otherwise: the client has left, and nobody waits for the answer.
        Some(Room { holds: Arc::clone(self), length, outcome: "gone" })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.holds.held.fetch_sub(1, Ordering::Relaxed);
        self.holds.metrics.hold_ended(self.outcome);
    }
}

/// One poll that is held.
pub(super) struct Hold {
    pub(super) waiting: Waiting,
    /// The head the poll asks about.
    pub(super) unchanged: Arc<Head>,
    /// When the connection has to close, an answer is better than none.
    pub(super) lifetime: Arc<Lifetime>,
}

impl Hold {
    /// Waits, and gives what to say about it in the answer.
    pub(super) async fn run(self, mut room: Room) -> Option<HeaderValue> {
        let outcome = tokio::select! {
            woken = self.news() => match woken {
                Woken::Look => "changed",
                Woken::Replaced => "replaced",
            },
            () = self.closing() => "closing",
            () = sleep(room.length) => "elapsed",
        };
        room.outcome = outcome;
        // A client with two requests under way would otherwise make them drive each other out for ever.
        (outcome != "replaced").then(|| HeaderValue::try_from(format!("wait={}", room.length.as_secs())).ok()).flatten()
    }

    /// Registers nothing: it is polled by the task of the connection, which is woken when it has to close.
    async fn closing(&self) {
        poll_fn(|_| if self.lifetime.closing().is_some() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Returns when an ordinary poll would not be told the same any more, or when a newer one took its place.
    async fn news(&self) -> Woken {
        loop {
            let head = self.waiting.head();
            if head.state != ClientState::Accepted || head.digest != self.unchanged.digest {
                return Woken::Look;
            }
            if self.waiting.woken().await == Woken::Replaced {
                return Woken::Replaced;
            }
        }
    }
}

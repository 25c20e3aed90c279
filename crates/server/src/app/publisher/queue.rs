//! The queue: rollouts are processed round-robin, and a failing one backs off without delaying the others.

use margrave_core::model::Rollout;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// A full disk or a locked database often recovers quickly.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Entry {
    rollout: Rollout,
    failures: u32,
    not_before: Option<Instant>,
}

impl Entry {
    pub(super) fn rollout(&self) -> &Rollout {
        &self.rollout
    }

    pub(super) fn into_rollout(self) -> Rollout {
        self.rollout
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: VecDeque<Entry>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a rollout unless it is queued already.
    pub(super) fn add(&mut self, rollout: Rollout) {
        if !self.entries.iter().any(|entry| entry.rollout.id == rollout.id) {
            self.put_back(rollout);
        }
    }

    pub(super) fn put_back(&mut self, rollout: Rollout) {
        self.entries.push_back(Entry { rollout, failures: 0, not_before: None });
    }

    /// Puts back a failed rollout and returns its back-off.
    pub(super) fn put_back_failed(&mut self, entry: Entry, now: Instant) -> Duration {
        let pause = PAUSE_MIN.saturating_mul(1 << entry.failures.min(8)).min(PAUSE_MAX);
        self.entries.push_back(Entry {
            rollout: entry.rollout,
            failures: entry.failures.saturating_add(1),
            not_before: Some(now + pause),
        });
        pause
    }

    /// Takes the first that is due.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<Entry> {
        let index = self.entries.iter().position(|entry| entry.not_before.is_none_or(|at| at <= now))?;
        self.entries.remove(index)
    }

    /// Time until the next is due; `None` when the queue is empty.
    pub(super) fn until_due(&self, now: Instant) -> Option<Duration> {
        self.entries
            .iter()
            .map(|entry| entry.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now)))
            .min()
    }
}

#[cfg(test)]
mod tests;

//! Who is next: changes take turns, and one that fails waits longer each time without holding up the others.

use margrave_core::model::Change;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// A full disk or a locked database is often over in a moment.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Entry {
    change: Change,
    failures: u32,
    not_before: Option<Instant>,
}

impl Entry {
    pub(super) fn change(&self) -> &Change {
        &self.change
    }

    pub(super) fn into_change(self) -> Change {
        self.change
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

    /// Adds a change unless it waits here already.
    pub(super) fn add(&mut self, change: Change) {
        if !self.entries.iter().any(|entry| entry.change.id == change.id) {
            self.put_back(change);
        }
    }

    pub(super) fn put_back(&mut self, change: Change) {
        self.entries.push_back(Entry { change, failures: 0, not_before: None });
    }

    /// Puts a change back that failed and says how long it will rest.
    pub(super) fn put_back_failed(&mut self, entry: Entry, now: Instant) -> Duration {
        let pause = PAUSE_MIN.saturating_mul(1 << entry.failures.min(8)).min(PAUSE_MAX);
        self.entries.push_back(Entry {
            change: entry.change,
            failures: entry.failures.saturating_add(1),
            not_before: Some(now + pause),
        });
        pause
    }

    /// Takes the first that may run.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<Entry> {
        let index = self.entries.iter().position(|entry| entry.not_before.is_none_or(|at| at <= now))?;
        self.entries.remove(index)
    }

    /// How long until the next may run; `None` when nothing waits.
    pub(super) fn until_due(&self, now: Instant) -> Option<Duration> {
        self.entries
            .iter()
            .map(|entry| entry.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now)))
            .min()
    }
}

#[cfg(test)]
mod tests;

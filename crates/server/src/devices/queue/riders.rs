//! Status reports that ride in the transaction of somebody who writes anyway: one sync of the disk serves both, and they do not
//! wait for two.

use super::{Answer, Line, StatusQueue, Statuses, answer};
use margrave_store::{StatusOutcome, StatusWrite};
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The most that ride at once. At about 200 microseconds each they take as long as the batch they ride in; more would keep each
/// other waiting, and are written together right after it.
const RIDERS_MAX: usize = 16;

/// Finds riders among the reports that wait; cheap to clone, and does not keep the queue open.
#[derive(Clone)]
pub struct Riders {
    group: Arc<Statuses>,
    line: Weak<Mutex<Line<Statuses>>>,
}

impl StatusQueue {
    /// `None` on a database that is shared: it syncs for several at once, and others are not kept waiting.
    pub fn riders(&self) -> Option<Riders> {
        let riders = Riders { group: Arc::clone(&self.group), line: Weak::clone(&self.line) };
        (!self.group.store.is_shared()).then_some(riders)
    }
}

impl Riders {
    /// Reports wait from now on, until the ride is over. `None` when the queue has ended.
    pub async fn ride(&self) -> Option<Ride> {
        let line = self.line.upgrade()?.lock_owned().await;
        Some(Ride { group: Arc::clone(&self.group), line, reports: Vec::new(), answers: Vec::new() })
    }
}

/// One transaction's riders. Dropped before they have arrived, they wait again where they were, unanswered.
pub struct Ride {
    group: Arc<Statuses>,
    line: OwnedMutexGuard<Line<Statuses>>,
    reports: Vec<StatusWrite>,
    answers: Vec<Answer<StatusOutcome>>,
}

impl Ride {
    /// Those who wait now, to be written in the transaction. Whoever is ahead of its manifest does not ride, nor anybody behind
    /// it: the manifest is raised first (invariant 2), in a transaction of its own.
    pub fn board(&mut self) -> &[StatusWrite] {
        let group = &self.group;
        let most = RIDERS_MAX.saturating_sub(self.reports.len());
        for (report, answer) in self.line.take(most, |report| !group.is_ahead(report)) {
            self.reports.push(report);
            self.answers.push(answer);
        }
        &self.reports
    }

    pub fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// The transaction is committed: answers everybody on board.
    pub fn arrive(mut self, outcomes: &[StatusOutcome]) {
        if self.is_empty() {
            return;
        }
        self.group.metrics.status_batch();
        self.group.metrics.status_riders(self.reports.len());
        self.reports.clear();
        answer(self.answers.drain(..), outcomes.iter().copied().map(Ok));
    }

    /// The transaction is not committed: everybody waits again where they were.
    pub fn turn_back(&mut self) {
        self.line.put_back(self.reports.drain(..).zip(self.answers.drain(..)));
    }
}

impl Drop for Ride {
    fn drop(&mut self) {
        self.turn_back();
    }
}

#[cfg(test)]
mod tests;

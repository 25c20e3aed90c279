//! Cooperative yielding for long computations: a plan over a whole fleet takes seconds, and polls share its thread.

use std::time::{Duration, Instant};

/// About the duration of a poll, so waiting requests notice no delay.
const TURN: Duration = Duration::from_micros(500);
/// After this much work, a computation sleeps after each slice, so that the database threads get time as well.
const LONG: Duration = Duration::from_millis(50);
/// The shortest sleep of the runtime's timer.
const REST: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct TimeSlices {
    started: Instant,
    worked: Duration,
}

impl TimeSlices {
    pub(crate) fn begin() -> Self {
        Self { started: Instant::now(), worked: Duration::ZERO }
    }

    /// Await this between two pieces of work; returns at once while the time slice is not used up.
    pub(crate) async fn next(&mut self) {
        let worked = self.started.elapsed();
        if worked < TURN {
            return;
        }
        self.worked += worked;
        if self.worked < LONG {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(REST).await;
        }
        self.started = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::{TURN, TimeSlices};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    #[tokio::test]
    async fn yields_to_other_tasks_in_a_long_computation() {
        let seen = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&seen);
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        let mut slices = TimeSlices::begin();
        slices.next().await;
        assert!(!seen.load(Ordering::Relaxed), "the time slice has just started");
        let started = Instant::now();
        while started.elapsed() < TURN {
            std::hint::spin_loop();
        }
        slices.next().await;
        assert!(seen.load(Ordering::Relaxed), "the other task ran");
    }
}

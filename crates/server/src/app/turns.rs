//! Long calculations let others have their turn: a plan over a whole fleet takes seconds, and polls share its thread.

use std::time::{Duration, Instant};

/// About what a poll takes itself: whoever waits for a turn notices nothing.
const TURN: Duration = Duration::from_micros(500);
/// Who has worked this long rests after each turn, so that the threads of the database get theirs as well.
const LONG: Duration = Duration::from_millis(50);
/// The shortest rest the clock of the runtime knows.
const REST: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Turns {
    begun: Instant,
    worked: Duration,
}

impl Turns {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), worked: Duration::ZERO }
    }

    /// To be awaited between two pieces of work; returns at once while the turn is not over.
    pub(crate) async fn next(&mut self) {
        let worked = self.begun.elapsed();
        if worked < TURN {
            return;
        }
        self.worked += worked;
        if self.worked < LONG {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(REST).await;
        }
        self.begun = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::{TURN, Turns};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    #[tokio::test]
    async fn others_get_their_turn_in_a_long_calculation() {
        let seen = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&seen);
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        let mut turns = Turns::begin();
        turns.next().await;
        assert!(!seen.load(Ordering::Relaxed), "the turn has only begun");
        let begun = Instant::now();
        while begun.elapsed() < TURN {
            std::hint::spin_loop();
        }
        turns.next().await;
        assert!(seen.load(Ordering::Relaxed), "the other had its turn");
    }
}

//! Long calculations let others have their turn: a plan over a whole fleet takes seconds, and polls share its thread.

use std::time::{Duration, Instant};

/// About what a poll takes itself: whoever waits for a turn notices nothing.
const TURN: Duration = Duration::from_micros(500);

#[derive(Debug)]
pub(crate) struct Turns {
    begun: Instant,
}

impl Turns {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    /// To be awaited between two pieces of work; returns at once while the turn is not over.
    pub(crate) async fn next(&mut self) {
        if self.begun.elapsed() >= TURN {
            tokio::task::yield_now().await;
            self.begun = Instant::now();
        }
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

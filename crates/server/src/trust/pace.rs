//! How fast strangers may try tokens: enough for a fleet coming to life, too slow to keep the store busy.

use parking_lot::Mutex;
use std::time::Instant;

/// Attempts that may come at once.
const BURST: f64 = 200.0;
/// Attempts per second after that; each costs one signature and one transaction.
const PER_SECOND: f64 = 50.0;

/// A token bucket for the whole listener: secrets have 256 bits, so it is load that is bounded here, not guessing.
#[derive(Debug)]
pub(super) struct Pace {
    state: Mutex<(f64, Instant)>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { state: Mutex::new((BURST, Instant::now())) }
    }
}

impl Pace {
    /// Takes one attempt, or says that there is none left at this moment.
    pub(super) fn take(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let (left, since) = *state;
        let earned = now.saturating_duration_since(since).as_secs_f64() * PER_SECOND;
        let left = (left + earned).min(BURST);
        let granted = left >= 1.0;
        *state = (if granted { left - 1.0 } else { left }, now);
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::{BURST, Pace};
    use std::time::{Duration, Instant};

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let (pace, start) = (Pace::default(), Instant::now());
        let granted = (0..1_000).filter(|_| pace.take(start)).count();
        assert_eq!(granted, BURST as usize);
        let later = start + Duration::from_millis(110);
        let granted = (0..20).filter(|_| pace.take(later)).count();
        assert_eq!(granted, 5, "50 per second for a tenth of a second");
    }
}

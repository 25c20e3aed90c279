//! Rate limit for enrollment attempts: enough for a starting fleet, too slow to overload the store.

use parking_lot::Mutex;
use std::time::Instant;

/// Burst size.
const BURST: f64 = 200.0;
/// Attempts per second after the burst; each costs one signature and one transaction.
const PER_SECOND: f64 = 50.0;

/// A token bucket for the whole listener: secrets have 256 bits, so this limits load, not guessing.
#[derive(Debug)]
pub(super) struct RateLimit {
    state: Mutex<(f64, Instant)>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { state: Mutex::new((BURST, Instant::now())) }
    }
}

impl RateLimit {
    /// Takes one attempt, or returns false when none is left.
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
    use super::{BURST, RateLimit};
    use std::time::{Duration, Instant};

    #[test]
    fn allows_a_burst_then_limits_the_rate() {
        let (rate_limit, start) = (RateLimit::default(), Instant::now());
        let granted = (0..1_000).filter(|_| rate_limit.take(start)).count();
        assert_eq!(granted, BURST as usize);
        let later = start + Duration::from_millis(110);
        let granted = (0..20).filter(|_| rate_limit.take(later)).count();
        assert_eq!(granted, 5, "50 per second for a tenth of a second");
    }
}

//! How many targets a batch takes: others who write should not notice.

use std::time::Duration;

/// How long one batch may keep others who write waiting: a report of a device costs about as much by itself on a slow disk.
const AIM: Duration = Duration::from_micros(1_200);

/// Fewer take nearly as long.
const TARGETS_MIN: usize = 3;
const _: () = assert!(TARGETS_MAX <= margrave_store::BATCH_TARGETS_MAX);
const TARGETS_MAX: usize = 200;

/// A batch that took very long by chance is not followed by a rest as long.
const REST_MAX: Duration = Duration::from_millis(50);

/// To begin with, before anything is known of the machine.
const TARGETS_FIRST: usize = 10;

/// Learns from every batch. One that was slow or fast by chance halves or doubles the next, no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    targets: usize,
    /// How long the last batch kept others waiting.
    took: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { targets: TARGETS_FIRST, took: Duration::ZERO }
    }
}

impl Pace {
    /// The store writes rows by tens where it can, so odd ones cost more than they bring.
    pub(super) fn targets(self) -> usize {
        if self.targets < 10 { self.targets } else { self.targets / 10 * 10 }
    }

    /// Takes in that a batch of `targets` took this long.
    pub(super) fn learn(&mut self, targets: usize, took: Duration) {
        self.took = took;
        // The rest of a change, smaller than what was aimed at, says little about larger batches.
        if targets < self.targets() {
            return;
        }
        let factor = AIM.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
        let wanted = targets as f64 * factor.clamp(0.5, 2.0);
        self.targets = (wanted.round() as usize).clamp(TARGETS_MIN, TARGETS_MAX);
    }

    /// How long others may write undisturbed after a batch: as long as it took.
    pub(super) fn rest(self) -> Duration {
        self.took.min(REST_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{AIM, Pace, REST_MAX, TARGETS_MAX, TARGETS_MIN};
    use std::time::Duration;

    /// Batches on a machine where one target takes `each` and a commit takes `commit`.
    fn settled(each: Duration, commit: Duration) -> Pace {
        let mut pace = Pace::default();
        for _ in 0..60 {
            pace.learn(pace.targets(), commit + each * pace.targets() as u32);
        }
        pace
    }

    #[test]
    fn settles_where_a_batch_takes_as_long_as_is_aimed_at() {
        for (each, commit) in [(100, 600), (60, 400), (200, 400)] {
            let (each, commit) = (Duration::from_micros(each), Duration::from_micros(commit));
            let took = commit + each * settled(each, commit).targets() as u32;
            assert!(took > AIM / 2 && took < AIM * 5 / 4, "{took:?}");
        }
    }

    #[test]
    fn stays_within_bounds_on_any_machine() {
        assert_eq!(settled(Duration::ZERO, Duration::ZERO).targets(), TARGETS_MAX);
        assert_eq!(settled(Duration::from_secs(1), Duration::ZERO).targets(), TARGETS_MIN);
        // A disk whose syncs alone take longer.
        assert_eq!(settled(Duration::from_millis(1), AIM * 2).targets(), TARGETS_MIN);
    }

    #[test]
    fn one_slow_batch_at_most_halves_the_next() {
        let mut pace = settled(Duration::from_micros(100), Duration::ZERO);
        let before = pace.targets();
        pace.learn(before, Duration::from_secs(30));
        assert_eq!(pace.targets(), before / 2);
    }

    #[test]
    fn the_small_rest_of_a_change_teaches_nothing() {
        let mut pace = Pace::default();
        pace.learn(1, Duration::from_secs(1));
        assert_eq!(pace.targets(), Pace::default().targets());
    }

    #[test]
    fn rests_as_long_as_the_batch_took() {
        let mut pace = Pace::default();
        assert_eq!(pace.rest(), Duration::ZERO);
        pace.learn(pace.targets(), AIM);
        assert_eq!(pace.rest(), AIM);
        pace.learn(pace.targets(), Duration::from_secs(3));
        assert_eq!(pace.rest(), REST_MAX);
    }
}

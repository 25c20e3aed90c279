//! Batch size: adapts so that other writers are not delayed noticeably.

use std::time::Duration;

/// How long one batch may block other writers: about the cost of one device report on a slow disk.
const AIM: Duration = Duration::from_micros(1_200);

/// Smaller batches take nearly as long.
const TARGETS_MIN: usize = 3;
const _: () = assert!(TARGETS_MAX <= margrave_store::BATCH_TARGETS_MAX);
const TARGETS_MAX: usize = 200;

/// Limits the pause after a batch that took very long by chance.
const REST_MAX: Duration = Duration::from_millis(50);

/// The first batch, before the speed of the machine is known.
const TARGETS_FIRST: usize = 10;

/// Learns from every batch. An outlier halves or doubles the next batch at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchSize {
    targets: usize,
    /// How long the last batch blocked others.
    took: Duration,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { targets: TARGETS_FIRST, took: Duration::ZERO }
    }
}

impl BatchSize {
    /// The store writes rows in tens where possible, so an odd number costs more than it gains.
    pub(super) fn targets(self) -> usize {
        if self.targets < 10 { self.targets } else { self.targets / 10 * 10 }
    }

    /// Records that a batch of `targets` took this long.
    pub(super) fn learn(&mut self, targets: usize, took: Duration) {
        self.took = took;
        // The last batch of a rollout, smaller than the target size, says little about larger batches.
        if targets < self.targets() {
            return;
        }
        let factor = AIM.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
        let requested = targets as f64 * factor.clamp(0.5, 2.0);
        self.targets = (requested.round() as usize).clamp(TARGETS_MIN, TARGETS_MAX);
    }

    /// The pause after a batch for other writers: as long as the batch took.
    pub(super) fn rest(self) -> Duration {
        self.took.min(REST_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{AIM, BatchSize, REST_MAX, TARGETS_MAX, TARGETS_MIN};
    use std::time::Duration;

    /// Batches on a machine where one target takes `each` and a commit takes `commit`.
    fn settled(each: Duration, commit: Duration) -> BatchSize {
        let mut batch_size = BatchSize::default();
        for _ in 0..60 {
            batch_size.learn(batch_size.targets(), commit + each * batch_size.targets() as u32);
        }
        batch_size
    }

    #[test]
    fn settles_at_the_target_duration() {
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
    fn halves_the_next_batch_at_most_after_a_slow_one() {
        let mut batch_size = settled(Duration::from_micros(100), Duration::ZERO);
        let before = batch_size.targets();
        batch_size.learn(before, Duration::from_secs(30));
        assert_eq!(batch_size.targets(), before / 2);
    }

    #[test]
    fn ignores_the_small_last_batch_of_a_rollout() {
        let mut batch_size = BatchSize::default();
        batch_size.learn(1, Duration::from_secs(1));
        assert_eq!(batch_size.targets(), BatchSize::default().targets());
    }

    #[test]
    fn pauses_as_long_as_the_batch_took() {
        let mut batch_size = BatchSize::default();
        assert_eq!(batch_size.rest(), Duration::ZERO);
        batch_size.learn(batch_size.targets(), AIM);
        assert_eq!(batch_size.rest(), AIM);
        batch_size.learn(batch_size.targets(), Duration::from_secs(3));
        assert_eq!(batch_size.rest(), REST_MAX);
    }
}

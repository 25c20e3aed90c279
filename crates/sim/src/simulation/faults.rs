//! Kinds and rates of faults: drawn once per seed, so that runs differ in their fault patterns.

use rand::Rng;
use rand::rngs::StdRng;
use std::time::Duration;

/// Probabilities and rates; all zero after the faults stop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Faults {
    /// Per message, in either direction.
    pub(crate) lost: f64,
    pub(crate) duplicated: f64,
    pub(crate) very_late: f64,
    /// Responses that are corrupted, truncated, or stale.
    pub(crate) garbled: f64,
    /// The agent crashes within a step, between two effects.
    pub(crate) crash_in_step: f64,
    /// The server crashes during a request or a batch: half of the time before the commit.
    pub(crate) crash_in_request: f64,
    /// Per piece of work.
    pub(crate) work_fails: f64,
    pub(crate) work_slow: f64,
    /// Mean time between incidents: agent killed, server killed, partition, disk full, clock jump, runtime down, drift.
    pub(crate) spell_every: Option<Duration>,
    /// Probability that a restart finds a damaged file.
    pub(crate) damage: f64,
}

impl Faults {
    pub(crate) fn none() -> Self {
        Self {
            lost: 0.0,
            duplicated: 0.0,
            very_late: 0.0,
            garbled: 0.0,
            crash_in_step: 0.0,
            crash_in_request: 0.0,
            work_fails: 0.0,
            work_slow: 0.0,
            spell_every: None,
            damage: 0.0,
        }
    }

    pub(crate) fn draw(rng: &mut StdRng) -> Self {
        let mut often = |max: f64| if rng.random_bool(0.3) { 0.0 } else { rng.random_range(0.0..max) };
        Self {
            lost: often(0.3),
            duplicated: often(0.3),
            very_late: often(0.1),
            garbled: often(0.1),
            crash_in_step: often(0.03),
            crash_in_request: often(0.03),
            work_fails: often(0.3),
            work_slow: often(0.1),
            damage: often(0.2),
            spell_every: Some(Duration::from_secs(rng.random_range(10..120))),
        }
    }
}

/// An incident that lasts for a while or happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incident {
    AgentKilled,
    ServerKilled,
    Partition,
    AgentDiskFull,
    ClockAt1970,
    ClockJump,
    RuntimeDown,
    ChildUnreachable,
    /// A gateway loses a child and gets it back later.
    ChildGone,
    Drift,
}

impl Incident {
    pub(crate) const ALL: [Self; 10] = [
        Self::AgentKilled,
        Self::ServerKilled,
        Self::Partition,
        Self::AgentDiskFull,
        Self::ClockAt1970,
        Self::ClockJump,
        Self::RuntimeDown,
        Self::ChildUnreachable,
        Self::ChildGone,
        Self::Drift,
    ];
}

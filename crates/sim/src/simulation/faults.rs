//! What goes wrong, how often: drawn once per seed, so that worlds differ in character, not only in detail.

use rand::Rng;
use rand::rngs::StdRng;
use std::time::Duration;

/// Probabilities and rates; all zero once the world is left in peace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Faults {
    /// Of each message, in either direction.
    pub(crate) lost: f64,
    pub(crate) duplicated: f64,
    pub(crate) very_late: f64,
    /// Answers damaged, cut short, or from an older time.
    pub(crate) garbled: f64,
    /// The agent dies within a step, between two of its effects.
    pub(crate) crash_in_step: f64,
    /// The server dies while it handles a request or a batch: half of these before it has committed.
    pub(crate) crash_in_request: f64,
    /// Of each piece of work.
    pub(crate) work_fails: f64,
    pub(crate) work_slow: f64,
    /// Mean time between spells: agent killed, server killed, partition, disk full, clock jump, runtime down, drift.
    pub(crate) spell_every: Option<Duration>,
    /// How often a restart finds a damaged file.
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

/// Something that lasts for a while, or happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spell {
    AgentKilled,
    ServerKilled,
    Partition,
    AgentDiskFull,
    ClockAt1970,
    ClockJump,
    RuntimeDown,
    ChildUnreachable,
    /// A gateway loses a child altogether, and gets it back.
    ChildGone,
    Drift,
}

impl Spell {
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

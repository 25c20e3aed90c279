//! How far a deployment is, seen from the server (ST-06).

#[cfg(test)]
mod tests;

use crate::model::{Deployment, Desired, Reported};
use crate::time::Timestamp;
use margo::status::State;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Convergence {
    /// Adopted the target version and installed (or removed, when that is desired).
    Converged,
    /// Adopted the target version and still at it.
    Applying,
    /// Adopted the target version and failed.
    Failed,
    /// Reported, but on an older revision (or an unknown one: version 0).
    OlderRevision,
    /// Never said anything about this deployment yet; its client is being heard of.
    Waiting,
    /// Its client has not been heard of for longer than the silence limit.
    NotHeardOf,
}

impl Convergence {
    pub const ALL: [Self; 6] =
        [Self::Converged, Self::Applying, Self::Failed, Self::OlderRevision, Self::Waiting, Self::NotHeardOf];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Applying => "applying",
            Self::Failed => "failed",
            Self::OlderRevision => "older-revision",
            Self::Waiting => "waiting",
            Self::NotHeardOf => "not-heard-of",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|convergence| convergence.as_str() == text)
    }
}

/// `silent_since`: a client last seen before this instant (or never) counts as not heard of. Converged and failed stay what
/// they are when a device falls silent: the last word stands, the device list tells the silence.
///
/// The store counts by the same rules in SQL; its suite compares the two.
pub fn judge(
    deployment: &Deployment,
    reported: Option<&Reported>,
    last_seen: Option<Timestamp>,
    silent_since: Timestamp,
) -> Convergence {
    let last_word = last_word(deployment, reported.map(|reported| (reported.state, reported.adopted_version)));
    let silent = last_seen.is_none_or(|seen| seen < silent_since);
    match last_word {
        Convergence::Converged | Convergence::Failed => last_word,
        _ if silent => Convergence::NotHeardOf,
        _ => last_word,
    }
}

/// The same by the last report alone (its state and the version it was for), however long ago it came.
pub fn last_word(deployment: &Deployment, reported: Option<(State, u64)>) -> Convergence {
    let Some((state, adopted_version)) = reported else { return Convergence::Waiting };
    // W-12: version 0 means "unknown" and is never the target.
    let adopted = adopted_version != 0 && adopted_version >= deployment.target_version;
    match (deployment.desired, state) {
        // ST-11: what version goes with a removal is open, and an id is never used again once it was dropped.
        (Desired::Absent, State::Removed) if adopted_version != 0 => Convergence::Converged,
        _ if !adopted => Convergence::OlderRevision,
        (Desired::Present, State::Installed) => Convergence::Converged,
        (_, State::Failed) => Convergence::Failed,
        _ => Convergence::Applying,
    }
}

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
    /// Adopted the target version and failed, and has not succeeded since, though it may be trying again.
    Failed,
    /// Reported, but on an older revision (or an unknown one: version 0).
    OlderRevision,
    /// Never said anything about this deployment yet, or was told the same revision again and has not answered; its client is
    /// being heard of.
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
    let last_word = last_word(deployment, reported.map(Word::from));
    let silent = last_seen.is_none_or(|seen| seen < silent_since);
    match last_word {
        _ if never_begun(deployment, reported.is_some(), last_seen) => Convergence::Converged,
        Convergence::Converged | Convergence::Failed => last_word,
        _ if silent => Convergence::NotHeardOf,
        _ => last_word,
    }
}

/// Nothing of it was ever said to be there, and the device has called since it was taken back: whoever had it would say that it
/// is gone (ST-10).
pub fn never_begun(deployment: &Deployment, reported: bool, last_seen: Option<Timestamp>) -> bool {
    deployment.desired == Desired::Absent && !reported && last_seen.is_some_and(|seen| seen > deployment.updated_at)
}

/// What counts of the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    pub state: State,
    pub adopted_version: u64,
    /// The version it last failed with, until it succeeds.
    pub failed_version: Option<u64>,
}

impl From<&Reported> for Word {
    fn from(reported: &Reported) -> Self {
        let failed_version = reported.failed.as_ref().map(|failed| failed.adopted_version);
        Self { state: reported.state, adopted_version: reported.adopted_version, failed_version }
    }
}

/// The same by the last report alone, however long ago it came.
pub fn last_word(deployment: &Deployment, reported: Option<Word>) -> Convergence {
    let Some(Word { state, adopted_version, failed_version }) = reported else { return Convergence::Waiting };
    // W-12: version 0 means "unknown" and is never the target.
    let adopted = adopted_version != 0 && adopted_version >= deployment.target_version;
    match (deployment.desired, state) {
        // ST-11: what version goes with a removal is open, and an id is never used again once it was dropped.
        (Desired::Absent, State::Removed) if adopted_version != 0 => Convergence::Converged,
        // Until it succeeds, is told once more or gets another revision: each attempt in between says nothing new.
        _ if failed_version.is_some_and(|failed| failed >= deployment.target_version) => Convergence::Failed,
        _ if !adopted && adopted_version != 0 && adopted_version >= deployment.changed_version => Convergence::Waiting,
        _ if !adopted => Convergence::OlderRevision,
        (Desired::Present, State::Installed) => Convergence::Converged,
        _ => Convergence::Applying,
    }
}

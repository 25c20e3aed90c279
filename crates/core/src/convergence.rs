//! How far a deployment is, seen from the server (ST-06).

use crate::model::{Deployment, Desired, Reported};
use crate::time::Timestamp;

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
}

/// `silent_since`: a client last seen before this instant (or never) counts as not heard of. Converged and failed stay what
/// they are when a device falls silent: the last word stands, the device list tells the silence.
pub fn judge(deployment: &Deployment, reported: Option<&Reported>, last_seen: Option<Timestamp>, silent_since: Timestamp) -> Convergence {
    let _ = (deployment, reported, last_seen, silent_since);
    let _ = Desired::Present;
    todo!()
}

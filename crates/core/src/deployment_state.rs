//! The state of a deployment as the server sees it (ST-06).

#[cfg(test)]
mod tests;

use crate::model::{Deployment, Desired, Reported};
use crate::time::Timestamp;
use margo::status::State;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeploymentState {
    /// Adopted the target version and installed.
    UpToDate,
    /// Adopted the target version; the installation is in progress.
    Updating,
    /// Adopted the target version, failed and has not succeeded since, even if it is retrying.
    Failed,
    /// Reported, but on an older revision (or an unknown one: version 0).
    Outdated,
    /// Has not reported this deployment yet, or has not reported since the same revision was republished; its client is
    /// online.
    Pending,
    /// Its client has been offline for longer than the configured limit.
    DeviceOffline,
    /// Is to be removed, and its device has adopted the manifest without it.
    Removing,
    /// Was to be removed and is gone, or was never started.
    Removed,
}

impl DeploymentState {
    pub const ALL: [Self; 8] = [
        Self::UpToDate,
        Self::Updating,
        Self::Failed,
        Self::Outdated,
        Self::Pending,
        Self::DeviceOffline,
        Self::Removing,
        Self::Removed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::UpToDate => "up-to-date",
            Self::Updating => "updating",
            Self::Failed => "failed",
            Self::Outdated => "outdated",
            Self::Pending => "pending",
            Self::DeviceOffline => "device-offline",
            Self::Removing => "removing",
            Self::Removed => "removed",
        }
    }

    /// Whether the device has what is desired.
    pub fn is_done(self) -> bool {
        matches!(self, Self::UpToDate | Self::Removed)
    }

    /// Whether nothing is expected of the device until an operator acts: it is done, or it failed.
    pub fn is_settled(self) -> bool {
        self.is_done() || self == Self::Failed
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deployment_state| deployment_state.as_str() == text)
    }
}

/// `offline_before`: a client last seen before this instant (or never) counts as offline. Up-to-date and failed
/// deployments keep their state when a device goes offline: the last report stands, and the device list shows that it
/// is offline.
///
/// The store applies the same rules in SQL; the conformance suite compares the two.
pub fn state_of(
    deployment: &Deployment,
    reported: Option<&Reported>,
    last_seen: Option<Timestamp>,
    offline_before: Timestamp,
) -> DeploymentState {
    let state_from_last_report = state_from_last_report(deployment, reported.map(LastReport::from));
    let offline = last_seen.is_none_or(|seen| seen < offline_before);
    match state_from_last_report {
        _ if never_started(deployment, reported.is_some(), last_seen) => DeploymentState::Removed,
        settled if settled.is_settled() => settled,
        _ if offline => DeploymentState::DeviceOffline,
        _ => state_from_last_report,
    }
}

/// The device never reported it, and has connected since the removal was published: a device that had it would report
/// the removal (ST-10).
pub fn never_started(deployment: &Deployment, reported: bool, last_seen: Option<Timestamp>) -> bool {
    deployment.desired == Desired::Absent && !reported && last_seen.is_some_and(|seen| seen > deployment.updated_at)
}

/// The relevant part of the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastReport {
    pub state: State,
    pub adopted_version: u64,
    /// The version it last failed with, until it succeeds.
    pub failed_version: Option<u64>,
}

impl From<&Reported> for LastReport {
    fn from(reported: &Reported) -> Self {
        let failed_version = reported.failed.as_ref().map(|failed| failed.adopted_version);
        Self { state: reported.state, adopted_version: reported.adopted_version, failed_version }
    }
}

/// The state by the last report alone, however old it is.
pub fn state_from_last_report(deployment: &Deployment, reported: Option<LastReport>) -> DeploymentState {
    let Some(LastReport { state, adopted_version, failed_version }) = reported else { return DeploymentState::Pending };
    // W-12: version 0 means "unknown" and is never the target.
    let adopted = adopted_version != 0 && adopted_version >= deployment.target_version;
    match (deployment.desired, state) {
        // ST-11: the standard leaves open which version goes with a removal, and an id is never reused after its
        // removal.
        (Desired::Absent, State::Removed) if adopted_version != 0 => DeploymentState::Removed,
        // Failed until it succeeds, is republished or gets another revision: the attempts in between add nothing.
        _ if failed_version.is_some_and(|failed| failed >= deployment.target_version) => DeploymentState::Failed,
        _ if !adopted && adopted_version != 0 && adopted_version >= deployment.changed_version => {
            DeploymentState::Pending
        }
        // A deployment that is to be removed has no newer revision.
        (Desired::Absent, _) if !adopted => DeploymentState::Pending,
        (Desired::Present, _) if !adopted => DeploymentState::Outdated,
        (Desired::Present, State::Installed) => DeploymentState::UpToDate,
        (Desired::Present, _) => DeploymentState::Updating,
        (Desired::Absent, _) => DeploymentState::Removing,
    }
}

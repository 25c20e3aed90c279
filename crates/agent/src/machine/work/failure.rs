//! Failure policies: keep the running parts and retry, roll back, or stop.

use super::super::io::Level;
use super::super::records::AbandonedRevision;
use super::super::statuses::{all_components, status_error};
use super::super::{Document, Goal, Machine};
use super::drift::policy;
use crate::codes::Code;
use margo::status::State;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::policy::OnFailure;
use margrave_core::time::Timestamp;

/// A failed component.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) code: Code,
    pub(super) component: String,
    pub(super) message: String,
}

/// The reaction to a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FailureAction {
    /// Not a fault of the deployment: retried independent of the policy.
    Wait,
    KeepPartial,
    RollBack(Digest),
    /// Rollback is requested, but there is no earlier revision.
    NothingEarlier,
    Stop,
}

impl FailureAction {
    /// The message of the report: what failed, and the reaction.
    pub(super) fn report_message(&self, failed: &Failed) -> String {
        let message = &failed.message;
        match self {
            Self::Wait => message.clone(),
            Self::KeepPartial => {
                format!("{message}; running parts are kept, the rest is retried (failure policy `keep-partial`)")
            }
            Self::RollBack(good) => {
                format!("{message}; rolling back to revision {} (failure policy `rollback`)", short(good))
            }
            Self::NothingEarlier => {
                format!("{message}; retrying, there is no earlier revision to roll back to (failure policy `rollback`)")
            }
            Self::Stop => {
                format!("{message}; stopped until an operator changes the deployment (failure policy `stop`)")
            }
        }
    }
}

impl Machine {
    /// The installed revision of a deployment according to its reports: it ran, even if it was changed since.
    pub(super) fn installed<'a>(&'a self, goal: &'a Goal, id: DeploymentId) -> Option<&'a Digest> {
        if let Some((digest, _)) = goal.instead.get(&id) {
            return self.revisions.abandoned(id).filter(|abandoned| abandoned.restored).map(|_| digest);
        }
        let entry = self.statuses.get(&id)?;
        let drifted = |error: &margo::status::StatusError| error.code == Code::Drifted.number();
        let stands = match entry.status.state {
            State::Installed => true,
            State::Failed => entry.status.error.as_ref().is_some_and(drifted),
            _ => false,
        };
        entry.digest.as_ref().filter(|_| stands)
    }

    /// Decides, and records what must survive a crash.
    pub(super) fn choose(
        &mut self,
        id: DeploymentId,
        digest: &Digest,
        failed: &Failed,
        now: Timestamp,
    ) -> FailureAction {
        let Some(goal) = &self.accepted else { return FailureAction::Wait };
        if !is_the_deployments_own(failed.code) || goal.listed(id) != Some(digest) {
            return FailureAction::Wait;
        }
        match policy(goal, id).on_failure {
            OnFailure::KeepPartial => FailureAction::KeepPartial,
            OnFailure::Stop => {
                self.work.retries.remove(&id);
                FailureAction::Stop
            }
            OnFailure::Rollback => self.start_rollback(id, digest, failed, now),
        }
    }

    fn start_rollback(&mut self, id: DeploymentId, digest: &Digest, failed: &Failed, now: Timestamp) -> FailureAction {
        let good = self.revisions.good(id).filter(|good| *good != digest).cloned();
        let document = good.as_ref().map(|good| self.document(id, good));
        let (Some(good), Some(Document::Ready(document)), Some(goal)) = (good, document, &mut self.accepted) else {
            return FailureAction::NothingEarlier;
        };
        goal.instead.insert(id, (good.clone(), Document::Ready(document)));
        let Failed { code, component, message } = failed.clone();
        let abandoned =
            AbandonedRevision { digest: digest.clone(), code, component, message, restored: false, at: now };
        self.revisions.abandon(id, abandoned);
        self.work.retries.remove(&id);
        FailureAction::RollBack(good)
    }

    /// Whether it stopped after a failure; derived from the reports, so that it survives a restart.
    pub(in super::super) fn is_stopped(&self, id: DeploymentId) -> bool {
        let Some(goal) = &self.accepted else { return false };
        let Some(entry) = self.statuses.get(&id) else { return false };
        let code = entry.status.error.as_ref().and_then(|error| Code::parse(&error.code));
        policy(goal, id).on_failure == OnFailure::Stop
            && entry.status.state == State::Failed
            && entry.digest.as_ref() == goal.listed(id)
            && code.is_some_and(is_the_deployments_own)
    }

    /// Number of deployments that are not retried until the manifest changes.
    pub(in super::super) fn abandoned(&self) -> usize {
        let Some(goal) = &self.accepted else { return 0 };
        let ids = goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id);
        let restored = |id| self.revisions.abandoned(id).is_some_and(|abandoned| abandoned.restored);
        ids.filter(|id| self.is_stopped(*id) || (goal.instead.contains_key(id) && restored(*id))).count()
    }

    /// The earlier revision could not be started either.
    pub(super) fn rollback_failed(&mut self, id: DeploymentId, device: &DeviceId, failed: &Failed, now: Timestamp) {
        let Some(good) = self.revisions.good(id) else { return };
        let done = format!("the rollback to revision {} is retried: {}", short(good), failed.message);
        self.report_abandoned(id, device, &done, now);
    }

    /// The earlier revision runs.
    pub(super) fn rollback_finished(&mut self, id: DeploymentId, device: &DeviceId, now: Timestamp) {
        let Some(good) = self.revisions.good(id).cloned() else { return };
        if !self.revisions.abandoned(id).is_some_and(|abandoned| abandoned.restored) {
            let message = format!("rolled back to revision {}, which is running", short(&good));
            self.log(Level::Warn, Some(Code::RolledBack), Some(id), message);
        }
        self.revisions.restored(id);
        let done = format!("rolled back to revision {}, which is running (failure policy `rollback`)", short(&good));
        self.report_abandoned(id, device, &done, now);
    }

    /// Reports that the desired revision failed, even if an earlier one runs instead (ST-04, ST-06).
    fn report_abandoned(&mut self, id: DeploymentId, device: &DeviceId, done: &str, now: Timestamp) {
        let (Some(goal), Some(abandoned)) = (&self.accepted, self.revisions.abandoned(id).cloned()) else { return };
        let Some(Document::Ready(document)) = goal.documents.get(&id).cloned() else { return };
        let AbandonedRevision { digest, code, component, message, .. } = abandoned;
        let source = &document.metadata.name;
        let others = status_error(Code::RolledBack, source, &format!("`{component}` failed; {done}"));
        let mut components = all_components(&document, State::Failed, Some(&others));
        if let Some(failed) = components.iter_mut().find(|one| one.name == component) {
            failed.error = Some(status_error(code, &component, &message));
        }
        let error = status_error(code, source, &format!("{message}; {done}"));
        self.set_status(id, Some(device.clone()), State::Failed, Some(error), components, Some(digest), now);
    }
}

/// An engine or child device that does not answer is not a fault of the deployment.
fn is_the_deployments_own(code: Code) -> bool {
    matches!(code, Code::ComponentFailed | Code::ComponentTimeout | Code::ComponentExited)
}

/// Enough digits to tell two revisions apart.
fn short(digest: &Digest) -> &str {
    &digest.hex()[..12]
}

//! What is done when a component could not be applied: kept and tried again, gone back, or stopped, as the policy says.

use super::super::io::Level;
use super::super::records::GivenUp;
use super::super::statuses::{all_components, status_error};
use super::super::{Document, Goal, Machine};
use super::drift::policy;
use crate::codes::Code;
use margo::status::State;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::policy::OnFailure;
use margrave_core::time::Timestamp;

/// What went wrong.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) code: Code,
    pub(super) component: String,
    pub(super) message: String,
}

/// What is done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chosen {
    /// Nothing about the deployment itself: tried again whatever the policy is.
    Wait,
    KeepPartial,
    GoBack(Digest),
    /// Asked to go back, and there is nothing to go back to.
    NothingEarlier,
    Stop,
}

impl Chosen {
    /// The message of the report: what happened, what was chosen, what is done.
    pub(super) fn told(&self, failed: &Failed) -> String {
        let message = &failed.message;
        match self {
            Self::Wait => message.clone(),
            Self::KeepPartial => {
                format!("{message}; what was applied stays, the rest is tried again (failure policy `keep-partial`)")
            }
            Self::GoBack(good) => {
                format!("{message}; goes back to revision {} (failure policy `rollback`)", short(good))
            }
            Self::NothingEarlier => {
                format!(
                    "{message}; tried again, there is no earlier revision to go back to (failure policy `rollback`)"
                )
            }
            Self::Stop => format!("{message}; stopped until the manager changes something (failure policy `hold`)"),
        }
    }
}

impl Machine {
    /// The revision of a deployment that stands on the device as far as was told: it ran, whatever was done to it since.
    pub(super) fn installed<'a>(&'a self, goal: &'a Goal, id: DeploymentId) -> Option<&'a Digest> {
        if let Some((digest, _)) = goal.instead.get(&id) {
            return self.revisions.given_up(id).filter(|given_up| given_up.restored).map(|_| digest);
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

    /// Decides, and writes down what has to outlive a crash.
    pub(super) fn choose(&mut self, id: DeploymentId, digest: &Digest, failed: &Failed, now: Timestamp) -> Chosen {
        let Some(goal) = &self.accepted else { return Chosen::Wait };
        if !is_the_deployments_own(failed.code) || goal.listed(id) != Some(digest) {
            return Chosen::Wait;
        }
        match policy(goal, id).on_failure {
            OnFailure::KeepPartial => Chosen::KeepPartial,
            OnFailure::Hold => {
                self.work.retries.remove(&id);
                Chosen::Stop
            }
            OnFailure::Rollback => self.go_back(id, digest, failed, now),
        }
    }

    fn go_back(&mut self, id: DeploymentId, digest: &Digest, failed: &Failed, now: Timestamp) -> Chosen {
        let good = self.revisions.good(id).filter(|good| *good != digest).cloned();
        let document = good.as_ref().map(|good| self.document(id, good));
        let (Some(good), Some(Document::Ready(document)), Some(goal)) = (good, document, &mut self.accepted) else {
            return Chosen::NothingEarlier;
        };
        goal.instead.insert(id, (good.clone(), Document::Ready(document)));
        let Failed { code, component, message } = failed.clone();
        let given_up = GivenUp { digest: digest.clone(), code, component, message, restored: false, at: now };
        self.revisions.give_up(id, given_up);
        self.work.retries.remove(&id);
        Chosen::GoBack(good)
    }

    /// Stopped after a failure; derived from what was told, so that it holds after a restart too.
    pub(in super::super) fn is_stopped(&self, id: DeploymentId) -> bool {
        let Some(goal) = &self.accepted else { return false };
        let Some(entry) = self.statuses.get(&id) else { return false };
        let code = entry.status.error.as_ref().and_then(|error| Code::parse(&error.code));
        policy(goal, id).on_failure == OnFailure::Hold
            && entry.status.state == State::Failed
            && entry.digest.as_ref() == goal.listed(id)
            && code.is_some_and(is_the_deployments_own)
    }

    /// How many deployments are not tried again until the manager changes something.
    pub(in super::super) fn given_up(&self) -> usize {
        let Some(goal) = &self.accepted else { return 0 };
        let ids = goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id);
        let restored = |id| self.revisions.given_up(id).is_some_and(|given_up| given_up.restored);
        ids.filter(|id| self.is_stopped(*id) || (goal.instead.contains_key(id) && restored(*id))).count()
    }

    /// The earlier revision could not be brought up either.
    pub(super) fn going_back_failed(&mut self, id: DeploymentId, device: &DeviceId, failed: &Failed, now: Timestamp) {
        let Some(good) = self.revisions.good(id) else { return };
        let done = format!("going back to revision {} is tried again: {}", short(good), failed.message);
        self.tell_given_up(id, device, &done, now);
    }

    /// The earlier revision runs.
    pub(super) fn went_back(&mut self, id: DeploymentId, device: &DeviceId, now: Timestamp) {
        let Some(good) = self.revisions.good(id).cloned() else { return };
        if !self.revisions.given_up(id).is_some_and(|given_up| given_up.restored) {
            let message = format!("went back to revision {}, which runs", short(&good));
            self.log(Level::Warn, Some(Code::RolledBack), Some(id), message);
        }
        self.revisions.restored(id);
        let done = format!("went back to revision {}, which runs (failure policy `rollback`)", short(&good));
        self.tell_given_up(id, device, &done, now);
    }

    /// The revision the manager wants has failed, whatever runs in its place (ST-04, ST-06).
    fn tell_given_up(&mut self, id: DeploymentId, device: &DeviceId, done: &str, now: Timestamp) {
        let (Some(goal), Some(given_up)) = (&self.accepted, self.revisions.given_up(id).cloned()) else { return };
        let Some(Document::Ready(document)) = goal.documents.get(&id).cloned() else { return };
        let GivenUp { digest, code, component, message, .. } = given_up;
        let source = &document.metadata.name;
        let others = status_error(Code::RolledBack, source, &format!("`{component}` failed; {done}"));
        let mut components = all_components(&document, State::Failed, Some(&others));
        if let Some(failed) = components.iter_mut().find(|one| one.name == component) {
            failed.error = Some(status_error(code, &component, &message));
        }
        let error = status_error(code, source, &format!("{message}; {done}"));
        self.tell(id, Some(device.clone()), State::Failed, Some(error), components, Some(digest), now);
    }
}

/// The engine or the child that does not answer says nothing about the deployment.
fn is_the_deployments_own(code: Code) -> bool {
    matches!(code, Code::ComponentFailed | Code::ComponentTimeout | Code::ComponentExited)
}

/// Enough digits to tell two revisions apart.
fn short(digest: &Digest) -> &str {
    &digest.hex()[..12]
}

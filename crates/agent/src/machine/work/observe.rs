//! What the runtime says, as the planner understands it.

use super::super::Machine;
use super::super::io::{Observation, ObservationId, Run, SeenComponent, SeenDeployment};
use super::super::records::StatusEntry;
use super::super::report::Topic;
use super::super::statuses::{all_components, document_device, status_error};
use super::super::{Document, Goal};
use crate::codes::Code;
use margo::status::{ComponentStatus, State};
use margo::{DeploymentId, Digest};
use margrave_core::plan::{self, Observed, Seen, Step, Wanted};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::time::Duration;

/// While something is on its way up, looks come closer together.
const OBSERVE_STARTING: Duration = Duration::from_secs(1);

/// Applied from this revision and not stopped: there is nothing to do about it.
pub(super) fn is_as_wanted(seen: &SeenComponent, digest: &Digest) -> bool {
    seen.digest == *digest && seen.differs.is_empty() && matches!(seen.run, Run::Running | Run::Starting)
}

impl Machine {
    pub(in super::super) fn observed(
        &mut self,
        id: ObservationId,
        result: Result<Observation, String>,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        if let Ok(observation) = &result {
            // Counts also when the look itself is no longer wanted: it is said once.
            self.mind_the_engine(&observation.restarted);
        }
        if self.work.observing.take_if(|observing| *observing == id).is_none() {
            return;
        }
        match result {
            Ok(observation) => {
                self.clear_trouble(Topic::Runtime);
                self.tell_going_on();
                self.work.touched.retain(|_, touched| *touched > id.0);
                self.work.observation = Some((id, observation));
                self.take_in(now);
            }
            Err(message) => {
                // Not knowing is not a reason to change anything.
                self.work.observation = None;
                let due = now.plus(self.settings.retry.delay(0, rng));
                self.work.observe_due = due;
                self.warn(Code::RuntimeUnavailable, None, message.clone());
                self.tell_waiting(&message, now);
                self.note_trouble(Topic::Runtime, Code::RuntimeUnavailable, message, Some(due), now);
            }
        }
    }

    /// The manager sees what waits for the runtime and why. States and versions stay as they were told (ST-05).
    fn tell_waiting(&mut self, message: &str, now: Timestamp) {
        let Some(goal) = self.accepted.clone() else { return };
        let error = |source: &str| Some(status_error(Code::RuntimeUnavailable, source, &format!("waits: {message}")));
        for id in goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id) {
            let told = self.statuses.get(&id);
            let waits =
                told.is_none_or(|told| told.status.state == State::Pending || told.digest.as_ref() != goal.listed(id));
            if !waits || self.work.active.contains_key(&id) {
                continue;
            }
            match goal.documents.get(&id) {
                Some(Document::Ready(document)) if told.is_none() => {
                    let name = &document.metadata.name;
                    let components = all_components(document, State::Pending, None);
                    let digest = goal.listed(id).cloned();
                    self.tell(id, document_device(document), State::Pending, error(name), components, digest, now);
                }
                Some(Document::Ready(document)) => {
                    self.statuses.annotate(id, error(&document.metadata.name));
                }
                _ => {}
            }
        }
        let leaving = |(id, entry): &(&DeploymentId, &StatusEntry)| {
            goal.listed(**id).is_none() && !matches!(entry.status.state, State::Removed | State::Failed)
        };
        let leaving: Vec<_> = self.statuses.entries().filter(leaving).map(|(id, _)| *id).collect();
        for id in leaving.into_iter().filter(|id| !self.work.active.contains_key(id)) {
            self.statuses.annotate(id, error(&id.to_string()));
        }
    }

    /// It answers again: nothing waits for it any more. What failed says so until it is tried again.
    fn tell_going_on(&mut self) {
        let waited = |(_, entry): &(&DeploymentId, &StatusEntry)| {
            let code = entry.status.error.as_ref().map(|error| error.code.as_str());
            code == Some(Code::RuntimeUnavailable.number()) && entry.status.state != State::Failed
        };
        let waited: Vec<_> = self.statuses.entries().filter(waited).map(|(id, _)| *id).collect();
        for id in waited {
            self.statuses.annotate(id, None);
        }
    }

    /// Steps that may be begun by what was last seen. Nothing without a goal and a look at the runtime.
    pub(super) fn plan(&self) -> Vec<Step> {
        let (Some(goal), Some((_, observation))) = (&self.accepted, &self.work.observation) else { return Vec::new() };
        if !self.devices.are_known() {
            return Vec::new();
        }
        let mut seen = self.seen(goal, observation);
        for (id, seen) in &mut seen {
            if let Seen::Drifted(digest) = seen
                && !self.corrects(goal, *id)
            {
                *seen = Seen::Running(digest.clone());
            }
        }
        let mut steps = plan::plan(&wanted(goal), &seen);
        steps.retain(|step| !self.work.touched.contains_key(&step.deployment));
        steps
    }

    fn seen(&self, goal: &Goal, observation: &Observation) -> Observed {
        let seen = observation.deployments.iter().map(|(id, seen)| (*id, self.seen_one(goal, *id, seen)));
        // Where nothing can run, nothing was taken away: what was told of it is to be told anew, whatever the policy is.
        let nothing_runs = self.nothing_runs();
        // What ran and is not there at all was taken away by a hand, or lost with the engine's disk.
        let gone = goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id).filter_map(|id| {
            let wanted = goal.wanted(id).filter(|wanted| self.installed(goal, id) == Some(*wanted))?;
            let gone = !nothing_runs && !observation.deployments.contains_key(&id);
            gone.then(|| (id, Seen::Drifted(wanted.clone())))
        });
        seen.chain(gone).collect()
    }

    /// One deployment as the planner understands it.
    fn seen_one(&self, goal: &Goal, id: DeploymentId, seen: &SeenDeployment) -> Seen {
        let wanted = goal.wanted(id);
        let installed = self.installed(goal, id);
        let SeenDeployment::Known { components, device } = seen else {
            // It ran as wanted when it was last seen, and nobody can tell now: leave it alone (invariant 9).
            return match (installed, wanted) {
                (Some(digest), Some(wanted)) if digest == wanted => Seen::Running(digest.clone()),
                _ => Seen::Unknown,
            };
        };
        let Some(wanted) = wanted else { return Seen::Unknown };
        let Some(Document::Ready(document)) = goal.document(id) else {
            let all = components.values().all(|seen| is_as_wanted(seen, wanted));
            // Without the document nobody knows what else belongs to it: only what was installed once is known to be whole.
            return if all && !components.is_empty() && installed == Some(wanted) {
                Seen::Running(wanted.clone())
            } else {
                Seen::Unknown
            };
        };
        let names = &document.spec.deployment_profile.components;
        let good = names
            .iter()
            .filter(|component| components.get(&component.name).is_some_and(|seen| is_as_wanted(seen, wanted)));
        let complete = good.count() == names.len() && components.len() == names.len();
        // GW-04: a directed deployment is where it was sent; an autonomous one is on a child that still exists.
        let moved = super::super::statuses::document_device(document)
            .map_or_else(|| self.devices.capabilities(device).is_none(), |target| target != *device);
        let began = components.values().any(|seen| seen.digest == *wanted);
        let other = components.values().find(|seen| seen.digest != *wanted).map(|seen| seen.digest.clone());
        match other {
            _ if complete && !moved => Seen::Running(wanted.clone()),
            _ if installed == Some(wanted) && !moved => Seen::Drifted(wanted.clone()),
            Some(other) if !began => Seen::Running(other),
            _ => Seen::Partial(wanted.clone()),
        }
    }

    /// Turns what was seen into reports, and into the reconciled record when all of it is as wanted.
    fn take_in(&mut self, now: Timestamp) {
        let (Some(goal), Some((_, observation))) = (self.accepted.clone(), self.work.observation.clone()) else {
            return;
        };
        let seen = self.seen(&goal, &observation);
        let mut all_run = true;
        for deployment in &goal.manifest.deployments {
            let id = deployment.deployment_id;
            if self.work.active.contains_key(&id) || self.work.touched.contains_key(&id) {
                all_run = false;
                continue;
            }
            match (seen.get(&id), observation.deployments.get(&id)) {
                (Some(Seen::Running(digest)), Some(found)) if goal.wanted(id) == Some(digest) => {
                    all_run &= self.runs(&goal, id, digest, found, now);
                }
                (Some(Seen::Drifted(_)), found) => all_run &= self.drifted(&goal, id, found, now),
                _ => all_run = false,
            }
        }
        self.settle_boot(&goal);
        let gone = self.report_gone(&goal, &observation, now);
        if all_run && gone && self.work.active.is_empty() {
            self.reconcile(now);
        }
    }

    /// A deployment that is complete: installed once every component runs. Says whether it is.
    fn runs(&mut self, goal: &Goal, id: DeploymentId, digest: &Digest, found: &SeenDeployment, now: Timestamp) -> bool {
        let Some(Document::Ready(document)) = goal.document(id) else { return true };
        let SeenDeployment::Known { components: seen, device } = found else { return true };
        let mut components = all_components(document, State::Installed, None);
        let mut starting = false;
        for component in &mut components {
            if seen.get(&component.name).is_some_and(|seen| seen.run == Run::Starting) {
                component.state = State::Installing;
                starting = true;
            }
        }
        if starting {
            self.work.observe_due = self.work.observe_due.min(now.plus(OBSERVE_STARTING));
        } else {
            self.work.retries.remove(&id);
            self.work.restart.remove(&id);
            self.work.noticed.entry(id).and_modify(|noticed| noticed.over = true);
        }
        if goal.instead.contains_key(&id) {
            if !starting {
                self.went_back(id, device, now);
            }
            return false;
        }
        if !starting {
            self.revisions.ran(id, digest);
        }
        self.tell(id, Some(device.clone()), State::Installed, None, components, Some(digest.clone()), now);
        !starting
    }

    /// ST-10: what is neither wanted nor there any more is removed. Says whether nothing is left to remove.
    fn report_gone(&mut self, goal: &Goal, observation: &Observation, now: Timestamp) -> bool {
        let wanted = wanted(goal);
        let gone: Vec<_> = self
            .statuses
            .entries()
            .filter(|(id, entry)| {
                !wanted.contains_key(*id)
                    && !observation.deployments.contains_key(*id)
                    && !self.work.active.contains_key(*id)
                    && !self.work.touched.contains_key(*id)
                    && entry.status.state != State::Removed
            })
            .map(|(id, entry)| (*id, entry.status.clone()))
            .collect();
        for (id, status) in gone {
            let name = |component: &ComponentStatus| component.name.clone();
            let components = status.components.iter().map(name);
            let components =
                components.map(|name| ComponentStatus { name, state: State::Removed, error: None }).collect();
            self.work.retries.remove(&id);
            self.work.noticed.remove(&id);
            self.revisions.forget(id);
            self.tell(id, status.device_id, State::Removed, None, components, None, now);
        }
        observation.deployments.keys().all(|id| wanted.contains_key(id))
    }
}

fn wanted(goal: &Goal) -> Wanted {
    let ids = goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id);
    ids.filter_map(|id| goal.wanted(id).map(|digest| (id, digest.clone()))).collect()
}

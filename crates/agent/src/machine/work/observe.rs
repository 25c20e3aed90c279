//! Converts observations of the runtime for the planner.

use super::super::Machine;
use super::super::io::{Observation, ObservationId, ObservedComponent, ObservedDeployment, Run};
use super::super::records::StatusEntry;
use super::super::report::Topic;
use super::super::statuses::{all_components, document_device, status_error};
use super::super::{Document, Goal};
use crate::codes::Code;
use margo::status::{ComponentStatus, State};
use margo::{DeploymentId, Digest};
use margrave_core::plan::{self, DesiredDigests, Observed, ObservedState, Step};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::time::Duration;

/// Shorter observation period while something starts.
const OBSERVE_STARTING: Duration = Duration::from_secs(1);

/// Applied from this revision and not stopped: nothing to do.
pub(super) fn is_as_wanted(seen: &ObservedComponent, digest: &Digest) -> bool {
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
            // Processed even if the observation is outdated: it is reported only once.
            self.handle_engine_restart(&observation.restarted);
        }
        if self.work.observing.take_if(|observing| *observing == id).is_none() {
            return;
        }
        match result {
            Ok(observation) => {
                self.clear_trouble(Topic::Runtime);
                self.clear_waiting();
                self.work.touched.retain(|_, touched| *touched > id.0);
                self.work.observation = Some((id, observation));
                self.process_observation(now);
            }
            Err(message) => {
                // An unknown state is no reason for a change.
                self.work.observation = None;
                let due = now.plus(self.settings.retry.delay(0, rng));
                self.work.observe_due = due;
                self.warn(Code::RuntimeUnavailable, None, message.clone());
                self.report_waiting(&message, now);
                self.note_trouble(Topic::Runtime, Code::RuntimeUnavailable, message, Some(due), now);
            }
        }
    }

    /// Reports what waits for the runtime and why. Reported states and versions stay (ST-05).
    fn report_waiting(&mut self, message: &str, now: Timestamp) {
        let Some(goal) = self.accepted.clone() else { return };
        let error = |source: &str| Some(status_error(Code::RuntimeUnavailable, source, &format!("waiting: {message}")));
        for id in goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id) {
            let last_report = self.statuses.get(&id);
            let waits = last_report.is_none_or(|last_report| {
                last_report.status.state == State::Pending || last_report.digest.as_ref() != goal.listed(id)
            });
            if !waits || self.work.active.contains_key(&id) {
                continue;
            }
            match goal.documents.get(&id) {
                Some(Document::Ready(document)) if last_report.is_none() => {
                    let name = &document.metadata.name;
                    let components = all_components(document, State::Pending, None);
                    let digest = goal.listed(id).cloned();
                    self.set_status(
                        id,
                        document_device(document),
                        State::Pending,
                        error(name),
                        components,
                        digest,
                        now,
                    );
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

    /// The runtime answers again: clears the waiting errors. Failures stay until they are retried.
    fn clear_waiting(&mut self) {
        let waited = |(_, entry): &(&DeploymentId, &StatusEntry)| {
            let code = entry.status.error.as_ref().map(|error| error.code.as_str());
            code == Some(Code::RuntimeUnavailable.number()) && entry.status.state != State::Failed
        };
        let waited: Vec<_> = self.statuses.entries().filter(waited).map(|(id, _)| *id).collect();
        for id in waited {
            self.statuses.annotate(id, None);
        }
    }

    /// Steps that may start after the last observation. None without a goal and an observation.
    pub(super) fn plan(&self) -> Vec<Step> {
        let (Some(goal), Some((_, observation))) = (&self.accepted, &self.work.observation) else { return Vec::new() };
        if !self.devices.are_known() {
            return Vec::new();
        }
        let mut seen = self.seen(goal, observation);
        for (id, seen) in &mut seen {
            if let ObservedState::Drifted(digest) = seen
                && !self.corrects(goal, *id)
            {
                *seen = ObservedState::Running(digest.clone());
            }
        }
        let mut steps = plan::plan(&desired(goal), &seen);
        steps.retain(|step| !self.work.touched.contains_key(&step.deployment));
        steps
    }

    fn seen(&self, goal: &Goal, observation: &Observation) -> Observed {
        let seen = observation.deployments.iter().map(|(id, seen)| (*id, self.seen_one(goal, *id, seen)));
        // Without a runtime nothing was removed: the state is reported again, independent of the policy.
        let has_no_runtime = self.has_no_runtime();
        // A running deployment that disappeared was removed manually, or lost with the disk of the engine.
        let gone = goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id).filter_map(|id| {
            let desired = goal.desired(id).filter(|desired| self.installed(goal, id) == Some(*desired))?;
            let gone = !has_no_runtime && !observation.deployments.contains_key(&id);
            gone.then(|| (id, ObservedState::Drifted(desired.clone())))
        });
        seen.chain(gone).collect()
    }

    /// One deployment for the planner.
    fn seen_one(&self, goal: &Goal, id: DeploymentId, seen: &ObservedDeployment) -> ObservedState {
        let desired = goal.desired(id);
        let installed = self.installed(goal, id);
        let ObservedDeployment::Known { components, device } = seen else {
            // It ran as desired when last observed, and its state is unknown now: leave it alone (invariant 9).
            return match (installed, desired) {
                (Some(digest), Some(desired)) if digest == desired => ObservedState::Running(digest.clone()),
                _ => ObservedState::Unknown,
            };
        };
        let Some(desired) = desired else { return ObservedState::Unknown };
        let Some(Document::Ready(document)) = goal.document(id) else {
            let all = components.values().all(|seen| is_as_wanted(seen, desired));
            // Without the document its components are unknown: only an installed deployment is known to be complete.
            return if all && !components.is_empty() && installed == Some(desired) {
                ObservedState::Running(desired.clone())
            } else {
                ObservedState::Unknown
            };
        };
        let names = &document.spec.deployment_profile.components;
        let good = names
            .iter()
            .filter(|component| components.get(&component.name).is_some_and(|seen| is_as_wanted(seen, desired)));
        let complete = good.count() == names.len() && components.len() == names.len();
        // GW-04: a directed deployment is where it was sent; an autonomous one is on a child that still exists.
        let moved = super::super::statuses::document_device(document)
            .map_or_else(|| self.devices.capabilities(device).is_none(), |target| target != *device);
        let began = components.values().any(|seen| seen.digest == *desired);
        let other = components.values().find(|seen| seen.digest != *desired).map(|seen| seen.digest.clone());
        match other {
            _ if complete && !moved => ObservedState::Running(desired.clone()),
            _ if installed == Some(desired) && !moved => ObservedState::Drifted(desired.clone()),
            Some(other) if !began => ObservedState::Running(other),
            _ => ObservedState::Partial(desired.clone()),
        }
    }

    /// Turns an observation into reports, and into the reconciled record if everything is as desired.
    fn process_observation(&mut self, now: Timestamp) {
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
                (Some(ObservedState::Running(digest)), Some(found)) if goal.desired(id) == Some(digest) => {
                    all_run &= self.runs(&goal, id, digest, found, now);
                }
                (Some(ObservedState::Drifted(_)), found) => all_run &= self.drifted(&goal, id, found, now),
                _ => all_run = false,
            }
        }
        self.settle_boot(&goal);
        let gone = self.report_removed(&goal, &observation, now);
        if all_run && gone && self.work.active.is_empty() {
            self.reconcile(now);
        }
    }

    /// A complete deployment is installed once every component runs. Returns whether it is.
    fn runs(
        &mut self,
        goal: &Goal,
        id: DeploymentId,
        digest: &Digest,
        found: &ObservedDeployment,
        now: Timestamp,
    ) -> bool {
        let Some(Document::Ready(document)) = goal.document(id) else { return true };
        let ObservedDeployment::Known { components: seen, device } = found else { return true };
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
                self.rollback_finished(id, device, now);
            }
            return false;
        }
        if !starting {
            self.revisions.ran(id, digest);
        }
        self.set_status(id, Some(device.clone()), State::Installed, None, components, Some(digest.clone()), now);
        !starting
    }

    /// ST-10: reports undesired deployments that are gone as removed. Returns whether nothing is left to remove.
    fn report_removed(&mut self, goal: &Goal, observation: &Observation, now: Timestamp) -> bool {
        let desired = desired(goal);
        let gone: Vec<_> = self
            .statuses
            .entries()
            .filter(|(id, entry)| {
                !desired.contains_key(*id)
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
            self.set_status(id, status.device_id, State::Removed, None, components, None, now);
        }
        observation.deployments.keys().all(|id| desired.contains_key(id))
    }
}

fn desired(goal: &Goal) -> DesiredDigests {
    let ids = goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id);
    ids.filter_map(|id| goal.desired(id).map(|digest| (id, digest.clone()))).collect()
}

//! Work items of one deployment, one after the other: issued, finished, failed, retried.

use super::super::Machine;
use super::super::io::{
    ApplyWork, Effect, FailureKind, Level, ObservedDeployment, RemoveWork, WorkFailure, WorkId, WorkOutcome,
};
use super::super::statuses::status_error;
use super::failure::{Failed, FailureAction};
use super::{Active, Applying, Item, Retry, Stopping, drift, observe};
use crate::codes::Code;
use margo::status::State;
use margo::{DeploymentId, DeviceId};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

impl Machine {
    /// Issues the current item to the runtime and reports it.
    pub(super) fn issue(&mut self, id: DeploymentId, now: Timestamp) {
        let work = WorkId(self.id());
        let default_timeout = self.settings.component_timeout;
        let Some(active) = self.work.active.get_mut(&id) else { return };
        active.work = work;
        let remove = |device: &DeviceId, component: Option<String>| {
            Effect::Remove(RemoveWork { work, deployment: id, device: device.clone(), component })
        };
        let mut timeout = default_timeout;
        let effect = match (&active.item, &active.goal) {
            (Item::Apply(index), Some(goal)) => {
                let component = &goal.document.spec.deployment_profile.components[*index];
                // AD-03; components without a timeout get the agent's default.
                timeout = component
                    .properties
                    .timeout
                    .map_or(default_timeout, |timeout| Duration::from_secs(timeout.seconds));
                active.components[*index].state = State::Installing;
                active.components[*index].error = None;
                if goal.repair {
                    drift::mark_repair(self.work.noticed.get(&id), &mut active.components[*index]);
                }
                Effect::Apply(ApplyWork {
                    work,
                    deployment: id,
                    device: active.device.clone(),
                    digest: goal.digest.clone(),
                    document: Arc::clone(&goal.document),
                    component: *index,
                })
            }
            (Item::RemoveComponent(name), _) => remove(&active.device, Some(name.clone())),
            (Item::RemoveAll(device), _) => remove(device, None),
            (Item::Apply(_), None) => return,
        };
        active.deadline = Some(now.plus(timeout));
        let report = active.goal.clone().map(|goal| (goal, active.device.clone(), active.components.clone()));
        self.effects.push(effect);
        // A deployment that rolls back has failed, and stays failed until the manifest changes.
        if let Some((goal, device, components)) = report.filter(|(goal, ..)| !goal.back) {
            let error = goal.repair.then(|| self.repair_error(id, &goal.document)).flatten();
            self.set_status(id, Some(device), State::Installing, error, components, Some(goal.digest), now);
        }
    }

    pub(in super::super) fn work_finished(
        &mut self,
        work: WorkId,
        outcome: WorkOutcome,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        let Some(id) = self.work.active.iter().find(|(_, active)| active.work == work).map(|(id, _)| *id) else {
            return;
        };
        let Some(active) = self.work.active.get_mut(&id) else { return };
        match (outcome, active.stopping) {
            // The result is irrelevant: the agent plans again.
            (_, Some(Stopping::Outdated)) => self.finish(id, now),
            (WorkOutcome::Cancelled, None) => {
                self.retry_later(id, now, rng);
                self.finish(id, now);
            }
            (WorkOutcome::Done, _) => self.item_done(id, now, rng),
            (WorkOutcome::Cancelled, Some(Stopping::TimedOut)) => {
                let seconds = active.deadline.map_or(0, |_| self.timeout_seconds(id));
                let message = format!("not finished after {seconds} s");
                self.item_failed(id, Code::ComponentTimeout, &message, now, rng);
            }
            (WorkOutcome::Failed(failure), None)
                if failure.kind == FailureKind::InTheWay && remove_blocking_first(active) =>
            {
                self.log(Level::Info, None, Some(id), format!("{}; removing it first", failure.message));
                self.issue(id, now);
            }
            (WorkOutcome::Failed(failure), _) => {
                let code = failure_code(&failure, active.goal.is_none());
                self.item_failed(id, code, &failure.message, now, rng);
            }
        }
    }

    fn timeout_seconds(&self, id: DeploymentId) -> u64 {
        let named = self.work.active.get(&id).and_then(|active| match (&active.item, &active.goal) {
            (Item::Apply(index), Some(goal)) => {
                goal.document.spec.deployment_profile.components[*index].properties.timeout
            }
            _ => None,
        });
        named.map_or(self.settings.component_timeout.as_secs(), |timeout| timeout.seconds)
    }

    fn item_done(&mut self, id: DeploymentId, now: Timestamp, rng: &mut dyn RngCore) {
        let Some(active) = self.work.active.get_mut(&id) else { return };
        active.stopping = None;
        if let (Item::Apply(index), Some(goal)) = (&active.item, &active.goal) {
            active.components[*index].error = None;
            // AD-02: without `wait` it is only started; the next observation shows when it runs.
            if goal.document.spec.deployment_profile.components[*index].properties.waits() {
                active.components[*index].state = State::Installed;
            }
        }
        // A maintenance hold started meanwhile: the rest waits.
        let held = self.technician.is_some() && !active.queue.is_empty();
        if let Some(next) = active.queue.pop_front().filter(|_| !held) {
            active.item = next;
            self.issue(id, now);
            return;
        }
        let done = active.goal.clone().filter(|goal| !goal.back);
        let done = done.map(|goal| (goal, active.device.clone(), active.components.clone()));
        if let Some((goal, device, components)) = done {
            let error = held.then(|| self.hold_error(&goal.document.metadata.name)).flatten();
            self.set_status(id, Some(device), State::Installed, error, components, Some(goal.digest), now);
        }
        // Cleared by the observation that confirms it; prevents a tight loop if the runtime wrongly reports success.
        self.retry_later(id, now, rng);
        self.finish(id, now);
    }

    fn item_failed(&mut self, id: DeploymentId, code: Code, message: &str, now: Timestamp, rng: &mut dyn RngCore) {
        let Some(active) = self.work.active.get_mut(&id) else { return };
        let gateway = code.is_gateway().then(|| self.devices.own().cloned()).flatten();
        let source = |otherwise: &str| gateway.as_ref().map_or(otherwise, DeviceId::as_str).to_owned();
        let name = active.goal.as_ref().map_or_else(|| id.to_string(), |goal| goal.document.metadata.name.clone());
        let source_name = source(&name);
        match &active.item {
            Item::Apply(index) => {
                let component = &mut active.components[*index];
                component.state = State::Failed;
                component.error = Some(status_error(code, &source(&component.name), message));
            }
            Item::RemoveComponent(_) | Item::RemoveAll(_) => {
                for component in &mut active.components {
                    component.state = State::Failed;
                    component.error = Some(status_error(code, &source(&component.name), message));
                }
            }
        }
        let failed = Failed {
            code,
            message: message.to_owned(),
            component: match (&active.item, &active.goal) {
                (Item::Apply(index), Some(goal)) => {
                    goal.document.spec.deployment_profile.components[*index].name.clone()
                }
                (Item::RemoveComponent(name), _) => name.clone(),
                _ => String::new(),
            },
        };
        let (goal, device, components) = (active.goal.clone(), active.device.clone(), active.components.clone());
        self.warn(code, Some(id), message.to_owned());
        if goal.as_ref().is_some_and(|goal| goal.back) {
            self.rollback_failed(id, &device, &failed, now);
            self.retry_later(id, now, rng);
            return self.finish(id, now);
        }
        let digest = goal.as_ref().map(|goal| goal.digest.clone());
        let chosen = goal.map(|goal| self.choose(id, &goal.digest, &failed, now));
        if !matches!(chosen, Some(FailureAction::Stop | FailureAction::RollBack(_))) {
            self.retry_later(id, now, rng);
        }
        let message = chosen.map_or_else(|| message.to_owned(), |chosen| chosen.report_message(&failed));
        let error = status_error(code, &source_name, &message);
        self.set_status(id, Some(device), State::Failed, Some(error), components, digest, now);
        self.finish(id, now);
    }

    fn finish(&mut self, id: DeploymentId, now: Timestamp) {
        self.work.active.remove(&id);
        let touched = self.id();
        self.work.touched.insert(id, touched);
        self.work.observe_soon(now);
    }

    /// DS-26 leaves retries open: failures are retried with growing delays while the manifest is unchanged.
    pub(super) fn retry_later(&mut self, id: DeploymentId, now: Timestamp, rng: &mut dyn RngCore) {
        let attempts = self.work.retries.get(&id).map_or(0, |retry| retry.attempts);
        let due = now.plus(self.settings.retry.delay(attempts, rng));
        self.work.retries.insert(id, Retry { attempts: attempts.saturating_add(1), due });
    }
}

fn failure_code(failure: &WorkFailure, removal: bool) -> Code {
    match (failure.kind, removal) {
        (FailureKind::Unreachable, _) => Code::ChildUnreachable,
        (FailureKind::Unavailable, _) => Code::RuntimeUnavailable,
        (_, true) => Code::RemoveFailed,
        (FailureKind::Exited, false) => Code::ComponentExited,
        (FailureKind::Late, false) => Code::ComponentTimeout,
        (FailureKind::Failed | FailureKind::InTheWay, false) => Code::ComponentFailed,
    }
}

/// Components that left the deployment are removed last, so that they run until the rest is ready. If one blocks a new
/// component, it is removed first and the new one retried. Returns whether there was one.
fn remove_blocking_first(active: &mut Active) -> bool {
    let (leaving, rest): (VecDeque<Item>, VecDeque<Item>) =
        active.queue.drain(..).partition(|item| matches!(item, Item::RemoveComponent(_)));
    active.queue = leaving;
    let next = active.queue.pop_front();
    let found = next.is_some();
    if let Some(next) = next {
        let waiting = std::mem::replace(&mut active.item, next);
        if let Item::Apply(index) = waiting {
            active.components[index].state = State::Pending;
        }
        active.queue.push_back(waiting);
    }
    active.queue.extend(rest);
    found
}

/// The work items in order, and the components that already run as desired.
pub(super) fn items_for(
    goal: &Applying,
    device: &DeviceId,
    seen: Option<&ObservedDeployment>,
) -> (VecDeque<Item>, Vec<usize>) {
    let desired = &goal.document.spec.deployment_profile.components;
    let all = || (0..desired.len()).map(Item::Apply);
    match seen {
        // It is on another device: remove it there first.
        Some(seen) if seen.device() != device => {
            let items = [Item::RemoveAll(seen.device().clone())].into_iter().chain(all());
            (items.collect(), Vec::new())
        }
        Some(ObservedDeployment::Known { components, .. }) => {
            let mut healthy = Vec::new();
            let mut items = VecDeque::new();
            for (index, component) in desired.iter().enumerate() {
                match components.get(&component.name) {
                    Some(seen) if observe::is_as_wanted(seen, &goal.digest) => healthy.push(index),
                    _ => items.push_back(Item::Apply(index)),
                }
            }
            let stale = components.keys().filter(|name| !desired.iter().any(|component| component.name == **name));
            items.extend(stale.cloned().map(Item::RemoveComponent));
            (items, healthy)
        }
        Some(ObservedDeployment::Unknown { .. }) | None => (all().collect(), Vec::new()),
    }
}

//! Observe, plan, apply component by component, evaluate the outcome (DS-24 step 6, AD-01 to AD-03, ST-10).

pub(super) mod drift;
mod failure;
mod items;
mod observe;

use super::io::{Effect, Level, Observation, ObservationId, ObservedDeployment, Record, WorkId, WriteId};
use super::placement::Obstacle;
use super::records::Reconciled;
use super::statuses::{all_components, document_device, status_error};
use super::{Document, Machine};
use margo::deployment::ApplicationDeployment;
use margo::status::{ComponentStatus, State};
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::plan::{Action, Step};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Deployments worked on at the same time: one slow start must not block the rest, and a small device must not start
/// everything at once after a cold boot.
const PARALLEL_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Work {
    observation: Option<(ObservationId, Observation)>,
    observing: Option<ObservationId>,
    observe_due: Timestamp,
    active: HashMap<DeploymentId, Active>,
    /// The newest observation when a deployment was last changed: only later observations count.
    touched: HashMap<DeploymentId, u64>,
    retries: HashMap<DeploymentId, Retry>,
    /// The write of a reconciled record in flight.
    reconciling: Option<(WriteId, Reconciled)>,
    reconcile_due: Timestamp,
    /// Steps the last plan skipped for a reason other than a failure.
    unfinished: usize,
    /// Ran before the reboot, and were not observed to run since.
    pub(super) restart: HashSet<DeploymentId>,
    pub(super) noticed: HashMap<DeploymentId, drift::DriftNotice>,
}

#[derive(Debug, Clone, Copy)]
struct Retry {
    attempts: u32,
    due: Timestamp,
}

/// One deployment being worked on.
#[derive(Debug)]
struct Active {
    work: WorkId,
    /// The target of an apply; `None` for a removal.
    goal: Option<Applying>,
    item: Item,
    queue: VecDeque<Item>,
    deadline: Option<Timestamp>,
    stopping: Option<Stopping>,
    components: Vec<ComponentStatus>,
    device: DeviceId,
}

#[derive(Debug, Clone)]
struct Applying {
    digest: Digest,
    document: Arc<ApplicationDeployment>,
    /// An earlier revision, because the one in the manifest was abandoned.
    back: bool,
    /// A repair of drift.
    repair: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    /// Index of the component.
    Apply(usize),
    RemoveComponent(String),
    RemoveAll(DeviceId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    /// A newer manifest names something else.
    Outdated,
    TimedOut,
}

impl Work {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            observation: None,
            observing: None,
            observe_due: now,
            active: HashMap::new(),
            touched: HashMap::new(),
            retries: HashMap::new(),
            reconciling: None,
            reconcile_due: now,
            unfinished: 0,
            restart: HashSet::new(),
            noticed: HashMap::new(),
        }
    }
    pub(super) fn observe_soon(&mut self, now: Timestamp) {
        self.observe_due = self.observe_due.min(now);
    }
    /// After a new goal, earlier observations do not count.
    pub(super) fn discard_observation(&mut self, now: Timestamp) {
        self.observation = None;
        self.observing = None;
        self.observe_soon(now);
    }
    pub(super) fn forget_retries(&mut self) {
        self.retries.clear();
    }
    pub(super) fn is_active(&self, id: DeploymentId) -> bool {
        self.active.contains_key(&id)
    }
    /// Number of deployments on a device: an autonomous placement selects the device with the fewest.
    pub(super) fn load(&self, device: &DeviceId) -> usize {
        let seen = self.observation.iter().flat_map(|(_, seen)| seen.deployments.values());
        let active = self.active.values().filter(|active| active.goal.is_some() && active.device == *device);
        seen.filter(|seen| seen.device() == device).count() + active.count()
    }
    pub(super) fn is_quiet(&self) -> bool {
        self.active.is_empty()
            && self.observing.is_none()
            && self.reconciling.is_none()
            && self.observation.is_some()
            && self.touched.is_empty()
    }
    /// `abandoned`: the number that are not retried until the manifest changes.
    pub(super) fn only_failures_left(&self, abandoned: usize) -> bool {
        (!self.retries.is_empty() || abandoned > 0) && self.unfinished == 0
    }
    /// Only future times: due items are handled already, or wait for something other than time.
    pub(super) fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let observe = self.observing.is_none().then_some(self.observe_due);
        let deadlines =
            self.active.values().filter(|active| active.stopping.is_none()).filter_map(|active| active.deadline);
        let retries = self.retries.iter().filter(|(id, _)| !self.active.contains_key(*id)).map(|(_, retry)| retry.due);
        deadlines.chain(retries).chain(observe).filter(|due| *due > now).min()
    }
    /// The last observation; `None` before the first.
    pub(super) fn seen(&self) -> Option<&Observation> {
        self.observation.as_ref().map(|(_, seen)| seen)
    }
    pub(super) fn retry_due(&self, id: DeploymentId) -> Option<Timestamp> {
        self.retries.get(&id).map(|retry| retry.due)
    }
    /// The current work on a deployment, as text.
    pub(super) fn doing(&self, id: DeploymentId) -> Option<String> {
        let active = self.active.get(&id)?;
        Some(match (&active.item, &active.goal) {
            (Item::Apply(index), Some(goal)) => {
                format!("component `{}` to be applied", goal.document.spec.deployment_profile.components[*index].name)
            }
            (Item::RemoveComponent(name), _) => format!("component `{name}` to be removed"),
            (Item::RemoveAll(_) | Item::Apply(_), _) => "its removal".to_owned(),
        })
    }
    pub(super) fn shift_back(&mut self, back: Duration) {
        self.observe_due = self.observe_due.minus(back);
        self.reconcile_due = self.reconcile_due.minus(back);
        self.retries.values_mut().for_each(|retry| retry.due = retry.due.minus(back));
        for active in self.active.values_mut() {
            active.deadline = active.deadline.map(|deadline| deadline.minus(back));
        }
    }
    pub(super) fn shift_deadlines(&mut self, forward: Duration) {
        for active in self.active.values_mut() {
            active.deadline = active.deadline.map(|deadline| deadline.plus(forward));
        }
    }
    pub(super) fn reconciled_persisted(
        &mut self,
        write: WriteId,
        ok: bool,
        reconciled: &mut Option<Reconciled>,
        retry_at: Timestamp,
    ) {
        let Some((_, record)) = self.reconciling.take_if(|(id, _)| *id == write) else { return };
        if ok {
            *reconciled = Some(record);
        } else {
            self.reconcile_due = retry_at;
            self.observe_due = self.observe_due.min(retry_at);
        }
    }
}

impl Machine {
    /// Observes the runtime when due, stops late work, starts planned work.
    pub(super) fn advance_work(&mut self, now: Timestamp, rng: &mut dyn RngCore) {
        let late: Vec<_> =
            self.work.active.iter().filter(|(_, active)| is_late(active, now)).map(|(id, _)| *id).collect();
        for id in late {
            self.stop(id, Stopping::TimedOut);
        }
        self.begin_steps(now, rng);
        if self.accepted.is_some() && self.work.observing.is_none() && self.work.observe_due <= now {
            let observation = ObservationId(self.id());
            self.work.observing = Some(observation);
            self.work.observe_due = now.plus(self.settings.observe_period);
            self.effects.push(Effect::Observe(observation));
        }
    }

    fn begin_steps(&mut self, now: Timestamp, rng: &mut dyn RngCore) {
        let steps = self.plan();
        self.work.unfinished = 0;
        if self.technician.is_some() {
            self.work.unfinished = steps.len();
            return self.report_held(&steps, now);
        }
        for step in steps {
            let id = step.deployment;
            if step.digest.is_some() && self.is_stopped(id) {
                continue;
            }
            let waits = self.work.retries.get(&id).is_some_and(|retry| retry.due > now);
            if waits {
                continue;
            }
            let removing = self.work.active.values().any(|active| active.goal.is_none());
            // Removals free space and names, so the rest waits for them.
            let must_wait = step.action != Action::Remove && removing;
            if self.work.active.contains_key(&id) || self.work.active.len() >= PARALLEL_MAX || must_wait {
                self.work.unfinished += 1;
                continue;
            }
            self.begin(&step, now, rng);
            if self.work.active.contains_key(&id) {
                self.work.unfinished += 1;
            }
        }
    }

    fn begin(&mut self, step: &Step, now: Timestamp, rng: &mut dyn RngCore) {
        let id = step.deployment;
        let Some(digest) = step.digest.clone() else { return self.begin_removal(step, now) };
        let goal = self.accepted.as_ref();
        let document = goal.and_then(|goal| goal.document(id)).cloned();
        let back = goal.is_some_and(|goal| goal.instead.contains_key(&id));
        let repair =
            step.action == Action::Repair && self.work.noticed.get(&id).is_some_and(drift::DriftNotice::is_repair);
        match document {
            Some(Document::Ready(document)) => {
                let seen = self.work.observation.as_ref().and_then(|(_, seen)| seen.deployments.get(&id)).cloned();
                match self.place(&document, seen.as_ref().map(ObservedDeployment::device)) {
                    Ok(device) => {
                        self.begin_apply(step, Applying { digest, document, back, repair }, device, seen, now);
                    }
                    Err(obstacle) => self.obstructed(id, &obstacle, &document, digest, now, rng),
                }
            }
            Some(Document::Unusable { code, message }) => {
                let error = status_error(code, &id.to_string(), &message);
                self.warn(code, Some(id), message);
                self.set_status(id, None, State::Failed, Some(error), Vec::new(), Some(digest), now);
                self.retry_later(id, now, rng);
            }
            // Fetched with the next poll, which has no If-None-Match while content is missing.
            Some(Document::Missing) | None => self.retry_later(id, now, rng),
        }
    }

    fn obstructed(
        &mut self,
        id: DeploymentId,
        obstacle: &Obstacle,
        document: &ApplicationDeployment,
        digest: Digest,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        // ST-07: the gateway's full id for its own errors, else the name of the deployment.
        let source = obstacle.gateway.as_ref().map_or(document.metadata.name.as_str(), DeviceId::as_str);
        let error = status_error(obstacle.code, source, &obstacle.message);
        let components = all_components(document, State::Failed, Some(&error));
        let device = obstacle.device.clone().or_else(|| document_device(document));
        self.warn(obstacle.code, Some(id), obstacle.message.clone());
        self.set_status(id, device, State::Failed, Some(error), components, Some(digest), now);
        self.retry_later(id, now, rng);
    }

    fn begin_removal(&mut self, step: &Step, now: Timestamp) {
        let id = step.deployment;
        let Some(seen) = self.work.observation.as_ref().and_then(|(_, seen)| seen.deployments.get(&id)) else { return };
        let device = seen.device().clone();
        let names: Vec<String> = match (self.statuses.get(&id), seen) {
            (Some(entry), _) if !entry.status.components.is_empty() => {
                entry.status.components.iter().map(|component| component.name.clone()).collect()
            }
            (_, ObservedDeployment::Known { components, .. }) => components.keys().cloned().collect(),
            _ => Vec::new(),
        };
        let components: Vec<_> =
            names.into_iter().map(|name| ComponentStatus { name, state: State::Removing, error: None }).collect();
        self.log(Level::Info, None, Some(id), format!("removing: {}", step.reason));
        // ST-11: the version of the manifest that dropped it.
        self.set_status(id, Some(device.clone()), State::Removing, None, components.clone(), None, now);
        let item = Item::RemoveAll(device.clone());
        self.activate(id, None, device, VecDeque::from([item]), components, now);
    }

    fn begin_apply(
        &mut self,
        step: &Step,
        goal: Applying,
        device: DeviceId,
        seen: Option<ObservedDeployment>,
        now: Timestamp,
    ) {
        let (items, healthy) = items::items_for(&goal, &device, seen.as_ref());
        if items.is_empty() {
            return;
        }
        let mut components = all_components(&goal.document, State::Pending, None);
        for index in healthy {
            components[index].state = State::Installed;
        }
        self.log(Level::Info, None, Some(step.deployment), format!("applying: {}", step.reason));
        self.activate(step.deployment, Some(goal), device, items, components, now);
    }

    fn activate(
        &mut self,
        id: DeploymentId,
        goal: Option<Applying>,
        device: DeviceId,
        mut queue: VecDeque<Item>,
        components: Vec<ComponentStatus>,
        now: Timestamp,
    ) {
        let Some(item) = queue.pop_front() else { return };
        let work = WorkId(0);
        let active = Active { work, goal, item, queue, deadline: None, stopping: None, components, device };
        self.work.active.insert(id, active);
        self.issue(id, now);
    }

    /// Stops work for deployments or revisions that the newest manifest does not contain.
    pub(super) fn cancel_outdated(&mut self) {
        let Some(goal) = &self.accepted else { return };
        let outdated =
            |id: &DeploymentId, active: &Active| goal.desired(*id) != active.goal.as_ref().map(|goal| &goal.digest);
        let stop: Vec<_> =
            self.work.active.iter().filter(|(id, active)| outdated(id, active)).map(|(id, _)| *id).collect();
        for id in stop {
            self.stop(id, Stopping::Outdated);
        }
    }

    fn stop(&mut self, id: DeploymentId, why: Stopping) {
        let Some(active) = self.work.active.get_mut(&id) else { return };
        let first = active.stopping.is_none();
        if first || why == Stopping::Outdated {
            active.stopping = Some(why);
        }
        if first {
            let work = active.work;
            self.effects.push(Effect::Cancel(work));
        }
    }

    fn reconcile(&mut self, now: Timestamp) {
        let Some(goal) = &self.accepted else { return };
        let record = &goal.record;
        let known = self.reconciled.as_ref();
        let known = known.is_some_and(|known| {
            known.version == record.version && known.etag == record.etag && known.body_digest == record.body_digest
        });
        if known || self.work.reconciling.is_some() || self.work.reconcile_due > now {
            return;
        }
        let reconciled = Reconciled {
            version: record.version,
            etag: record.etag.clone(),
            body_digest: record.body_digest.clone(),
            reconciled_at: now,
        };
        self.log(Level::Info, None, None, format!("applied manifest version {}", reconciled.version));
        let write = self.persist(vec![Record::Reconciled(reconciled.clone())]);
        self.work.reconciling = Some((write, reconciled));
    }
}

fn is_late(active: &Active, now: Timestamp) -> bool {
    active.stopping.is_none() && active.deadline.is_some_and(|deadline| deadline <= now)
}

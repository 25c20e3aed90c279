//! The decisions of the agent: what to request, accept, do and report. No I/O, no clock, no randomness of its own.
//!
//! # For drivers
//!
//! Call [`Machine::new`] with what was found on disk, then [`Machine::step`] once for every [`Input`], and execute the
//! returned [`Effect`]s in their order. The machine sends nothing before it has received [`Input::Devices`].
//!
//! | effect | may it be lost? | what must follow |
//! |---|---|---|
//! | `Request` | with the process only | exactly one `Answered` with its id, a transport error included |
//! | `Persist` | with the process only | `Persisted` with its id. Records become durable in order; on failure the earlier state stays |
//! | `Apply`, `Remove` | with the process only | one `WorkFinished` with its id |
//! | `Cancel` | no | the work's own `WorkFinished`, as `Cancelled` or with the result it just reached |
//! | `Observe` | with the process only | one `Observed` with its id |
//! | `WakeAt` | no | a `Tick` at that time or later; only the newest counts |
//! | `Forget`, `Log` | yes | nothing |
//!
//! The machine guarantees the order, so that a driver can be simple:
//!
//! - The acceptance of a manifest is durable before its work starts: `Apply` and `Remove` for a new manifest follow
//!   only after `Persisted` for its `Accepted` record (invariant 4).
//! - `If-None-Match` carries the ETag of the reconciled record only, and only while that is the manifest accepted.
//! - At most one request is in flight, besides a long poll; at most one piece of work per deployment.
//! - Without an accepted manifest nothing is applied and nothing is removed (invariant 6).
//!
//! A crash at any point, between any two effects, is allowed: start again with [`Machine::new`] and what is on disk.
//! Work and reports may then be repeated, which is harmless.

// Suggested reading order.
mod desired;
mod devices;
mod long_poll;
pub mod io;
mod network;
mod placement;
mod preload;
pub mod records;
pub mod report;
mod revisions;
pub mod schedule;
mod statuses;
mod technician;
mod work;

use crate::codes::Code;
use indexmap::IndexMap;
use io::{Effect, Event, Input, Level, Record, WriteId};
use margo::deployment::ApplicationDeployment;
use margo::manifest::{RollbackFloor, StateManifest};
use margo::{DeploymentId, Digest};
use margrave_core::time::Timestamp;
use rand::RngCore;
use records::{Accepted, Loaded, Reconciled};
use schedule::{PollPolicy, RetryPolicy};
use std::sync::Arc;
use std::time::Duration;

/// A wake-up this much later than requested is a clock jump (or a sleeping machine), not a slow scheduler.
const CLOCK_JUMP: Duration = Duration::from_mins(5);

/// The settings of the machine; the shell uses the rest of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub poll: PollPolicy,
    /// For requests and for deployments that failed.
    pub retry: RetryPolicy,
    /// How often an idle agent checks the runtime for drift.
    pub observe_period: Duration,
    /// For components without a timeout (AD-03).
    pub component_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll: PollPolicy {
                period: Duration::from_mins(1),
                long_poll: Duration::from_secs(50),
                jitter: 0.1,
                start_spread: Duration::from_secs(10),
                forbidden_period: Duration::from_mins(5),
                calendar: schedule::Calendar::default(),
            },
            retry: RetryPolicy { first: Duration::from_secs(5), max: Duration::from_mins(10) },
            observe_period: Duration::from_secs(30),
            component_timeout: Duration::from_mins(10),
        }
    }
}

/// Whether there is work left for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Working,
    /// Everything runs as the accepted manifest says and is reported.
    UpToDate,
    /// Everything possible is done and reported; at least one deployment failed and waits for its next retry.
    Failed,
}

#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    /// The accepted manifest, durable.
    accepted: Option<Goal>,
    /// The rollback floor if `accepted` could not be read.
    floor: Option<RollbackFloor>,
    reconciled: Option<Reconciled>,
    contents: IndexMap<Digest, Arc<[u8]>>,
    pending: Option<desired::Pending>,
    leftover: Option<desired::UnfinishedFetch>,
    devices: devices::Devices,
    statuses: statuses::Statuses,
    revisions: revisions::RevisionTracker,
    technician: Option<io::Hold>,
    work: work::Work,
    network: network::Network,
    last_now: Timestamp,
    wake: Timestamp,
    next_id: u64,
    effects: Vec<Effect>,
    trouble: IndexMap<report::Topic, report::Trouble>,
    polled_at: Option<Timestamp>,
}

/// An accepted manifest with its parsed documents.
#[derive(Debug, Clone)]
struct Goal {
    record: Accepted,
    manifest: StateManifest,
    documents: IndexMap<DeploymentId, Document>,
    /// Earlier revisions that run in place of abandoned ones.
    instead: IndexMap<DeploymentId, (Digest, Document)>,
}

impl Goal {
    /// The revision the manifest names.
    fn listed(&self, id: DeploymentId) -> Option<&Digest> {
        self.manifest.deployments.iter().find(|listed| listed.deployment_id == id).map(|listed| &listed.digest)
    }
    /// The revision that should run on the device.
    fn desired(&self, id: DeploymentId) -> Option<&Digest> {
        let instead = self.instead.get(&id).map(|(digest, _)| digest);
        self.listed(id).map(|listed| instead.unwrap_or(listed))
    }
    /// The document of that revision.
    fn document(&self, id: DeploymentId) -> Option<&Document> {
        self.instead.get(&id).map(|(_, document)| document).or_else(|| self.documents.get(&id))
    }
}

#[derive(Debug, Clone)]
enum Document {
    Ready(Arc<ApplicationDeployment>),
    /// The bytes are correct, but the document cannot be used.
    Unusable {
        code: Code,
        message: String,
    },
    /// The bytes are lost or damaged on disk and must be fetched again.
    Missing,
}

impl Machine {
    pub fn new(settings: Settings, loaded: Loaded, now: Timestamp, rng: &mut dyn RngCore) -> Self {
        let Loaded { accepted, floor, reconciled, statuses, devices, revisions, boot, contents } = loaded;
        let spread = settings.poll.start_spread.min(settings.poll.period).mul_f64(schedule::fraction(rng));
        let mut contents = contents;
        contents.retain(|digest, bytes| Digest::of(bytes) == *digest);
        let mut machine = Self {
            network: network::Network::new(now.plus(spread)),
            devices: devices::Devices::new(devices),
            statuses: statuses::Statuses::new(statuses),
            revisions: revisions::RevisionTracker::new(revisions, boot),
            technician: None,
            work: work::Work::new(now),
            settings,
            accepted: None,
            floor,
            reconciled,
            contents,
            pending: None,
            leftover: None,
            last_now: now,
            wake: now,
            next_id: 0,
            effects: Vec::new(),
            trouble: IndexMap::new(),
            polled_at: None,
        };
        if let Some(record) = accepted {
            match record.manifest() {
                Some(manifest) => {
                    let carried_out = machine.reconciled.as_ref().is_some_and(|known| known.version == record.version);
                    machine.accepted = Some(machine.goal(record, manifest));
                    if !carried_out {
                        // The process may have ended between the acceptance and its reports.
                        machine.restate(None, now);
                    }
                }
                // Unknown is not empty: the rollback floor stays, and the agent waits for a manifest.
                None => machine.floor = Some(record.held()),
            }
        }
        machine.handle_reboot();
        machine
    }

    /// Processes one input and returns the resulting effects.
    pub fn step(&mut self, input: Input, now: Timestamp, rng: &mut dyn RngCore) -> Vec<Effect> {
        self.handle_clock_jump(now);
        match input {
            Input::Tick => {}
            Input::Answered { request, answer } => self.answered(request, answer, now, rng),
            Input::Persisted { write, result } => self.persisted(write, result, now, rng),
            Input::WorkFinished { work, outcome } => self.work_finished(work, outcome, now, rng),
            Input::Observed { observation, result } => self.observed(observation, result, now, rng),
            Input::Devices(devices) => self.devices_changed(devices, now),
            Input::RuntimeChanged => self.work.observe_soon(now),
            Input::Hold(hold) => self.hold_changed(hold, now),
            Input::Preload(preloaded) => self.preload(preloaded, now, rng),
            Input::Poke => self.network.poke(now),
        }
        self.advance_work(now, rng);
        self.advance_revisions(now);
        self.advance_statuses(now);
        self.advance_network(now);
        self.wake = self.next_wake(now);
        self.effects.push(Effect::WakeAt(self.wake));
        std::mem::take(&mut self.effects)
    }

    /// Whether this device has never had a desired state.
    pub fn is_blank(&self) -> bool {
        self.held().is_none() && self.pending.is_none()
    }

    /// The version of the accepted manifest.
    pub fn accepted_version(&self) -> Option<u64> {
        self.accepted.as_ref().map(|goal| goal.record.version)
    }

    pub fn reconciled_version(&self) -> Option<u64> {
        self.reconciled.as_ref().map(|reconciled| reconciled.version)
    }

    pub fn settled(&self) -> Settled {
        let Some(goal) = &self.accepted else { return Settled::Working };
        let quiet = self.network.is_idle()
            && self.polled_at.is_some()
            && self.pending.is_none()
            // An offered manifest that was not accepted is not what the device runs.
            && !self.trouble.contains_key(&report::Topic::Desired)
            && self.devices.is_quiet()
            && self.work.is_quiet()
            && self.statuses.all_delivered();
        let carried_out = self.reconciled.as_ref().is_some_and(|reconciled| reconciled.version == goal.record.version);
        match (quiet, carried_out) {
            // It was applied once, possibly simulated, by a runtime that is no longer enabled.
            (true, true) if self.has_no_runtime() && !goal.manifest.deployments.is_empty() => Settled::Failed,
            (true, true) => Settled::UpToDate,
            (true, false) if self.work.only_failures_left(self.abandoned()) => Settled::Failed,
            _ => Settled::Working,
        }
    }

    /// Whether this agent has no runtime.
    fn has_no_runtime(&self) -> bool {
        self.devices.own_capabilities().is_some_and(margrave_core::runtime::has_none)
    }

    fn next_wake(&self, now: Timestamp) -> Timestamp {
        let mut wake = self.network_wake(now);
        for candidate in [self.work.wake(now), self.statuses.wake(), self.revisions.wake()].into_iter().flatten() {
            wake = wake.min(candidate);
        }
        wake.max(now)
    }

    /// Clocks jump: from 1970 to today when the network comes up, or back when they are set.
    fn handle_clock_jump(&mut self, now: Timestamp) {
        if now < self.last_now {
            let back = self.last_now.since(now);
            self.network.shift_back(back);
            self.work.shift_back(back);
            self.statuses.shift_back(back);
            self.revisions.shift_back(back);
        } else if now > self.wake.plus(CLOCK_JUMP) {
            // Running work did not have this time: do not count it as late.
            self.work.shift_deadlines(now.since(self.last_now));
        }
        self.last_now = now;
    }

    /// Reads the documents of a manifest from the stored contents.
    fn goal(&self, record: Accepted, manifest: StateManifest) -> Goal {
        let documents = manifest
            .deployments
            .iter()
            .map(|deployment| (deployment.deployment_id, self.document(deployment.deployment_id, &deployment.digest)))
            .collect();
        let mut goal = Goal { record, manifest, documents, instead: IndexMap::new() };
        goal.instead = self.instead(&goal);
        goal
    }

    fn document(&self, id: DeploymentId, digest: &Digest) -> Document {
        self.contents.get(digest).map_or(Document::Missing, |yaml| read_document(id, yaml))
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn persist(&mut self, records: Vec<Record>) -> WriteId {
        let write = WriteId(self.id());
        self.effects.push(Effect::Persist { write, records });
        write
    }

    fn log(&mut self, level: Level, code: Option<Code>, deployment: Option<DeploymentId>, message: impl Into<String>) {
        self.effects.push(Effect::Log(Event { level, code, deployment, message: message.into() }));
    }
}

/// W-22: an unusable document is reported, never fatal. DS-04: the document must be for this deployment.
fn read_document(id: DeploymentId, yaml: &[u8]) -> Document {
    match ApplicationDeployment::read(yaml) {
        Err(findings) => Document::Unusable { code: Code::DocumentUnreadable, message: findings.to_string() },
        Ok(read) if read.document.id != id => Document::Unusable {
            code: Code::DocumentOtherId,
            message: format!("the document is for deployment {}", read.document.id),
        },
        Ok(read) => Document::Ready(Arc::new(read.document)),
    }
}

#[cfg(test)]
pub(crate) use tests::bench as tests_support;
#[cfg(test)]
mod tests;

//! One virtual device: the agent's state machine, driven by one task, with simulated workloads.

use super::link::{self, Link, RequestResult};
use super::profile::DeviceTraits;
use super::tally::DeviceProgress;
use super::{Options, Shared};
use anyhow::Context as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use indexmap::IndexMap;
use margo::DeploymentId;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::status::{DeploymentStatus, State};
use margrave_agent::Code;
use margrave_agent::identity::Identity;
use margrave_agent::machine::io::{
    Answer, ApplyWork, DeviceReport, Effect, Input, Record, RemoveWork, Request, RequestId, WorkId, WorkOutcome,
};
use margrave_agent::machine::records::Loaded;
use margrave_agent::machine::{Machine, Settled};
use margrave_agent::runtimes::Future;
use margrave_agent::runtimes::simulated::world::World;
use margrave_core::time::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Longest sleep of an idle device.
const SLEEP_MAX: Duration = Duration::from_mins(5);

pub(super) struct Device {
    index: usize,
    shared: Arc<Shared>,
    identity: Arc<Identity>,
    report: DeviceReport,
    character: DeviceTraits,
    machine: Machine,
    /// Its simulated disk; used only if the agent restarts from it.
    disk: Option<Loaded>,
    world: World,
    works: Vec<(Instant, Work)>,
    inbox: VecDeque<Input>,
    wake: Timestamp,
    /// Idle connections.
    links: Vec<Link>,
    /// One request, in addition to a long poll.
    requests: FuturesUnordered<Future<'static, Answered>>,
    /// Ids of open requests; responses to other requests are too late and ignored.
    requested: Vec<RequestId>,
    offline: bool,
    doing: DeviceProgress,
    /// The manifest version that `doing` refers to.
    doing_version: Option<u64>,
    reported: IndexMap<DeploymentId, State>,
}

enum Work {
    Apply(Box<ApplyWork>),
    Remove(RemoveWork),
}

impl Work {
    fn id(&self) -> WorkId {
        match self {
            Self::Apply(work) => work.work,
            Self::Remove(work) => work.work,
        }
    }
}

/// A completed request.
struct Answered {
    id: RequestId,
    kind: Asked,
    exchanged: RequestResult,
}

/// Kind of a request, for the statistics.
enum Asked {
    Poll,
    Capabilities,
    Status(DeploymentId, Option<State>),
    Other,
}

impl Device {
    pub(super) fn new(
        index: usize,
        options: &Options,
        mut character: DeviceTraits,
        identity: Identity,
        shared: Arc<Shared>,
    ) -> anyhow::Result<Self> {
        let id = options.client(index);
        let report = options.profile.report(&character, &id, &options.prefix);
        let capabilities = DeviceCapabilities::read(report.to_string().as_bytes(), UnknownTypes::Refuse)
            .map_err(|findings| anyhow::anyhow!("the profile creates an invalid device: {findings}"))?
            .document;
        let report =
            DeviceReport { id: id.parse().context("parse the device id")?, json: capabilities.to_json(), capabilities };
        let now = shared.clock.now();
        let machine = Machine::new(shared.settings.clone(), Loaded::default(), now, &mut character.rng);
        let restarts = character.spells.is_some_and(|spells| spells.restart);
        Ok(Self {
            index,
            identity: Arc::new(identity),
            report,
            machine,
            disk: restarts.then(Loaded::default),
            world: World::default(),
            works: Vec::new(),
            inbox: VecDeque::new(),
            wake: now,
            links: Vec::new(),
            requests: FuturesUnordered::new(),
            requested: Vec::new(),
            offline: false,
            doing: DeviceProgress::Unreported,
            doing_version: None,
            reported: IndexMap::new(),
            character,
            shared,
        })
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let started = Instant::now();
        self.inbox.push_back(Input::Devices(vec![self.report.clone()]));
        loop {
            let next_spell = self.update_offline_state(started);
            while let Some(input) = self.inbox.pop_front() {
                self.feed(input);
            }
            self.note();
            let until = self.next(started, next_spell);
            tokio::select! {
                () = stop.cancelled() => return,
                Some(answered) = self.requests.next() => self.answered(answered),
                () = tokio::time::sleep_until(until) => self.handle_elapsed_time(),
            }
        }
    }

    /// When the next event is due: a wake-up of the state machine, the end of a piece of work, an offline period.
    fn next(&self, started: Instant, next_spell: Option<Duration>) -> Instant {
        let now = Instant::now();
        let mut until = now + self.wake.since(self.shared.clock.now()).min(SLEEP_MAX);
        for (due, _) in &self.works {
            until = until.min(*due);
        }
        if let Some(spell) = next_spell {
            until = until.min(started + spell);
        }
        until
    }

    fn handle_elapsed_time(&mut self) {
        let now = Instant::now();
        let (due, rest) = std::mem::take(&mut self.works).into_iter().partition(|(due, _)| *due <= now);
        self.works = rest;
        let due: Vec<(Instant, Work)> = due;
        for (_, work) in due {
            let id = work.id();
            let result = match &work {
                Work::Apply(work) => self.world.apply(work, &self.character.script),
                Work::Remove(work) => self.world.remove(work, &self.character.script),
            };
            let outcome = result.map_or_else(WorkOutcome::Failed, |()| WorkOutcome::Done);
            self.inbox.push_back(Input::WorkFinished { work: id, outcome });
        }
        if self.wake <= self.shared.clock.now() {
            self.inbox.push_back(Input::Tick);
        }
    }

    /// Goes offline and online; returns the time of the next switch.
    fn update_offline_state(&mut self, started: Instant) -> Option<Duration> {
        let spells = self.character.spells?;
        let (offline, next) = spells.at(started.elapsed());
        if offline && !self.offline {
            self.abort_requests();
        } else if !offline && self.offline && spells.restart {
            self.restart();
        }
        self.offline = offline;
        next
    }

    /// Aborts all open requests: the network is down.
    fn abort_requests(&mut self) {
        self.links.clear();
        self.requests.clear();
        for request in self.requested.drain(..) {
            self.inbox.push_back(Input::Answered { request, answer: no_network() });
        }
    }

    /// Restarts the agent from its disk; workloads keep running.
    fn restart(&mut self) {
        let now = self.shared.clock.now();
        let loaded = self.disk.clone().unwrap_or_default();
        self.machine = Machine::new(self.shared.settings.clone(), loaded, now, &mut self.character.rng);
        self.works.clear();
        self.abort_requests();
        self.inbox.clear();
        self.inbox.push_back(Input::Devices(vec![self.report.clone()]));
    }

    fn feed(&mut self, input: Input) {
        let now = self.shared.clock.now();
        for effect in self.machine.step(input, now, &mut self.character.rng) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Request { id, request } => self.ask(id, request),
            Effect::Persist { write, records } => {
                if let Some(disk) = &mut self.disk {
                    for record in records {
                        keep(disk, record);
                    }
                }
                self.inbox.push_back(Input::Persisted { write, result: Ok(()) });
            }
            Effect::Forget(digests) => {
                if let Some(disk) = &mut self.disk {
                    disk.contents.retain(|digest, _| !digests.contains(digest));
                }
            }
            Effect::Apply(work) => {
                self.world.begin(&work);
                let rule = self.character.script.rule(margrave_agent::runtimes::simulated::script::Subject::of(&work));
                let delay = rule.and_then(|rule| rule.delay).unwrap_or(self.character.script.delay);
                self.works.push((Instant::now() + delay, Work::Apply(Box::new(work))));
            }
            Effect::Remove(work) => {
                let due = Instant::now() + self.character.script.remove_delay;
                self.works.push((due, Work::Remove(work)));
            }
            Effect::Cancel(id) => {
                let before = self.works.len();
                self.works.retain(|(_, work)| work.id() != id);
                if self.works.len() < before {
                    self.inbox.push_back(Input::WorkFinished { work: id, outcome: WorkOutcome::Cancelled });
                }
            }
            Effect::Observe(observation) => {
                let result = Ok(self.world.observe(&self.character.script));
                self.inbox.push_back(Input::Observed { observation, result });
            }
            Effect::WakeAt(at) => self.wake = at,
            Effect::Log(event) => tracing::debug!(device = %self.report.id, "{}", event.message),
        }
    }

    fn ask(&mut self, id: RequestId, request: Request) {
        if self.offline {
            self.inbox.push_back(Input::Answered { request: id, answer: no_network() });
            return;
        }
        let kind = match &request {
            Request::Poll { .. } => Asked::Poll,
            Request::PutCapabilities { .. } => Asked::Capabilities,
            Request::PostStatus { deployment, json } => {
                let state = DeploymentStatus::read(json).ok().map(|read| read.document.state);
                Asked::Status(*deployment, state)
            }
            Request::DeleteDevice { .. } | Request::FetchBundle { .. } | Request::FetchYaml { .. } => Asked::Other,
        };
        let (shared, identity, link) = (Arc::clone(&self.shared), Arc::clone(&self.identity), self.links.pop());
        self.requested.push(id);
        self.requests.push(Box::pin(async move {
            let exchanged = link::exchange(&shared, &identity, link, request).await;
            Answered { id, kind, exchanged }
        }));
    }

    fn answered(&mut self, Answered { id, kind, exchanged }: Answered) {
        let RequestResult { answer, took, link } = exchanged;
        self.requested.retain(|requested| *requested != id);
        self.count(kind, &answer, took);
        self.links.extend(link);
        self.feed(Input::Answered { request: id, answer });
        while let Some(input) = self.inbox.pop_front() {
            self.feed(input);
        }
        // In reconnect mode, keep the connection for a burst of requests, not until the next poll.
        let idle = usize::from(self.shared.keep_alive && self.requests.is_empty());
        if self.requested.is_empty() || self.shared.keep_alive {
            self.links.truncate(idle);
        }
    }

    fn count(&mut self, kind: Asked, answer: &Answer, took: Duration) {
        let tally = &self.shared.tally;
        tally.request();
        let status = match answer {
            Answer::Response(response) => Some(response.status),
            Answer::Failed { code, .. } => {
                tally.unanswered(*code);
                None
            }
        };
        if let Some(status) = status.filter(|status| *status >= 400) {
            tally.refused(status);
        }
        let good = status.is_some_and(|status| (200..300).contains(&status));
        match kind {
            Asked::Poll => tally.poll(status, took),
            Asked::Capabilities if good && self.doing == DeviceProgress::Unreported => {
                self.doing = DeviceProgress::Working;
            }
            Asked::Status(deployment, Some(state)) if good => {
                let before = self.reported.insert(deployment, state);
                tally.deployment(before, state);
            }
            Asked::Capabilities | Asked::Status(..) | Asked::Other => {}
        }
    }

    /// Once settled, stays settled until it accepts another manifest: an open poll does not change that.
    fn note(&mut self) {
        if self.doing != DeviceProgress::Unreported {
            let version = self.machine.accepted_version();
            let now = match self.machine.settled() {
                Settled::UpToDate => DeviceProgress::UpToDate,
                Settled::Failed => DeviceProgress::Failed,
                // A failed device that retries still counts as failed.
                Settled::Working if version == self.doing_version && self.doing != DeviceProgress::Working => {
                    self.doing
                }
                Settled::Working => DeviceProgress::Working,
            };
            self.doing = now;
            self.doing_version = version;
        }
        self.shared.tally.device(self.index, self.doing, self.offline);
    }
}

fn no_network() -> Answer {
    Answer::Failed { code: Code::ServerUnreachable, message: "no network".to_owned() }
}

fn keep(disk: &mut Loaded, record: Record) {
    match record {
        Record::Content { digest, bytes } => {
            disk.contents.insert(digest, bytes);
        }
        Record::Accepted(accepted) => disk.accepted = Some(accepted),
        Record::Reconciled(reconciled) => disk.reconciled = Some(reconciled),
        Record::Statuses(statuses) => disk.statuses = statuses,
        Record::Devices(devices) => disk.devices = devices,
        Record::Revisions(revisions) => disk.revisions = revisions,
    }
}

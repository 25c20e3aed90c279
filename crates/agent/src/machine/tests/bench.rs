//! A test bench for the machine: a disk in memory, the simulated world, and a scripted server.

use super::super::io::*;
use super::super::records::Loaded;
use super::super::{Machine, Settings, Settled};
use crate::runtimes::simulated::script::Script;
use crate::runtimes::simulated::world::World;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::manifest::{bundle_url, deployment_url};
use margo::problem::{Problem, ProblemType};
use margo::status::DeploymentStatus;
use margo::{DeploymentId, DeviceId};
use margrave_core::publish::{self, Publication, ServedDeployment};
use margrave_core::time::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use std::collections::VecDeque;
use std::time::Duration;

pub(crate) const START: Timestamp = Timestamp(1_750_000_000_000_000);

pub(crate) fn id(number: u8) -> DeploymentId {
    format!("00000000-0000-4000-8000-0000000000{number:02x}").parse().unwrap()
}

/// A deployment with these components on this device; `revision` distinguishes contents.
pub(crate) fn yaml(number: u8, device: &str, components: &[&str], revision: &str) -> ServedDeployment {
    yaml_with(number, device, components, revision, "")
}

pub(crate) fn yaml_with(
    number: u8,
    device: &str,
    components: &[&str],
    revision: &str,
    extra: &str,
) -> ServedDeployment {
    let component = |name: &&str| {
        format!(
            "      - name: {name}\n        properties:\n          repository: oci://registry.example/{name}\n          revision: {revision}\n"
        )
    };
    let components: String = components.iter().map(component).collect();
    let id = id(number);
    let text = format!(
        "id: {id}\nmetadata:\n  name: app-{number}\n  namespace: plant\n  deviceId: {device}\nspec:\n  applicationId: app-{number}\n  deploymentProfile:\n    type: compose\n{extra}    components:\n{components}"
    );
    let yaml = text.into_bytes();
    ServedDeployment { id, digest: margo::Digest::of(&yaml), yaml }
}

pub(crate) fn device(id: &str, memory: &str) -> DeviceReport {
    let json = serde_json::json!({"properties": {
        "id": id, "vendor": "v", "modelNumber": "m", "serialNumber": "s",
        "cpus": [{"cores": 4, "architecture": "amd64"}], "memory": memory, "storage": "64Gi",
        "peripherals": [], "interfaces": [{"type": "ethernet"}], "otelCollector": true,
        "supportedRuntimes": ["oci"], "supportedDeploymentTypes": ["compose"],
    }, "labels": {"line": "a"}});
    let json = serde_json::to_vec(&json).unwrap();
    let capabilities = DeviceCapabilities::read(&json, UnknownTypes::Refuse).unwrap().document;
    DeviceReport { id: id.parse().unwrap(), json, capabilities }
}

/// The server. `twist` may answer first, to misbehave.
pub(crate) struct Server {
    pub(crate) publication: Publication,
    pub(crate) deployments: Vec<ServedDeployment>,
    pub(crate) statuses: Vec<DeploymentStatus>,
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) requests: Vec<Request>,
    /// Supports long polls.
    pub(crate) holds: bool,
    #[expect(clippy::type_complexity, reason = "a hook of a test")]
    pub(crate) twist: Option<Box<dyn FnMut(&Request) -> Option<Answer>>>,
}

pub(crate) fn response(status: u16, body: &[u8]) -> Answer {
    Answer::Response(Response { status, body: body.to_vec(), ..Response::default() })
}

pub(crate) fn problem(problem_type: ProblemType, status: u16) -> Answer {
    response(status, &Problem::new(problem_type, status, "no").to_json())
}

impl Server {
    pub(crate) fn new() -> Self {
        let publication = publish::next(0, &[]).unwrap();
        Self {
            publication,
            deployments: vec![],
            statuses: vec![],
            devices: vec![],
            requests: vec![],
            holds: false,
            twist: None,
        }
    }

    pub(crate) fn publish(&mut self, deployments: Vec<ServedDeployment>) -> u64 {
        self.publication = publish::next(self.publication.version, &deployments).unwrap();
        self.deployments = deployments;
        self.publication.version
    }

    pub(crate) fn answer(&mut self, request: &Request) -> Answer {
        self.requests.push(request.clone());
        if let Some(answer) = self.twist.as_mut().and_then(|twist| twist(request)) {
            return answer;
        }
        match request {
            Request::PutCapabilities { device, .. } => {
                if device.parent().is_some_and(|parent| !self.devices.contains(&parent)) {
                    return problem(ProblemType::GatewayNotFound, 404);
                }
                self.devices.push(device.clone());
                response(201, b"")
            }
            Request::DeleteDevice { device } => {
                self.devices.retain(|known| known != device);
                response(204, b"")
            }
            Request::Poll { if_none_match, .. } => {
                let etag = self.publication.digest.etag();
                if if_none_match.as_ref() == Some(&etag) {
                    return response(304, b"");
                }
                let body = self.publication.body.clone();
                Answer::Response(Response { status: 200, etag: Some(etag), body, ..Response::default() })
            }
            Request::FetchBundle { path } => match &self.publication.bundle {
                Some((digest, bytes)) if *path == bundle_url(digest) => response(200, bytes),
                _ => problem(ProblemType::InvalidBundle, 404),
            },
            Request::FetchYaml { path } => {
                let found = self.deployments.iter().find(|served| *path == deployment_url(served.id, &served.digest));
                found
                    .map_or_else(|| problem(ProblemType::DeploymentNotFound, 404), |served| response(200, &served.yaml))
            }
            Request::PostStatus { json, .. } => {
                self.statuses.push(DeploymentStatus::read(json).unwrap().document);
                response(200, b"")
            }
        }
    }

    /// The wait of this request, if it is a long poll without news.
    fn holds(&self, request: &Request) -> Option<Duration> {
        match request {
            Request::Poll { if_none_match, wait: Some(seconds) }
                if self.holds && if_none_match.as_ref() == Some(&self.publication.digest.etag()) =>
            {
                Some(Duration::from_secs(*seconds))
            }
            _ => None,
        }
    }

    pub(crate) fn polls(&self) -> Vec<Option<String>> {
        let etag = |request: &Request| match request {
            Request::Poll { if_none_match, .. } => Some(if_none_match.clone()),
            _ => None,
        };
        self.requests.iter().filter_map(etag).collect()
    }

    pub(crate) fn last_status(&self, number: u8) -> &DeploymentStatus {
        self.statuses.iter().rev().find(|status| status.deployment_id == id(number)).expect("a status was reported")
    }
}

pub(crate) struct Bench {
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) rng: SmallRng,
    pub(crate) now: Timestamp,
    pub(crate) disk: Loaded,
    pub(crate) world: World,
    pub(crate) script: Script,
    pub(crate) events: Vec<Event>,
    pub(crate) devices: Vec<DeviceReport>,
    pub(crate) inputs: VecDeque<Input>,
    /// Work that the runtime blocks until it is cancelled.
    pub(crate) stuck: bool,
    pub(crate) disk_full: bool,
    /// The runtime cannot be observed.
    pub(crate) blind: bool,
    /// Components that are applied and not running yet.
    pub(crate) starting: Vec<&'static str>,
    pub(crate) wake: Timestamp,
    /// The long poll in flight, and its end.
    pub(crate) held: Option<(RequestId, Request, Timestamp)>,
    /// Every effect, in order.
    pub(crate) trace: Vec<Effect>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default(), vec![device("gw", "8Gi")])
    }

    pub(crate) fn with(settings: Settings, devices: Vec<DeviceReport>) -> Self {
        let mut rng = SmallRng::seed_from_u64(7);
        let disk = Loaded::default();
        let machine = Machine::new(settings.clone(), disk.clone(), START, &mut rng);
        let inputs = VecDeque::from([Input::Devices(devices.clone())]);
        Self {
            machine,
            settings,
            rng,
            now: START,
            disk,
            world: World::default(),
            script: Script::default(),
            events: vec![],
            devices,
            inputs,
            stuck: false,
            disk_full: false,
            blind: false,
            starting: vec![],
            wake: START,
            held: None,
            trace: vec![],
        }
    }

    /// Loses everything in memory, as kill -9 does.
    pub(crate) fn crash(&mut self) {
        self.machine = Machine::new(self.settings.clone(), self.disk.clone(), self.now, &mut self.rng);
        self.inputs = VecDeque::from([Input::Devices(self.devices.clone())]);
        self.held = None;
    }

    /// Feeds one input and executes its effects, answering at once.
    pub(crate) fn feed(&mut self, input: Input, server: &mut Server) {
        for effect in self.machine.step(input, self.now, &mut self.rng) {
            self.check(&effect);
            self.trace.push(effect.clone());
            self.execute(effect, server);
        }
    }

    /// Invariants of every effect in every test: invariants 4 and 6, DS-13, DS-22, DS-23.
    fn check(&self, effect: &Effect) {
        let accepted = self.disk.accepted.as_ref();
        let desired = |id: DeploymentId| {
            let manifest = accepted.expect("no work before an acceptance is durable").manifest().unwrap();
            manifest.deployments.into_iter().find(|desired| desired.deployment_id == id).map(|desired| desired.digest)
        };
        if let Effect::Request { request, .. } = effect {
            // GEN-06
            let calendar = &self.settings.poll.calendar;
            assert_eq!(calendar.talk_from(self.now), self.now, "communication in a downtime window");
            let polls = matches!(request, Request::Poll { .. });
            assert!(!polls || calendar.poll_from(self.now) == self.now, "a poll outside its hours");
        }
        match effect {
            Effect::Request { request: Request::Poll { if_none_match: Some(etag), .. }, .. } => {
                let reconciled =
                    self.disk.reconciled.as_ref().expect("an ETag is only known from the reconciled record");
                assert_eq!(reconciled.etag.as_ref(), Some(etag));
                assert_eq!(accepted.map(|accepted| accepted.version), Some(reconciled.version));
            }
            Effect::Apply(work) => {
                let listed = desired(work.deployment).expect("only what is in the manifest is applied");
                let revision = self.disk.revisions.deployments.get(&work.deployment);
                let back = revision.is_some_and(|revision| {
                    revision.good.as_ref() == Some(&work.digest)
                        && revision.abandoned.as_ref().is_some_and(|abandoned| abandoned.digest == listed)
                });
                assert!(
                    work.digest == listed || back,
                    "the applied revision is desired, or replaces a durably abandoned one"
                );
            }
            Effect::Remove(work) if work.component.is_none() => {
                let moves =
                    self.world.deployments.get(&work.deployment).is_some_and(|placed| placed.device == work.device);
                assert!(desired(work.deployment).is_none() || moves, "only absence from an accepted manifest removes");
            }
            Effect::Persist { records, .. } => {
                for record in records {
                    if let Record::Accepted(next) = record {
                        let floor =
                            accepted.map(|held| held.version).max(self.disk.floor.as_ref().map(|held| held.version));
                        assert!(floor.is_none_or(|floor| next.version >= floor), "an older manifest was accepted");
                    }
                }
            }
            _ => {}
        }
    }

    fn execute(&mut self, effect: Effect, server: &mut Server) {
        match effect {
            Effect::Request { id, request } => {
                if let Some(length) = server.holds(&request) {
                    assert!(self.held.is_none(), "two polls are in flight");
                    server.requests.push(request.clone());
                    self.held = Some((id, request, self.now.plus(length)));
                    return;
                }
                let answer = server.answer(&request);
                self.inputs.push_back(Input::Answered { request: id, answer });
            }
            Effect::Persist { write, records } => {
                let result = if self.disk_full {
                    Err(PersistFailure { disk_full: true, message: "no room".to_owned() })
                } else {
                    for record in records {
                        self.keep(record);
                    }
                    Ok(())
                };
                self.inputs.push_back(Input::Persisted { write, result });
            }
            Effect::Forget(digests) => self.disk.contents.retain(|digest, _| !digests.contains(digest)),
            Effect::Apply(_) if self.stuck => {}
            Effect::Apply(work) => {
                let result = self.world.apply(&work, &self.script);
                self.finish(work.work, result);
            }
            Effect::Remove(work) => {
                let result = self.world.remove(&work, &self.script);
                self.finish(work.work, result);
            }
            Effect::Cancel(work) => {
                self.inputs.push_back(Input::WorkFinished { work, outcome: WorkOutcome::Cancelled });
            }
            Effect::Observe(observation) => {
                let mut seen = self.world.observe(&self.script);
                for deployment in seen.deployments.values_mut() {
                    let ObservedDeployment::Known { components, .. } = deployment else { continue };
                    let starting = |name: &str| self.starting.contains(&name);
                    components
                        .iter_mut()
                        .filter(|(name, _)| starting(name))
                        .for_each(|(_, seen)| seen.run = Run::Starting);
                }
                let result = if self.blind { Err("engine is down".to_owned()) } else { Ok(seen) };
                self.inputs.push_back(Input::Observed { observation, result });
            }
            Effect::WakeAt(at) => self.wake = at,
            Effect::Log(event) => self.events.push(event),
        }
    }

    fn finish(&mut self, work: WorkId, result: Result<(), WorkFailure>) {
        let outcome = result.map_or_else(WorkOutcome::Failed, |()| WorkOutcome::Done);
        self.inputs.push_back(Input::WorkFinished { work, outcome });
    }

    fn keep(&mut self, record: Record) {
        match record {
            Record::Content { digest, bytes } => {
                self.disk.contents.insert(digest, bytes);
            }
            Record::Accepted(accepted) => self.disk.accepted = Some(accepted),
            Record::Reconciled(reconciled) => self.disk.reconciled = Some(reconciled),
            Record::Statuses(statuses) => self.disk.statuses = statuses,
            Record::Devices(devices) => self.disk.devices = devices,
            Record::Revisions(revisions) => self.disk.revisions = revisions,
        }
    }

    /// Answers the long poll when there is news or its time is over.
    fn end_long_poll(&mut self, server: &mut Server) {
        let Some((id, request, until)) = self.held.take() else { return };
        if server.holds(&request).is_some() && self.now < until {
            self.held = Some((id, request, until));
            return;
        }
        let Request::Poll { wait, .. } = request else { return };
        let mut answer = server.answer(&request);
        server.requests.pop();
        if let Answer::Response(response) = &mut answer {
            response.waited = wait;
        }
        self.inputs.push_back(Input::Answered { request: id, answer });
    }

    /// One input, or one tick when there is none.
    pub(crate) fn step(&mut self, server: &mut Server) {
        self.end_long_poll(server);
        let input = self.inputs.pop_front().unwrap_or_else(|| {
            self.now = self.now.max(self.wake);
            Input::Tick
        });
        self.feed(input, server);
    }

    /// Advances the time by this much, with all events in it.
    pub(crate) fn run_for(&mut self, duration: Duration, server: &mut Server) {
        let end = self.now.plus(duration);
        let mut steps = 0;
        loop {
            self.end_long_poll(server);
            while let Some(input) = self.inputs.pop_front() {
                self.feed(input, server);
                steps += 1;
                assert!(steps < 100_000, "the machine never becomes idle");
            }
            let next = self.held.as_ref().map_or(self.wake, |(_, _, until)| self.wake.min(*until));
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if next < self.wake {
                continue;
            }
            steps += 1;
            assert!(steps < 100_000, "the machine never becomes idle");
            self.feed(Input::Tick, server);
        }
    }

    /// Runs until everything is as desired and reported.
    pub(crate) fn converge(&mut self, server: &mut Server) {
        for _ in 0..600 {
            self.run_for(Duration::from_secs(6), server);
            if self.machine.settled() == Settled::UpToDate
                && self.machine.accepted_version() == Some(server.publication.version)
            {
                return;
            }
        }
        panic!("did not converge: {:#?}", self.machine.report(self.now));
    }

    pub(crate) fn running(&self) -> Vec<DeploymentId> {
        self.world.deployments.keys().copied().collect()
    }

    pub(crate) fn codes(&self) -> Vec<&'static str> {
        self.events.iter().filter_map(|event| event.code).map(crate::Code::number).collect()
    }
}

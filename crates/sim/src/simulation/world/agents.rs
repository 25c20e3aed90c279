//! Drives the real agent core: every effect is performed or lost with the process.

use super::{Event, World};
use crate::simulation::Bug;
use crate::simulation::checker;
use crate::simulation::node::Write;
use crate::simulation::runtime::Work;
use crate::simulation::violation::Violation;
use margrave_agent::machine::io::{
    Answer, Effect, Input, Level, ObservationId, PersistFailure, Record, Request, RequestId, WorkId, WriteId,
};
use rand::Rng as _;
use std::collections::VecDeque;
use std::time::Duration;

/// An immediate wake-up still takes a moment, as in a real process.
const WAKE_MIN: Duration = Duration::from_millis(1);

impl World {
    pub(super) fn agent_starts(&mut self, node: usize) -> Result<(), Violation> {
        if self.nodes[node].process.is_some() {
            return Ok(());
        }
        if self.chance(self.faults.damage) {
            let agent = &mut self.nodes[node];
            let hit = agent.disk.damage(&mut self.dice);
            self.checker.disk_damaged(&agent.client, &agent.disk);
            self.note(format_args!("agent {node} finds damage: {hit:?}"));
        }
        let now = self.now;
        self.nodes[node].start(now);
        let life = self.nodes[node].life;
        self.note(format_args!("agent {node} starts, life {life}"));
        self.devices_change(node)?;
        self.feed(node, Input::Tick)
    }

    /// Informs a running agent about its devices.
    pub(super) fn devices_change(&mut self, node: usize) -> Result<(), Violation> {
        let devices = self.nodes[node].seen_devices();
        self.feed(node, Input::Devices(devices))
    }

    pub(super) fn tick(&mut self, node: usize, life: u32, wake: u64) -> Result<(), Violation> {
        let newest = self.nodes[node].process.as_ref().is_some_and(|process| process.wake == wake);
        if !self.lives(node, life) || !newest {
            return Ok(());
        }
        self.feed(node, Input::Tick)
    }

    pub(super) fn answered(&mut self, node: usize, life: u32, id: RequestId, answer: Answer) -> Result<(), Violation> {
        if !self.lives(node, life) {
            return Ok(());
        }
        if !matches!(&answer, Answer::Response(response) if response.status == 304) {
            // After a failure the back-off of the policy applies; after news more polls are allowed.
            self.nodes[node].last_poll = checker::LastPoll::default();
        }
        self.feed(node, Input::Answered { request: id, answer })
    }

    /// Feeds the state machine one input and performs its effects, up to a possible crash.
    fn feed(&mut self, node: usize, input: Input) -> Result<(), Violation> {
        let now = self.now;
        let agent = &mut self.nodes[node];
        let clock = agent.clock(now);
        let Some(process) = &mut agent.process else { return Ok(()) };
        let effects = process.machine.step(input, clock, &mut agent.rng);
        let dies_after = self.chance(self.faults.crash_in_step).then(|| self.dice.random_range(0..=effects.len()));
        for (index, effect) in effects.into_iter().enumerate() {
            if dies_after == Some(index) {
                break;
            }
            self.carry_out(node, effect)?;
        }
        if dies_after.is_some() {
            self.agent_dies(node);
        }
        Ok(())
    }

    pub(super) fn agent_dies(&mut self, node: usize) {
        if self.nodes[node].process.is_none() {
            return;
        }
        let went_through = self.nodes[node].die(&mut self.dice);
        self.note(format_args!("agent {node} crashes, {went_through} pieces of work completed"));
        let delay = self.between_ms(100, 20_000);
        self.schedule(delay, Event::AgentStarts { node });
    }

    fn carry_out(&mut self, node: usize, effect: Effect) -> Result<(), Violation> {
        let life = self.nodes[node].life;
        match effect {
            Effect::Request { id, request } => self.request(node, life, id, request),
            Effect::Persist { write, records } => {
                self.persist(node, life, write, records);
                Ok(())
            }
            Effect::Forget(digests) => {
                self.nodes[node].disk.forget(&digests);
                Ok(())
            }
            Effect::Apply(work) => {
                let agent = &self.nodes[node];
                self.checker.apply_begins(&agent.client, &work, &agent.disk)?;
                self.begin(node, life, Work::Apply(work));
                Ok(())
            }
            Effect::Remove(work) => {
                let agent = &self.nodes[node];
                checker::remove_begins(&agent.client, &work, &agent.disk, &agent.seen_devices())?;
                self.begin(node, life, Work::Remove(work));
                Ok(())
            }
            Effect::Cancel(work) => {
                self.nodes[node].runtime.cancel(work);
                let delay = self.between_ms(1, 500);
                self.schedule(delay, Event::WorkEnds { node, life, work });
                Ok(())
            }
            Effect::Observe(observation) => {
                let delay = self.between_ms(1, 200);
                self.schedule(delay, Event::Looked { node, life, observation });
                Ok(())
            }
            Effect::WakeAt(at) => {
                let clock = self.nodes[node].clock(self.now);
                let process = self.nodes[node].process.as_mut().expect("effects come from a running process");
                process.wake += 1;
                let wake = process.wake;
                self.schedule(at.since(clock).max(WAKE_MIN), Event::Tick { node, life, wake });
                Ok(())
            }
            Effect::Log(event) => {
                if event.level != Level::Debug {
                    let code = event.code.map_or("-", |code| code.number());
                    self.note(format_args!("agent {node} logs [{code}] {}", event.message));
                }
                Ok(())
            }
        }
    }

    fn request(&mut self, node: usize, life: u32, id: RequestId, mut request: Request) -> Result<(), Violation> {
        if self.options.bug == Some(Bug::AcceptedEtag)
            && let Request::Poll { if_none_match, .. } = &mut request
        {
            *if_none_match = self.nodes[node].disk.accepted().and_then(|record| record.etag);
        }
        if let Request::Poll { if_none_match, wait } = &request {
            let now = self.now;
            let agent = &mut self.nodes[node];
            checker::poll_sent(&agent.client, if_none_match.as_deref(), &agent.disk)?;
            agent.last_poll.sent(&agent.client, (life, agent.clock_ahead), wait.is_some(), now)?;
        }
        self.send(node, life, id, request);
        Ok(())
    }

    fn persist(&mut self, node: usize, life: u32, write: WriteId, records: Vec<Record>) {
        let process = self.nodes[node].process.as_mut().expect("effects come from a running process");
        process.writes.push_back(Write { id: write, records: VecDeque::from(records) });
        if process.writes.len() == 1 {
            let delay = self.between_ms(0, 50);
            self.schedule(delay, Event::Written { node, life, write });
        }
    }

    /// One more record is durable; after the last one (or the first failure) the state machine gets the result.
    pub(super) fn written(&mut self, node: usize, life: u32, id: WriteId) -> Result<(), Violation> {
        if !self.lives(node, life) {
            return Ok(());
        }
        let agent = &mut self.nodes[node];
        let process = agent.process.as_mut().expect("the process runs");
        let Some(write) = process.writes.front_mut().filter(|write| write.id == id) else { return Ok(()) };
        let mut result = Ok(());
        if let Some(record) = write.records.pop_front() {
            if !agent.disk.write(&record) {
                write.records.clear();
                result = Err(PersistFailure { disk_full: true, message: "no space left on device".to_owned() });
            } else if let Record::Reconciled(record) = &record {
                self.checker.reconciled_written(&agent.client, record, &agent.disk, &agent.runtime)?;
            }
            self.checker.accepted_durable(&agent.client, &agent.disk)?;
        }
        if !self.nodes[node].process.as_ref().expect("the process runs").writes[0].records.is_empty() {
            let delay = self.between_ms(0, 50);
            self.schedule(delay, Event::Written { node, life, write: id });
            return Ok(());
        }
        let process = self.nodes[node].process.as_mut().expect("the process runs");
        process.writes.pop_front();
        if let Some(next) = process.writes.front().map(|write| write.id) {
            let delay = self.between_ms(0, 50);
            self.schedule(delay, Event::Written { node, life, write: next });
        }
        self.feed(node, Input::Persisted { write: id, result })
    }

    fn begin(&mut self, node: usize, life: u32, work: Work) {
        let id = work.id();
        self.note(format_args!("agent {node} begins {} on {}", kind(&work), work.deployment()));
        self.nodes[node].runtime.begin(work);
        let slow = self.chance(self.faults.work_slow);
        let delay = if slow { self.between_ms(30_000, 180_000) } else { self.between_ms(50, 5_000) };
        self.schedule(delay, Event::WorkEnds { node, life, work: id });
    }

    pub(super) fn work_ends(&mut self, node: usize, life: u32, work: WorkId) -> Result<(), Violation> {
        if !self.lives(node, life) {
            return Ok(());
        }
        let failure = self.faults.work_fails;
        let Some((done, outcome)) = self.nodes[node].runtime.finish(work, failure, &mut self.dice) else {
            return Ok(());
        };
        self.note(format_args!("agent {node} ends {} on {}: {outcome:?}", kind(&done), done.deployment()));
        self.feed(node, Input::WorkFinished { work, outcome })
    }

    pub(super) fn looked(&mut self, node: usize, life: u32, observation: ObservationId) -> Result<(), Violation> {
        if !self.lives(node, life) {
            return Ok(());
        }
        let result = self.nodes[node].runtime.observe();
        self.feed(node, Input::Observed { observation, result })
    }
}

fn kind(work: &Work) -> &'static str {
    match work {
        Work::Apply(_) => "apply",
        Work::Remove(_) => "remove",
    }
}

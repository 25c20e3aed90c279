//! The simulated world: one event queue, one clock, one random seed, one thread, one deterministic order.

mod agents;
mod final_state;
mod long_polls;
mod messages;
mod incidents;

use super::Options;
use super::cast;
use super::checker::Checker;
use super::faults::{Faults, Incident};
use super::node::Node;
use super::operator::Operator;
use super::server::Server;
use super::trace::Trace;
use super::violation::Violation;
use long_polls::{LongPollSupport, OpenLongPoll};
use margrave_agent::machine::io::{Answer, ObservationId, Request, RequestId, WorkId, WriteId};
use margrave_core::time::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};
use std::collections::BTreeMap;
use std::time::Duration;

/// A day in 2026, so that dates look like dates; nothing depends on it.
pub(crate) const BEGINNING: Timestamp = Timestamp(1_780_000_000_000_000);

/// A run with more events than this is in an endless loop.
const EVENTS_MAX: u64 = 60_000;

#[derive(Debug, Clone)]
pub(crate) enum Event {
    AgentStarts {
        node: usize,
    },
    Tick {
        node: usize,
        life: u32,
        wake: u64,
    },
    /// A request reaches the server.
    Arrives {
        node: usize,
        life: u32,
        id: RequestId,
        request: Request,
    },
    /// A response arrives, or the agent's timeout expires.
    Answered {
        node: usize,
        life: u32,
        id: RequestId,
        answer: Answer,
    },
    /// The next record of the current write is on disk.
    Written {
        node: usize,
        life: u32,
        write: WriteId,
    },
    WorkEnds {
        node: usize,
        life: u32,
        work: WorkId,
    },
    Looked {
        node: usize,
        life: u32,
        observation: ObservationId,
    },
    ServerStarts,
    /// A long poll times out.
    HoldEnds {
        node: usize,
        life: u32,
        id: RequestId,
    },
    Publish,
    SeenFlush,
    Operate,
    SpellBegins,
    SpellEnds {
        node: usize,
        spell: Incident,
    },
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    queue: BTreeMap<(Timestamp, u64), Event>,
    scheduled: u64,
    pub(crate) dice: StdRng,
    pub(crate) faults: Faults,
    pub(crate) nodes: Vec<Node>,
    pub(crate) server: Server,
    holding: LongPollSupport,
    held: Vec<OpenLongPoll>,
    pub(crate) operator: Operator,
    pub(crate) checker: Checker,
    pub(crate) trace: Trace,
    pub(crate) options: Options,
}

impl World {
    pub(crate) async fn new(seed: u64, options: Options) -> Result<Self, Violation> {
        let mut dice = StdRng::seed_from_u64(seed);
        let faults = Faults::draw(&mut dice);
        let fleet = cast::fleet(&mut dice);
        let mut server = Server::install(&options, BEGINNING).await?;
        for member in &fleet {
            server.accept(&member.client, BEGINNING).await?;
        }
        let nodes = fleet.into_iter().map(|member| Node::new(member, dice.random())).collect::<Vec<_>>();
        let operator = Operator::new(dice.random());
        let holding = LongPollSupport::draw(&mut dice);
        let mut world = Self {
            now: BEGINNING,
            queue: BTreeMap::new(),
            scheduled: 0,
            dice,
            faults,
            nodes,
            server,
            holding,
            held: Vec::new(),
            operator,
            checker: Checker::default(),
            trace: Trace::new(options.print),
            options,
        };
        for node in 0..world.nodes.len() {
            let delay = world.between_ms(0, 5_000);
            world.schedule(delay, Event::AgentStarts { node });
        }
        world.schedule(Duration::from_secs(3), Event::Operate);
        world.schedule(Duration::from_secs(1), Event::Publish);
        world.schedule(Duration::from_secs(5), Event::SeenFlush);
        world.schedule(Duration::from_secs(5), Event::SpellBegins);
        Ok(world)
    }

    /// Runs with faults, then without faults until the fleet has settled, and checks everything again.
    pub(crate) async fn run(&mut self) -> Result<(), Violation> {
        let peace = self.now.plus(self.options.troubled);
        self.run_until(peace).await?;
        self.stop_faults().await?;
        self.settle().await?;
        self.check_final_state().await
    }

    async fn run_until(&mut self, end: Timestamp) -> Result<(), Violation> {
        while let Some((&(at, _), _)) = self.queue.first_key_value() {
            if at > end {
                break;
            }
            self.step().await?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    async fn step(&mut self) -> Result<(), Violation> {
        let Some(((at, _), event)) = self.queue.pop_first() else { return Ok(()) };
        self.now = self.now.max(at);
        if self.trace.count > EVENTS_MAX {
            return Err(Violation::new("the simulation terminates", format!("{EVENTS_MAX} events were not enough")));
        }
        self.happen(event).await?;
        self.release_changed_polls().await
    }

    async fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::AgentStarts { node } => self.agent_starts(node),
            Event::Tick { node, life, wake } => self.tick(node, life, wake),
            Event::Arrives { node, life, id, request } => self.arrives(node, life, id, request).await,
            Event::Answered { node, life, id, answer } => self.answered(node, life, id, answer),
            Event::Written { node, life, write } => self.written(node, life, write),
            Event::WorkEnds { node, life, work } => self.work_ends(node, life, work),
            Event::Looked { node, life, observation } => self.looked(node, life, observation),
            Event::ServerStarts => self.server_starts().await,
            Event::HoldEnds { node, life, id } => self.long_poll_ends(node, life, id).await,
            Event::Publish => self.publish().await,
            Event::SeenFlush => self.seen_flush().await,
            Event::Operate => self.operate().await,
            Event::SpellBegins => self.incident_begins(),
            Event::SpellEnds { node, spell } => self.incident_ends(node, spell),
        }
    }

    pub(crate) fn schedule(&mut self, delay: Duration, event: Event) {
        self.scheduled += 1;
        self.queue.insert((self.now.plus(delay), self.scheduled), event);
    }

    pub(crate) fn between_ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.dice.random_range(low..=high))
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.dice.random_bool(probability.min(1.0))
    }

    pub(crate) fn note(&mut self, line: impl std::fmt::Display) {
        let at = self.now.since(BEGINNING);
        self.trace.note(format!("{:>10.3} {line}", at.as_secs_f64()));
    }

    /// Whether an event belongs to the node's current process.
    fn lives(&self, node: usize, life: u32) -> bool {
        self.nodes[node].process.is_some() && self.nodes[node].life == life
    }
}

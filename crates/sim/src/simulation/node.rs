//! One edge device: the real agent core as a process that can crash, with a disk, a runtime and a clock that can fail.

use super::cast::Member;
use super::checker::LastPoll;
use super::disk::Disk;
use super::runtime::Runtime;
use margo::ClientId;
use margrave_agent::machine::io::{DeviceReport, Record, RequestId, WriteId};
use margrave_agent::machine::schedule::{Calendar, PollPolicy, RetryPolicy};
use margrave_agent::machine::{Machine, Settings};
use margrave_core::time::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use std::collections::VecDeque;
use std::time::Duration;

pub(crate) struct Node {
    pub(crate) client: ClientId,
    pub(crate) devices: Vec<DeviceReport>,
    /// The last child is unplugged.
    pub(crate) child_gone: bool,
    pub(crate) disk: Disk,
    pub(crate) runtime: Runtime,
    /// Random numbers for the state machine.
    pub(crate) rng: StdRng,
    /// Clock offset in microseconds.
    pub(crate) clock_ahead: i64,
    pub(crate) partitioned: bool,
    /// Counts starts: events of an earlier process are ignored.
    pub(crate) life: u32,
    pub(crate) process: Option<Process>,
    /// The last write (report) of this client that reached the server. A connection preserves order, and the server no
    /// longer reads an earlier connection once it serves a later one.
    pub(crate) newest_write: (u32, RequestId),
    pub(crate) last_poll: LastPoll,
}

pub(crate) struct Process {
    pub(crate) machine: Machine,
    pub(crate) writes: VecDeque<Write>,
    /// Only the newest wake-up request counts.
    pub(crate) wake: u64,
}

/// A pending write, one record after the other.
pub(crate) struct Write {
    pub(crate) id: WriteId,
    pub(crate) records: VecDeque<Record>,
}

impl Node {
    pub(crate) fn new(member: Member, seed: u64) -> Self {
        Self {
            client: member.client,
            devices: member.devices,
            child_gone: false,
            disk: Disk::default(),
            runtime: Runtime::default(),
            rng: StdRng::seed_from_u64(seed),
            clock_ahead: 0,
            partitioned: false,
            life: 0,
            process: None,
            newest_write: (0, RequestId(0)),
            last_poll: LastPoll::default(),
        }
    }

    /// The currently visible devices.
    pub(crate) fn seen_devices(&self) -> Vec<DeviceReport> {
        let gone = usize::from(self.child_gone && self.devices.len() > 1);
        self.devices[..self.devices.len() - gone].to_vec()
    }

    /// The time of its own clock.
    pub(crate) fn clock(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_add(self.clock_ahead))
    }

    pub(crate) fn start(&mut self, now: Timestamp) {
        self.life += 1;
        let clock = self.clock(now);
        let machine = Machine::new(settings(), self.disk.load(), clock, &mut self.rng);
        self.process = Some(Process { machine, writes: VecDeque::new(), wake: 0 });
    }

    /// Crashes the process. A record being written is torn, unfinished work completes or not; returns how many pieces
    /// completed.
    pub(crate) fn die(&mut self, dice: &mut StdRng) -> usize {
        let Some(process) = self.process.take() else { return 0 };
        if let Some(record) = process.writes.front().and_then(|write| write.records.front())
            && !self.disk.full
        {
            self.disk.tear(record, dice);
        }
        self.runtime.orphan(dice)
    }
}

/// Short periods, so that a run of minutes has many polls.
fn settings() -> Settings {
    Settings {
        poll: PollPolicy {
            period: Duration::from_secs(20),
            long_poll: Duration::from_secs(15),
            jitter: 0.2,
            start_spread: Duration::from_secs(2),
            forbidden_period: Duration::from_secs(40),
            calendar: Calendar::default(),
        },
        retry: RetryPolicy { first: Duration::from_secs(1), max: Duration::from_secs(30) },
        observe_period: Duration::from_secs(15),
        component_timeout: Duration::from_mins(1),
    }
}

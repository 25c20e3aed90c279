//! Trouble from outside, the server's life, and the operator's turns.

use super::{Event, World};
use crate::simulation::faults::Spell;
use crate::simulation::server::unexpected;
use crate::simulation::violation::Violation;
use margrave_core::model::ClientState;
use rand::Rng as _;
use std::time::Duration;

impl World {
    pub(super) fn spell_begins(&mut self) -> Result<(), Violation> {
        let Some(every) = self.faults.spell_every else { return Ok(()) };
        let next = every.mul_f64(self.dice.random_range(0.2..2.0));
        self.schedule(next, Event::SpellBegins);
        let spell = Spell::ALL[self.dice.random_range(0..Spell::ALL.len())];
        let node = self.dice.random_range(0..self.nodes.len());
        self.note(format_args!("spell: {spell:?} at {node}"));
        self.cast(node, spell)?;
        let lasts = self.between_ms(500, 60_000);
        self.schedule(lasts, Event::SpellEnds { node, spell });
        Ok(())
    }

    fn cast(&mut self, node: usize, spell: Spell) -> Result<(), Violation> {
        let now = self.now;
        match spell {
            Spell::AgentKilled => self.agent_dies(node),
            Spell::ServerKilled => self.server_dies(),
            Spell::Partition => self.nodes[node].partitioned = true,
            Spell::AgentDiskFull => self.nodes[node].disk.full = true,
            Spell::ClockAt1970 => self.nodes[node].clock_ahead = -now.0,
            Spell::ClockJump => {
                let hours = self.dice.random_range(-48..=48_i64);
                self.nodes[node].clock_ahead = hours * 3_600_000_000;
            }
            Spell::RuntimeDown => self.nodes[node].runtime.down = true,
            Spell::ChildUnreachable => {
                let child = self.nodes[node].devices.last().map(|device| device.id.clone());
                self.nodes[node].runtime.unreachable = child;
            }
            Spell::ChildGone => {
                self.nodes[node].child_gone = true;
                self.devices_change(node)?;
            }
            Spell::Drift => {
                self.nodes[node].runtime.drift(&mut self.dice);
            }
        }
        Ok(())
    }

    pub(super) fn spell_ends(&mut self, node: usize, spell: Spell) -> Result<(), Violation> {
        let agent = &mut self.nodes[node];
        match spell {
            Spell::Partition => agent.partitioned = false,
            Spell::AgentDiskFull => agent.disk.full = false,
            Spell::ClockAt1970 | Spell::ClockJump => agent.clock_ahead = 0,
            Spell::RuntimeDown => agent.runtime.down = false,
            Spell::ChildUnreachable => agent.runtime.unreachable = None,
            Spell::ChildGone => {
                agent.child_gone = false;
                return self.devices_change(node);
            }
            Spell::AgentKilled | Spell::ServerKilled | Spell::Drift => {}
        }
        Ok(())
    }

    /// Whatever was not committed is lost; it comes back after a while.
    pub(super) fn server_dies(&mut self) {
        if !self.server.is_up() {
            return;
        }
        self.note("server dies");
        self.server.die();
        self.held.clear();
        let delay = self.between_ms(200, 30_000);
        self.schedule(delay, Event::ServerStarts);
    }

    pub(super) async fn server_starts(&mut self) -> Result<(), Violation> {
        if self.server.is_up() {
            return Ok(());
        }
        self.note("server starts");
        self.server.start().await?;
        self.check_memory().await
    }

    /// After a start, everything that was acknowledged is still there.
    pub(super) async fn check_memory(&mut self) -> Result<(), Violation> {
        for id in self.checker.words.keys().copied().collect::<Vec<_>>() {
            let reported = self.server.reported(id).await?;
            self.checker.word_kept(id, reported.as_ref(), &[])?;
        }
        for change in self.checker.changes.clone() {
            if self.server.store().change_get(change).await.map_err(unexpected)?.is_none() {
                return Err(Violation::new("an acknowledged change is never lost", change.to_string()));
            }
        }
        self.check_manifests().await
    }

    /// What stands ready to be served obeys the same rules as what was served.
    pub(super) async fn check_manifests(&mut self) -> Result<(), Violation> {
        for client in self.nodes.iter().map(|node| node.client.clone()).collect::<Vec<_>>() {
            let found = self.server.store().manifest(&client).await.map_err(unexpected)?;
            let (version, digest, body) = found.expect("a client has a manifest from its first day");
            self.checker.manifest_served(&client, &body, Some(&digest.etag()))?;
            let head = self.server.parts().heads.get(&client).expect("every client has a head");
            if (head.version, &head.digest) != (version, &digest) {
                let detail = format!("{client}: {} in memory, {version} in the store", head.version);
                return Err(Violation::new("memory and store agree on the manifest", detail));
            }
        }
        Ok(())
    }

    pub(super) async fn publish(&mut self) -> Result<(), Violation> {
        let pause = self.between_ms(100, 1_500);
        self.schedule(pause, Event::Publish);
        if !self.server.is_up() {
            return Ok(());
        }
        self.server.set_clock(self.now);
        let crash = self.chance(self.faults.crash_in_request);
        if crash && self.chance(0.5) {
            self.server_dies();
            return Ok(());
        }
        if let Some(change) = self.server.publish().await? {
            self.note(format_args!("a batch of change {} from {} on", change.id, change.done));
            self.check_manifests().await?;
            if self.chance(self.faults.duplicated) {
                self.server.publish_again(&change).await?;
                self.check_manifests().await?;
            }
        }
        if crash {
            self.server_dies();
        }
        Ok(())
    }

    pub(super) async fn seen_flush(&mut self) -> Result<(), Violation> {
        self.schedule(Duration::from_secs(20), Event::SeenFlush);
        if self.server.is_up() {
            let seen = self.server.parts().heads.drain_seen();
            self.server.store().seen_write(&seen).await.map_err(unexpected)?;
        }
        Ok(())
    }

    pub(super) async fn operate(&mut self) -> Result<(), Violation> {
        let pause = self.between_ms(2_000, 40_000);
        self.schedule(pause, Event::Operate);
        if !self.server.is_up() {
            return Ok(());
        }
        if self.dice.random_bool(0.1) {
            return self.change_policy().await;
        }
        let Some(change) = self.operator.draw(&self.server, self.now).await? else { return Ok(()) };
        let crash = self.chance(self.faults.crash_in_request);
        if crash && self.chance(0.5) {
            self.server_dies();
            return Ok(());
        }
        self.server.store().change_create(&change).await.map_err(unexpected)?;
        self.note(format_args!("operator: {:?} {} of {} devices", change.kind, change.id, change.targets.len()));
        self.checker.changes.push(change.id);
        if crash {
            self.server_dies();
        }
        Ok(())
    }

    /// A client is locked out or let in again. Its workloads are none of this business (invariant 6).
    async fn change_policy(&mut self) -> Result<(), Violation> {
        let node = self.dice.random_range(0..self.nodes.len());
        let client = self.nodes[node].client.clone();
        let out = self.server.parts().heads.get(&client).is_some_and(|head| head.state == ClientState::Accepted);
        let state = if out { ClientState::Retired } else { ClientState::Accepted };
        self.note(format_args!("operator: {client} becomes {}", state.as_str()));
        self.server.set_state(&client, state, self.now).await
    }
}

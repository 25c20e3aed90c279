//! Incidents, server crashes and starts, and operator actions.

use super::{Event, World};
use crate::simulation::faults::Incident;
use crate::simulation::server::unexpected;
use crate::simulation::violation::Violation;
use margrave_core::model::ClientState;
use rand::Rng as _;
use std::time::Duration;

impl World {
    pub(super) fn incident_begins(&mut self) -> Result<(), Violation> {
        let Some(every) = self.faults.spell_every else { return Ok(()) };
        let next = every.mul_f64(self.dice.random_range(0.2..2.0));
        self.schedule(next, Event::SpellBegins);
        let spell = Incident::ALL[self.dice.random_range(0..Incident::ALL.len())];
        let node = self.dice.random_range(0..self.nodes.len());
        self.note(format_args!("incident: {spell:?} at {node}"));
        self.cast(node, spell)?;
        let lasts = self.between_ms(500, 60_000);
        self.schedule(lasts, Event::SpellEnds { node, spell });
        Ok(())
    }

    fn cast(&mut self, node: usize, spell: Incident) -> Result<(), Violation> {
        let now = self.now;
        match spell {
            Incident::AgentKilled => self.agent_dies(node),
            Incident::ServerKilled => self.server_dies(),
            Incident::Partition => self.nodes[node].partitioned = true,
            Incident::AgentDiskFull => self.nodes[node].disk.full = true,
            Incident::ClockAt1970 => self.nodes[node].clock_ahead = -now.0,
            Incident::ClockJump => {
                let hours = self.dice.random_range(-48..=48_i64);
                self.nodes[node].clock_ahead = hours * 3_600_000_000;
            }
            Incident::RuntimeDown => self.nodes[node].runtime.down = true,
            Incident::ChildUnreachable => {
                let child = self.nodes[node].devices.last().map(|device| device.id.clone());
                self.nodes[node].runtime.unreachable = child;
            }
            Incident::ChildGone => {
                self.nodes[node].child_gone = true;
                self.devices_change(node)?;
            }
            Incident::Drift => {
                self.nodes[node].runtime.drift(&mut self.dice);
            }
        }
        Ok(())
    }

    pub(super) fn incident_ends(&mut self, node: usize, spell: Incident) -> Result<(), Violation> {
        let agent = &mut self.nodes[node];
        match spell {
            Incident::Partition => agent.partitioned = false,
            Incident::AgentDiskFull => agent.disk.full = false,
            Incident::ClockAt1970 | Incident::ClockJump => agent.clock_ahead = 0,
            Incident::RuntimeDown => agent.runtime.down = false,
            Incident::ChildUnreachable => agent.runtime.unreachable = None,
            Incident::ChildGone => {
                agent.child_gone = false;
                return self.devices_change(node);
            }
            Incident::AgentKilled | Incident::ServerKilled | Incident::Drift => {}
        }
        Ok(())
    }

    /// Crashes the server; uncommitted data is lost; it restarts after a while.
    pub(super) fn server_dies(&mut self) {
        if !self.server.is_up() {
            return;
        }
        self.note("server crashes");
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
        self.check_acknowledged().await
    }

    /// After a start, everything acknowledged is still stored.
    pub(super) async fn check_acknowledged(&mut self) -> Result<(), Violation> {
        for id in self.checker.words.keys().copied().collect::<Vec<_>>() {
            let reported = self.server.reported(id).await?;
            self.checker.status_kept(id, reported.as_ref(), &[])?;
        }
        for rollout in self.checker.rollouts.clone() {
            if self.server.store().rollout_get(rollout).await.map_err(unexpected)?.is_none() {
                return Err(Violation::new("an acknowledged rollout is never lost", rollout.to_string()));
            }
        }
        self.check_manifests().await
    }

    /// Manifests ready to be served obey the same rules as served ones.
    pub(super) async fn check_manifests(&mut self) -> Result<(), Violation> {
        for client in self.nodes.iter().map(|node| node.client.clone()).collect::<Vec<_>>() {
            let found = self.server.store().manifest(&client).await.map_err(unexpected)?;
            let (version, digest, body) = found.expect("every client has a manifest from its creation");
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
        if let Some(rollout) = self.server.publish().await? {
            self.note(format_args!("a batch of rollout {} from {}", rollout.id, rollout.done));
            self.check_manifests().await?;
            if self.chance(self.faults.duplicated) {
                self.server.publish_again(&rollout).await?;
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
            return self.rollout_policy().await;
        }
        let Some(rollout) = self.operator.draw(&self.server, self.now).await? else { return Ok(()) };
        let crash = self.chance(self.faults.crash_in_request);
        if crash && self.chance(0.5) {
            self.server_dies();
            return Ok(());
        }
        self.server.store().rollout_create(&rollout).await.map_err(unexpected)?;
        self.note(format_args!("operator: {:?} {} of {} devices", rollout.kind, rollout.id, rollout.targets.len()));
        self.checker.rollouts.push(rollout.id);
        if crash {
            self.server_dies();
        }
        Ok(())
    }

    /// Blocks or accepts a client. Its workloads are not affected (invariant 6).
    async fn rollout_policy(&mut self) -> Result<(), Violation> {
        let node = self.dice.random_range(0..self.nodes.len());
        let client = self.nodes[node].client.clone();
        let out = self.server.parts().heads.get(&client).is_some_and(|head| head.state == ClientState::Accepted);
        let state = if out { ClientState::Decommissioned } else { ClientState::Accepted };
        self.note(format_args!("operator: {client} becomes {}", state.as_str()));
        self.server.set_state(&client, state, self.now).await
    }
}

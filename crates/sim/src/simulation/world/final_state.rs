//! The faults stop, the fleet settles, and all invariants are verified again.

use super::{Event, World};
use crate::simulation::faults::Faults;
use crate::simulation::operator;
use crate::simulation::server::unexpected;
use crate::simulation::violation::Violation;
use margo::manifest::StateManifest;
use margrave_agent::machine::Settled;
use margrave_agent::machine::io::Run;
use margrave_core::deployment_state::{DeploymentState, state_of};
use margrave_core::model::{ClientState, Desired};
use margrave_core::time::Timestamp;
use margrave_store::DeploymentFilter;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longer than all backoffs, blocks and observation periods together.
const SETTLE_MAX: Duration = Duration::from_mins(30);

/// Not a multiple of any agent period, so that checks hit different moments.
const CHECK_INTERVAL: Duration = Duration::from_millis(4_700);

impl World {
    /// Stops all faults: restarts processes, frees disks, repairs runtimes.
    pub(super) async fn stop_faults(&mut self) -> Result<(), Violation> {
        self.note("faults stop");
        self.faults = Faults::none();
        for node in &mut self.nodes {
            node.partitioned = false;
            node.disk.full = false;
            node.clock_ahead = 0;
            node.runtime.down = false;
            node.runtime.unreachable = None;
            node.child_gone = false;
        }
        self.queue.retain(|_, event| !matches!(event, Event::Operate | Event::SpellBegins));
        self.server_starts().await?;
        for node in 0..self.nodes.len() {
            self.agent_starts(node)?;
            self.devices_change(node)?;
            let client = self.nodes[node].client.clone();
            self.server.set_state(&client, ClientState::Accepted, self.now).await?;
        }
        Ok(())
    }

    pub(super) async fn settle(&mut self) -> Result<(), Violation> {
        let end = self.now.plus(SETTLE_MAX);
        let mut last = String::new();
        while self.now < end {
            self.run_until(self.now.plus(CHECK_INTERVAL)).await?;
            match self.unsettled().await? {
                None => return Ok(()),
                Some(why) => last = why,
            }
        }
        Err(Violation::new("the fleet converges after the faults stop", last))
    }

    /// A remaining difference between desired and actual state, as seen by the agents and the server.
    async fn unsettled(&self) -> Result<Option<String>, Violation> {
        for (index, node) in self.nodes.iter().enumerate() {
            let settled = node.process.as_ref().map(|process| process.machine.settled());
            if settled != Some(Settled::UpToDate) {
                return Ok(Some(format!("agent {index} is {settled:?}")));
            }
        }
        // A workload that just stopped has not been observed yet.
        if let Err(violation) = self.check_workloads().await {
            return Ok(Some(violation.to_string()));
        }
        let offline_before = self.now.minus(Duration::from_mins(5));
        let summary = self.server.store().summary(offline_before).await.map_err(unexpected)?;
        if summary.rollouts_unfinished > 0 {
            return Ok(Some(format!("{} rollouts are unfinished", summary.rollouts_unfinished)));
        }
        let filter = DeploymentFilter { with_absent: true, ..DeploymentFilter::default() };
        let views =
            self.server.store().deployments_page(&filter, offline_before, None, 1000).await.map_err(unexpected)?;
        for view in views {
            // A client that was offline from before the creation until after the removal reports nothing about it.
            if view.deployment.desired == Desired::Absent && view.reported.is_none() {
                continue;
            }
            let deployment_state =
                state_of(&view.deployment, view.reported.as_ref(), view.last_seen_at, offline_before);
            if !deployment_state.is_done() {
                let reported = view.reported.as_ref().map(|word| String::from_utf8_lossy(&word.body).into_owned());
                return Ok(Some(format!(
                    "{} of {} is {} at target {}: {reported:?}",
                    view.deployment.id,
                    view.deployment.client,
                    deployment_state.as_str(),
                    view.deployment.target_version
                )));
            }
        }
        Ok(None)
    }

    pub(super) async fn check_final_state(&mut self) -> Result<(), Violation> {
        self.check_acknowledged().await?;
        self.check_workloads().await?;
        self.check_rollouts().await?;
        self.check_counts().await?;
        match self.server.store().audit_verify().await.map_err(unexpected)? {
            Ok(_) => Ok(()),
            Err(seq) => Err(Violation::new("the audit chain is intact", format!("record {seq}"))),
        }
    }

    /// The workloads match the newest manifests exactly.
    async fn check_workloads(&self) -> Result<(), Violation> {
        for node in &self.nodes {
            let found = self.server.store().manifest(&node.client).await.map_err(unexpected)?;
            let (_, _, body) = found.expect("every client has a manifest from its creation");
            let manifest = StateManifest::read(&body).expect("checked when it was published").document;
            let desired: BTreeMap<_, _> =
                manifest.deployments.into_iter().map(|desired| (desired.deployment_id, desired.digest)).collect();
            let all_run = node.runtime.workloads.iter().all(|(id, workload)| {
                let good =
                    |(digest, run): &(margo::Digest, Run)| desired.get(id) == Some(digest) && *run == Run::Running;
                !workload.components.is_empty() && workload.components.values().all(good)
            });
            if !all_run || node.runtime.workloads.len() != desired.len() {
                let detail = format!("{}: {:?} instead of {desired:?}", node.client, node.runtime.workloads);
                return Err(Violation::new("the workloads match the manifest", detail));
            }
        }
        Ok(())
    }

    /// Every acknowledged rollout completed exactly once: one revision per target that was not skipped.
    async fn check_rollouts(&self) -> Result<(), Violation> {
        let mut expected: BTreeMap<margo::DeploymentId, i64> = BTreeMap::new();
        for id in &self.checker.rollouts {
            let rollout = self.server.store().rollout_get(*id).await.map_err(unexpected)?;
            let Some(rollout) = rollout.filter(|rollout| rollout.finished_at.is_some()) else {
                return Err(Violation::new("an acknowledged rollout completes", id.to_string()));
            };
            for target in self.server.store().rollout_targets(*id).await.map_err(unexpected)? {
                let skipped = rollout.skipped.iter().any(|(deployment, _)| *deployment == target.deployment);
                *expected.entry(target.deployment).or_default() += i64::from(!skipped);
            }
        }
        let filter = DeploymentFilter { with_absent: true, ..DeploymentFilter::default() };
        let views =
            self.server.store().deployments_page(&filter, Timestamp(0), None, 1000).await.map_err(unexpected)?;
        let found: BTreeMap<_, _> =
            views.into_iter().map(|view| (view.deployment.id, view.deployment.revision)).collect();
        expected.retain(|_, revision| *revision > 0);
        if found != expected {
            let detail = format!("revisions are {found:?}, expected {expected:?}");
            return Err(Violation::new("a rollout completes exactly once", detail));
        }
        Ok(())
    }

    /// Counting one by one and in SQL gives the same result.
    async fn check_counts(&self) -> Result<(), Violation> {
        let offline_before = self.now.minus(Duration::from_mins(5));
        let summary = self.server.store().summary(offline_before).await.map_err(unexpected)?;
        let converged = summary.deployments.get(&DeploymentState::UpToDate).copied().unwrap_or_default();
        let present = operator::present(&self.server).await?.len() as u64;
        if converged < present {
            let detail = format!("{present} run, the summary says {:?}", summary.deployments);
            return Err(Violation::new("the summary is correct", detail));
        }
        Ok(())
    }
}

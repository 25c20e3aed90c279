//! The workloads of one agent: slow, failing, drifting, and independent of the agent process.

use indexmap::IndexMap;
use margo::description::Component;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_agent::machine::io::{
    ApplyWork, FailureKind, Observation, ObservedComponent, ObservedDeployment, RemoveWork, Run, WorkFailure, WorkId,
    WorkOutcome,
};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, HashSet};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work {
    Apply(ApplyWork),
    Remove(RemoveWork),
}

impl Work {
    pub(crate) fn id(&self) -> WorkId {
        match self {
            Self::Apply(work) => work.work,
            Self::Remove(work) => work.work,
        }
    }
    pub(crate) fn deployment(&self) -> DeploymentId {
        match self {
            Self::Apply(work) => work.deployment,
            Self::Remove(work) => work.deployment,
        }
    }
}

/// One running deployment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
    pub(crate) device: DeviceId,
    pub(crate) components: IndexMap<String, (Digest, Run)>,
}

#[derive(Debug, Default)]
pub(crate) struct Runtime {
    pub(crate) workloads: BTreeMap<DeploymentId, Workload>,
    in_progress: BTreeMap<WorkId, Work>,
    /// Cancelled work; ends as cancelled unless it has completed before.
    cancelled: Vec<WorkId>,
    /// The runtime does not respond.
    pub(crate) down: bool,
    /// A child device that does not respond.
    pub(crate) unreachable: Option<DeviceId>,
    /// Every component that was completely applied, with its revision.
    landed: HashSet<(DeploymentId, String, Digest)>,
}

impl Runtime {
    pub(crate) fn begin(&mut self, work: Work) {
        self.in_progress.insert(work.id(), work);
    }

    pub(crate) fn cancel(&mut self, work: WorkId) {
        if self.in_progress.contains_key(&work) {
            self.cancelled.push(work);
        }
    }

    /// Completes a piece of work with success or failure. `None` if it has already ended.
    pub(crate) fn finish(&mut self, work: WorkId, failure: f64, rng: &mut StdRng) -> Option<(Work, WorkOutcome)> {
        let work = self.in_progress.remove(&work)?;
        let cancelled = self.cancelled.iter().position(|id| *id == work.id());
        if let Some(index) = cancelled {
            self.cancelled.swap_remove(index);
            // A cancellation may be too late or leave the work partly done.
            if rng.random_bool(0.5) {
                if rng.random_bool(0.5) {
                    self.carry_out(&work);
                }
                return Some((work, WorkOutcome::Cancelled));
            }
        }
        if let Some(kind) = self.trouble_with(&work, failure, rng) {
            if kind == FailureKind::Exited {
                self.carry_out(&work);
                self.stop(&work);
            }
            let message = format!("simulated failure: {kind:?}");
            return Some((work, WorkOutcome::Failed(WorkFailure { kind, message })));
        }
        self.carry_out(&work);
        Some((work, WorkOutcome::Done))
    }

    fn trouble_with(&self, work: &Work, failure: f64, rng: &mut StdRng) -> Option<FailureKind> {
        if self.down {
            return Some(FailureKind::Unavailable);
        }
        let device = match work {
            Work::Apply(work) => &work.device,
            Work::Remove(work) => &work.device,
        };
        if self.unreachable.as_ref() == Some(device) {
            return Some(FailureKind::Unreachable);
        }
        let failed = rng.random_bool(failure);
        failed.then(|| match work {
            Work::Apply(_) if rng.random_bool(0.5) => FailureKind::Exited,
            _ => FailureKind::Failed,
        })
    }

    fn carry_out(&mut self, work: &Work) {
        match work {
            Work::Apply(work) => {
                let name = work.document.spec.deployment_profile.components[work.component].name.clone();
                let workload = self
                    .workloads
                    .entry(work.deployment)
                    .or_insert_with(|| Workload { device: work.device.clone(), components: IndexMap::new() });
                workload.device = work.device.clone();
                self.landed.insert((work.deployment, name.clone(), work.digest.clone()));
                workload.components.insert(name, (work.digest.clone(), Run::Running));
            }
            Work::Remove(RemoveWork { deployment, component: Some(name), .. }) => {
                if let Some(workload) = self.workloads.get_mut(deployment) {
                    workload.components.shift_remove(name);
                }
            }
            Work::Remove(RemoveWork { deployment, component: None, .. }) => {
                self.workloads.remove(deployment);
            }
        }
    }

    fn stop(&mut self, work: &Work) {
        let Work::Apply(work) = work else { return };
        let name = &work.document.spec.deployment_profile.components[work.component].name;
        let component = self.workloads.get_mut(&work.deployment).and_then(|workload| workload.components.get_mut(name));
        if let Some((_, run)) = component {
            *run = Run::Stopped { message: "exited with 1".to_owned() };
        }
    }

    /// The agent crashes; its unfinished work completes or not. Returns how many pieces completed.
    pub(crate) fn orphan(&mut self, rng: &mut StdRng) -> usize {
        self.cancelled.clear();
        let mut went_through = 0;
        for work in std::mem::take(&mut self.in_progress).into_values() {
            if !self.down && rng.random_bool(0.5) {
                self.carry_out(&work);
                went_through += 1;
            }
        }
        went_through
    }

    /// Whether every component of this revision was ever applied.
    pub(crate) fn has_landed(&self, deployment: DeploymentId, digest: &Digest, components: &[Component]) -> bool {
        components.iter().all(|component| self.landed.contains(&(deployment, component.name.clone(), digest.clone())))
    }

    /// A random workload stops.
    pub(crate) fn drift(&mut self, rng: &mut StdRng) -> Option<DeploymentId> {
        let index = rng.random_range(0..self.workloads.len().max(1));
        let (id, workload) = self.workloads.iter_mut().nth(index)?;
        let (_, run) = workload.components.values_mut().next()?;
        *run = Run::Stopped { message: "killed".to_owned() };
        Some(*id)
    }

    pub(crate) fn observe(&self) -> Result<Observation, String> {
        if self.down {
            return Err("simulated failure: the runtime does not respond".to_owned());
        }
        let see = |workload: &Workload| {
            if self.unreachable.as_ref() == Some(&workload.device) {
                return ObservedDeployment::Unknown { device: workload.device.clone() };
            }
            let components = workload
                .components
                .iter()
                .map(|(name, (digest, run))| {
                    let seen = ObservedComponent { digest: digest.clone(), run: run.clone(), differs: Vec::new() };
                    (name.clone(), seen)
                })
                .collect();
            ObservedDeployment::Known { device: workload.device.clone(), components }
        };
        let deployments = self.workloads.iter().map(|(id, workload)| (*id, see(workload))).collect();
        Ok(Observation { deployments, restarted: Vec::new() })
    }
}

//! The simulated workloads as plain data: shared by the agent and the seeded simulation.

use super::script::{Fail, Script, Subject};
use crate::machine::io::{
    ApplyWork, FailureKind, Observation, ObservedComponent, ObservedDeployment, RemoveWork, Run, WorkFailure,
};
use crate::runtimes::LogsQuery;
use indexmap::IndexMap;
use margo::{DeploymentId, DeviceId, Digest};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    pub deployments: IndexMap<DeploymentId, Placed>,
    /// Failures of each component of a revision, for rules that fail a number of times.
    failures: IndexMap<String, u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placed {
    pub device: DeviceId,
    pub application: String,
    pub components: IndexMap<String, PlacedComponent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedComponent {
    pub digest: Digest,
    /// Applied completely; `false` while it is being worked on.
    pub complete: bool,
    /// Number of starts and restarts: healthy components must not be restarted.
    pub starts: u32,
    pub stopped: Option<String>,
    /// Manual changes since it was applied.
    #[serde(default)]
    pub differs: Vec<String>,
}

impl World {
    /// The work has started: the component exists, but is not complete.
    pub fn begin(&mut self, work: &ApplyWork) {
        self.put(work, false, None);
    }

    pub fn apply(&mut self, work: &ApplyWork, script: &Script) -> Result<(), WorkFailure> {
        reachable(&work.device, script)?;
        let subject = Subject::of(work);
        let rule = script.rule(subject);
        let failure = |kind, otherwise: String| {
            let message = rule.and_then(|rule| rule.message.clone()).unwrap_or(otherwise);
            Err(WorkFailure { kind, message })
        };
        let key = format!("{}/{}/{}", work.deployment, subject.component, work.digest.hex());
        let failed = self.failures.get(&key).copied().unwrap_or(0);
        let fails = match rule.and_then(|rule| rule.fail.as_ref()) {
            None => false,
            Some(Fail::Times(times)) => failed < *times,
            Some(Fail::Word(_)) => true,
        };
        if fails {
            self.failures.insert(key, failed.saturating_add(1));
            self.put(work, false, None);
            return failure(FailureKind::Failed, "the simulated runtime is configured to fail".to_owned());
        }
        if let Some(code) = rule.and_then(|rule| rule.exit_code).filter(|code| *code != 0) {
            let text = format!("exited with code {code}");
            self.put(work, true, Some(text.clone()));
            return failure(FailureKind::Exited, text);
        }
        self.put(work, true, None);
        Ok(())
    }

    fn put(&mut self, work: &ApplyWork, complete: bool, stopped: Option<String>) {
        let subject = Subject::of(work);
        let placed = self.deployments.entry(work.deployment).or_insert_with(|| Placed {
            device: work.device.clone(),
            application: subject.application.to_owned(),
            components: IndexMap::new(),
        });
        placed.device = work.device.clone();
        let old = placed.components.get(subject.component);
        let resumed = old.is_some_and(|old| !old.complete && complete && old.digest == work.digest);
        let starts = old.map_or(0, |old| old.starts) + u32::from(!resumed);
        let component = PlacedComponent { digest: work.digest.clone(), complete, starts, stopped, differs: Vec::new() };
        placed.components.insert(subject.component.to_owned(), component);
    }

    pub fn remove(&mut self, work: &RemoveWork, script: &Script) -> Result<(), WorkFailure> {
        reachable(&work.device, script)?;
        match &work.component {
            None => {
                self.deployments.shift_remove(&work.deployment);
                let prefix = work.deployment.to_string();
                self.failures.retain(|key, _| !key.starts_with(&prefix));
            }
            Some(name) => {
                if let Some(placed) = self.deployments.get_mut(&work.deployment) {
                    placed.components.shift_remove(name);
                }
            }
        }
        Ok(())
    }

    /// One log line for each start.
    pub fn logs(&self, requested: &LogsQuery) -> Result<String, String> {
        let LogsQuery { deployment, component, lines } = requested;
        let placed =
            self.deployments.get(deployment).ok_or_else(|| format!("deployment {deployment} does not exist"))?;
        let requested = |name: &str| component.as_deref().is_none_or(|only| only == name);
        let log_lines: Vec<String> = placed
            .components
            .iter()
            .filter(|(name, _)| requested(name))
            .flat_map(|(name, seen)| {
                let first = seen.starts.saturating_sub(u32::try_from(*lines).unwrap_or(u32::MAX));
                (first..seen.starts).map(move |start| format!("{name} | simulated start {}", start + 1))
            })
            .collect();
        match component {
            Some(name) if !placed.components.contains_key(name) => Err(format!("there is no component `{name}`")),
            _ => Ok(log_lines.join("\n")),
        }
    }

    pub fn observe(&self, script: &Script) -> Observation {
        let deployments = self.deployments.iter().map(|(id, placed)| (*id, seen(*id, placed, script))).collect();
        Observation { deployments, restarted: Vec::new() }
    }
}

fn seen(id: DeploymentId, placed: &Placed, script: &Script) -> ObservedDeployment {
    let device = placed.device.clone();
    if reachable(&device, script).is_err() {
        return ObservedDeployment::Unknown { device };
    }
    let components = placed.components.iter().filter_map(|(name, component)| {
        let subject = Subject { deployment: id, application: &placed.application, device: &device, component: name };
        let rule = script.rule(subject);
        if rule.is_some_and(|rule| rule.missing) {
            return None;
        }
        let scripted = rule.and_then(|rule| rule.differs.clone());
        let differs = component.differs.iter().cloned().chain(scripted).collect();
        let exited = rule.and_then(|rule| rule.exit_code).filter(|code| *code != 0);
        let run = match (&component.stopped, exited) {
            // What stopped stays stopped until it is applied again.
            (Some(message), _) => Run::Stopped { message: message.clone() },
            (None, Some(code)) => Run::Stopped { message: format!("exited with code {code}") },
            (None, None) if component.complete => Run::Running,
            (None, None) => Run::Stopped { message: "was not applied completely".to_owned() },
        };
        Some((name.clone(), ObservedComponent { digest: component.digest.clone(), run, differs }))
    });
    let components = components.collect();
    ObservedDeployment::Known { device, components }
}

fn reachable(device: &DeviceId, script: &Script) -> Result<(), WorkFailure> {
    if script.unreachable.contains(device) {
        return Err(WorkFailure { kind: FailureKind::Unreachable, message: format!("`{device}` does not answer") });
    }
    Ok(())
}

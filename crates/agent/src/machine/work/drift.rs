//! Drift: found, reported, and corrected or left alone, as the policy of the deployment says.

use super::super::io::{Level, ObservedComponent, ObservedDeployment, Run};
use super::super::statuses::{all_components, status_error};
use super::super::{Document, Goal, Machine};
use crate::codes::Code;
use indexmap::IndexMap;
use margo::deployment::ApplicationDeployment;
use margo::status::{ComponentStatus, State, StatusError};
use margo::{DeploymentId, Digest};
use margrave_core::policy::{Drift, Policy};
use margrave_core::time::Timestamp;

/// The differences by component, as text. Never empty.
pub(in super::super) type Differences = Vec<(String, String)>;

/// The last drift of a deployment, for `explain`.
#[derive(Debug, Clone)]
pub(in super::super) struct DriftNotice {
    pub(in super::super) at: Timestamp,
    pub(in super::super) differs: Differences,
    /// As text.
    pub(in super::super) done: &'static str,
    /// It was observed to run as applied since.
    pub(in super::super) over: bool,
}

const REPAIRED: &str = "repairing";

impl DriftNotice {
    /// Whether the agent repairs it.
    pub(super) fn is_repair(&self) -> bool {
        self.done == REPAIRED && !self.over
    }
}

/// Every component that should run from this revision and does not, or differs from what was applied.
fn differences(document: &Document, digest: &Digest, seen: Option<&ObservedDeployment>) -> Differences {
    let Document::Ready(document) = document else { return Vec::new() };
    let nothing = IndexMap::new();
    let components = match seen {
        Some(ObservedDeployment::Unknown { .. }) => return Vec::new(),
        Some(ObservedDeployment::Known { components, .. }) => components,
        None => &nothing,
    };
    let desired = document.spec.deployment_profile.components.iter();
    let mut found: Differences = desired
        .filter_map(|component| {
            let differs = match components.get(&component.name) {
                None => Some("is missing".to_owned()),
                Some(seen) => difference(seen, digest),
            };
            differs.map(|differs| (component.name.clone(), differs))
        })
        .collect();
    let names = &document.spec.deployment_profile.components;
    let strange = components.keys().filter(|name| !names.iter().any(|component| component.name == **name));
    found.extend(strange.map(|name| (name.clone(), "is not part of the deployment".to_owned())));
    found
}

fn difference(seen: &ObservedComponent, digest: &Digest) -> Option<String> {
    let ObservedComponent { digest: applied, run, differs } = seen;
    let mut words = Vec::new();
    if applied != digest {
        words.push("runs from another revision".to_owned());
    }
    if let Run::Stopped { message } = run {
        words.push(format!("is not running: {message}"));
    }
    // A component that is not running has its reason already.
    let is_new =
        |difference: &&String| !matches!(run, Run::Stopped { message } if message.contains(difference.as_str()));
    words.extend(differs.iter().filter(is_new).cloned());
    (!words.is_empty()).then(|| words.join("; "))
}

/// All of it in one sentence.
pub(in super::super) fn sentence(differs: &Differences) -> String {
    differs.iter().map(|(name, words)| format!("`{name}` {words}")).collect::<Vec<_>>().join(", ")
}

impl Machine {
    /// Whether drift of this deployment is to be repaired now.
    pub(super) fn corrects(&self, goal: &Goal, id: DeploymentId) -> bool {
        // What ran before a reboot starts again, independent of the drift policy.
        self.work.restart.contains(&id) || (policy(goal, id).drift == Drift::Correct && self.technician.is_none())
    }

    /// Handles a deployment that drifted. Returns whether it counts as applied: deliberately uncorrected drift does.
    pub(super) fn drifted(
        &mut self,
        goal: &Goal,
        id: DeploymentId,
        seen: Option<&ObservedDeployment>,
        now: Timestamp,
    ) -> bool {
        let (Some(document), Some(digest)) = (goal.document(id), goal.desired(id)) else { return false };
        let differs = differences(document, digest, seen);
        if differs.is_empty() {
            return false;
        }
        let drift = policy(goal, id).drift;
        if self.corrects(goal, id) {
            // Stopped workloads after a reboot are not drift.
            if !self.work.restart.contains(&id) {
                self.notice(id, differs, REPAIRED, now);
            }
            return false;
        }
        if drift != Drift::Ignore {
            let held = self.technician.is_some() && drift == Drift::Correct;
            let done = if held {
                "not corrected during the maintenance hold"
            } else {
                "not corrected (drift policy `report`)"
            };
            self.report_drift(goal, id, seen, &differs, done, now);
            self.notice(id, differs, done, now);
            return !held;
        }
        true
    }

    /// Logged once for as long as it stays the same.
    fn notice(&mut self, id: DeploymentId, differs: Differences, done: &'static str, now: Timestamp) {
        let same = |known: &DriftNotice| known.differs == differs && known.done == done && !known.over;
        if self.work.noticed.get(&id).is_some_and(same) {
            return;
        }
        let message = format!("deployment differs from what was applied: {}; {done}", sentence(&differs));
        self.log(Level::Warn, Some(Code::Drifted), Some(id), message);
        self.work.noticed.insert(id, DriftNotice { at: now, differs, done, over: false });
    }

    fn report_drift(
        &mut self,
        goal: &Goal,
        id: DeploymentId,
        seen: Option<&ObservedDeployment>,
        differs: &Differences,
        done: &str,
        now: Timestamp,
    ) {
        let (Some(Document::Ready(document)), Some(digest)) = (goal.document(id), goal.desired(id)) else { return };
        let mut components = all_components(document, State::Installed, None);
        for component in &mut components {
            if let Some((_, words)) = differs.iter().find(|(name, _)| *name == component.name) {
                component.state = State::Failed;
                component.error = Some(status_error(Code::Drifted, &component.name, &format!("{words}; {done}")));
            }
        }
        let message = format!("{}; {done}", sentence(differs));
        let error = status_error(Code::Drifted, &document.metadata.name, &message);
        let reported_device = self.statuses.get(&id).and_then(|entry| entry.status.device_id.clone());
        let device = seen.map(|seen| seen.device().clone()).or(reported_device);
        self.set_status(id, device, State::Failed, Some(error), components, Some(digest.clone()), now);
    }

    /// The error in a report while drift is repaired.
    pub(super) fn repair_error(&self, id: DeploymentId, document: &ApplicationDeployment) -> Option<StatusError> {
        let noticed = self.work.noticed.get(&id)?;
        let message = format!("{}; {REPAIRED}", sentence(&noticed.differs));
        Some(status_error(Code::Drifted, &document.metadata.name, &message))
    }
}

/// Adds the reason to the component that is repaired.
pub(super) fn mark_repair(noticed: Option<&DriftNotice>, component: &mut ComponentStatus) {
    let differs = noticed.and_then(|noticed| noticed.differs.iter().find(|(name, _)| *name == component.name));
    if let Some((_, words)) = differs {
        component.error = Some(status_error(Code::Drifted, &component.name, &format!("{words}; {REPAIRED}")));
    }
}

/// The newest policy applies, even while an earlier revision runs.
pub(in super::super) fn policy(goal: &Goal, id: DeploymentId) -> Policy {
    match goal.documents.get(&id) {
        Some(Document::Ready(document)) => Policy::of(document),
        _ => Policy::default(),
    }
}

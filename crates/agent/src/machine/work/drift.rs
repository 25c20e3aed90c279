//! What runs is not what was applied: found, told, repaired or left alone, as the policy of the deployment says.

use super::super::io::{Level, Run, SeenComponent, SeenDeployment};
use super::super::statuses::{all_components, status_error};
use super::super::{Document, Goal, Machine};
use crate::codes::Code;
use indexmap::IndexMap;
use margo::deployment::ApplicationDeployment;
use margo::status::{ComponentStatus, State, StatusError};
use margo::{DeploymentId, Digest};
use margrave_core::policy::{Drift, Policy};
use margrave_core::time::Timestamp;

/// What differs, by component, in words. Never empty.
pub(in super::super) type Differences = Vec<(String, String)>;

/// What was noticed last about a deployment, for `explain`.
#[derive(Debug, Clone)]
pub(in super::super) struct Noticed {
    pub(in super::super) at: Timestamp,
    pub(in super::super) differs: Differences,
    /// In words.
    pub(in super::super) done: &'static str,
    /// It has been seen to run as applied since.
    pub(in super::super) over: bool,
}

const REPAIRED: &str = "is repaired";

impl Noticed {
    /// Something is being done about it.
    pub(super) fn is_repair(&self) -> bool {
        self.done == REPAIRED && !self.over
    }
}

/// Every component that should run from this revision and does not, or not as it was applied.
fn differences(document: &Document, digest: &Digest, seen: Option<&SeenDeployment>) -> Differences {
    let Document::Ready(document) = document else { return Vec::new() };
    let nothing = IndexMap::new();
    let components = match seen {
        Some(SeenDeployment::Unknown { .. }) => return Vec::new(),
        Some(SeenDeployment::Known { components, .. }) => components,
        None => &nothing,
    };
    let wanted = document.spec.deployment_profile.components.iter();
    let mut found: Differences = wanted
        .filter_map(|component| {
            let differs = match components.get(&component.name) {
                None => Some("is gone".to_owned()),
                Some(seen) => difference(seen, digest),
            };
            differs.map(|differs| (component.name.clone(), differs))
        })
        .collect();
    let names = &document.spec.deployment_profile.components;
    let strange = components.keys().filter(|name| !names.iter().any(|component| component.name == **name));
    found.extend(strange.map(|name| (name.clone(), "is there and should not be".to_owned())));
    found
}

fn difference(seen: &SeenComponent, digest: &Digest) -> Option<String> {
    let SeenComponent { digest: applied, run, differs } = seen;
    let mut words = Vec::new();
    if applied != digest {
        words.push("runs from another revision".to_owned());
    }
    if let Run::Stopped { message } = run {
        words.push(format!("does not run: {message}"));
    }
    // What does not run has said why already.
    let told = |difference: &&String| !matches!(run, Run::Stopped { message } if message.contains(difference.as_str()));
    words.extend(differs.iter().filter(told).cloned());
    (!words.is_empty()).then(|| words.join("; "))
}

/// All of it in one sentence.
pub(in super::super) fn sentence(differs: &Differences) -> String {
    differs.iter().map(|(name, words)| format!("`{name}` {words}")).collect::<Vec<_>>().join(", ")
}

impl Machine {
    /// Whether drift of this deployment is to be repaired now.
    pub(super) fn corrects(&self, goal: &Goal, id: DeploymentId) -> bool {
        // What ran before the device was started anew comes up again, whatever the policy is about a hand on it.
        self.work.restart.contains(&id) || (policy(goal, id).drift == Drift::Correct && self.technician.is_none())
    }

    /// A deployment that drifted. Says whether it counts as carried out: what is left alone by choice does.
    pub(super) fn drifted(
        &mut self,
        goal: &Goal,
        id: DeploymentId,
        seen: Option<&SeenDeployment>,
        now: Timestamp,
    ) -> bool {
        let (Some(document), Some(digest)) = (goal.document(id), goal.wanted(id)) else { return false };
        let differs = differences(document, digest, seen);
        if differs.is_empty() {
            return false;
        }
        let drift = policy(goal, id).drift;
        if self.corrects(goal, id) {
            // After a reboot that things are down is no drift.
            if !self.work.restart.contains(&id) {
                self.notice(id, differs, REPAIRED, now);
            }
            return false;
        }
        if drift != Drift::Ignore {
            let held = self.technician.is_some() && drift == Drift::Correct;
            let done = if held {
                "left as it is while a technician holds changes"
            } else {
                "left as it is (drift policy `report`)"
            };
            self.tell_drift(goal, id, seen, &differs, done, now);
            self.notice(id, differs, done, now);
            return !held;
        }
        true
    }

    /// Logged once for as long as it stays the same.
    fn notice(&mut self, id: DeploymentId, differs: Differences, done: &'static str, now: Timestamp) {
        let same = |known: &Noticed| known.differs == differs && known.done == done && !known.over;
        if self.work.noticed.get(&id).is_some_and(same) {
            return;
        }
        let message = format!("deployment differs from what was applied: {}; {done}", sentence(&differs));
        self.log(Level::Warn, Some(Code::Drifted), Some(id), message);
        self.work.noticed.insert(id, Noticed { at: now, differs, done, over: false });
    }

    fn tell_drift(
        &mut self,
        goal: &Goal,
        id: DeploymentId,
        seen: Option<&SeenDeployment>,
        differs: &Differences,
        done: &str,
        now: Timestamp,
    ) {
        let (Some(Document::Ready(document)), Some(digest)) = (goal.document(id), goal.wanted(id)) else { return };
        let mut components = all_components(document, State::Installed, None);
        for component in &mut components {
            if let Some((_, words)) = differs.iter().find(|(name, _)| *name == component.name) {
                component.state = State::Failed;
                component.error = Some(status_error(Code::Drifted, &component.name, &format!("{words}; {done}")));
            }
        }
        let message = format!("{}; {done}", sentence(differs));
        let error = status_error(Code::Drifted, &document.metadata.name, &message);
        let told = self.statuses.get(&id).and_then(|entry| entry.status.device_id.clone());
        let device = seen.map(|seen| seen.device().clone()).or(told);
        self.tell(id, device, State::Failed, Some(error), components, Some(digest.clone()), now);
    }

    /// What a report says while drift is repaired.
    pub(super) fn repair_error(&self, id: DeploymentId, document: &ApplicationDeployment) -> Option<StatusError> {
        let noticed = self.work.noticed.get(&id)?;
        let message = format!("{}; {REPAIRED}", sentence(&noticed.differs));
        Some(status_error(Code::Drifted, &document.metadata.name, &message))
    }
}

/// The component that is repaired says why.
pub(super) fn mark_repair(noticed: Option<&Noticed>, component: &mut ComponentStatus) {
    let differs = noticed.and_then(|noticed| noticed.differs.iter().find(|(name, _)| *name == component.name));
    if let Some((_, words)) = differs {
        component.error = Some(status_error(Code::Drifted, &component.name, &format!("{words}; {REPAIRED}")));
    }
}

/// The operator's newest choice counts, also while an earlier revision runs.
pub(in super::super) fn policy(goal: &Goal, id: DeploymentId) -> Policy {
    match goal.documents.get(&id) {
        Some(Document::Ready(document)) => Policy::of(document),
        _ => Policy::default(),
    }
}

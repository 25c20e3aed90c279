//! The agent's planner: compares desired and observed state and returns steps with reasons.

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use margo::digest::Digest;
use margo::ids::DeploymentId;

/// Desired state by deployment; values are the digests of the verified YAMLs.
pub type DesiredDigests = IndexMap<DeploymentId, Digest>;

/// What the runtime runs, as far as the agent knows.
pub type Observed = IndexMap<DeploymentId, ObservedState>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedState {
    /// Something is or may be installed; the agent cannot tell what.
    Unknown,
    /// Applied completely from this YAML.
    Running(Digest),
    /// Started from this YAML, not finished.
    Partial(Digest),
    /// Applied from this YAML and drifted since.
    Drifted(Digest),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Install,
    Replace,
    Resume,
    Repair,
    Remove,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub deployment: DeploymentId,
    pub action: Action,
    /// The YAML to apply; `None` for a removal.
    pub digest: Option<Digest>,
    /// Why the step exists, for people.
    pub reason: String,
}

/// Removals first (they free resources and names), then the rest in manifest order. Returns no step for what already
/// runs.
///
/// DS-24: removes what is absent from the manifest, applies what is new or has another digest.
pub fn plan(wanted: &DesiredDigests, observed: &Observed) -> Vec<Step> {
    let stray = observed.keys().filter(|id| !wanted.contains_key(*id)).map(|id| Step {
        deployment: *id,
        action: Action::Remove,
        digest: None,
        reason: "is no longer in the manifest".to_owned(),
    });
    let needed = wanted.iter().filter_map(|(id, digest)| {
        let (action, reason) = towards(digest, observed.get(id))?;
        Some(Step { deployment: *id, action, digest: Some(digest.clone()), reason })
    });
    stray.chain(needed).collect()
}

fn towards(wanted: &Digest, seen: Option<&ObservedState>) -> Option<(Action, String)> {
    let step = match seen {
        None => (Action::Install, "is in the manifest but not installed".to_owned()),
        // Applying is idempotent, so an unknown state is resolved by applying again.
        Some(ObservedState::Unknown) => {
            (Action::Repair, "the running state is unknown, so it is applied again".to_owned())
        }
        Some(ObservedState::Running(digest)) if digest == wanted => return None,
        Some(ObservedState::Partial(digest)) if digest == wanted => {
            (Action::Resume, "was started but not finished".to_owned())
        }
        Some(ObservedState::Drifted(digest)) if digest == wanted => {
            (Action::Repair, "has drifted from what was applied".to_owned())
        }
        Some(ObservedState::Running(digest) | ObservedState::Partial(digest) | ObservedState::Drifted(digest)) => {
            (Action::Replace, format!("the manifest has {}, the device runs {}", short(wanted), short(digest)))
        }
    };
    Some(step)
}

/// Enough digits to distinguish two revisions in a log.
fn short(digest: &Digest) -> &str {
    &digest.hex()[..12]
}

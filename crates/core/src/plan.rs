//! The agent's planner: desired against observed, as steps with reasons.

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use margo::digest::Digest;
use margo::ids::DeploymentId;

/// What should run, by deployment; values are the digests of the verified YAMLs.
pub type Wanted = IndexMap<DeploymentId, Digest>;

/// What the runtime is known to run.
pub type Observed = IndexMap<DeploymentId, Seen>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Something is or may be there; what it is cannot be told.
    Unknown,
    /// Applied completely, from this YAML.
    Running(Digest),
    /// Begun from this YAML, not finished.
    Partial(Digest),
    /// Was applied from this YAML and has drifted since.
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

/// Removals first (they free room and names), then the rest in manifest order. Running what is wanted yields no step.
///
/// DS-24: what is absent from the manifest goes, what is new or has another digest comes.
pub fn plan(wanted: &Wanted, observed: &Observed) -> Vec<Step> {
    let stray = observed.keys().filter(|id| !wanted.contains_key(*id)).map(|id| Step {
        deployment: *id,
        action: Action::Remove,
        digest: None,
        reason: "is not in the manifest any more".to_owned(),
    });
    let needed = wanted.iter().filter_map(|(id, digest)| {
        let (action, reason) = towards(digest, observed.get(id))?;
        Some(Step { deployment: *id, action, digest: Some(digest.clone()), reason })
    });
    stray.chain(needed).collect()
}

fn towards(wanted: &Digest, seen: Option<&Seen>) -> Option<(Action, String)> {
    let step = match seen {
        None => (Action::Install, "is in the manifest and not installed".to_owned()),
        // Applying twice does no harm, so ignorance is cured by applying.
        Some(Seen::Unknown) => (Action::Repair, "what runs cannot be told, so it is applied again".to_owned()),
        Some(Seen::Running(digest)) if digest == wanted => return None,
        Some(Seen::Partial(digest)) if digest == wanted => (Action::Resume, "was begun and not finished".to_owned()),
        Some(Seen::Drifted(digest)) if digest == wanted => {
            (Action::Repair, "has drifted from what was applied".to_owned())
        }
        Some(Seen::Running(digest) | Seen::Partial(digest) | Seen::Drifted(digest)) => {
            (Action::Replace, format!("the manifest has {}, installed is {}", short(wanted), short(digest)))
        }
    };
    Some(step)
}

/// Enough digits to tell two revisions apart when reading a log.
fn short(digest: &Digest) -> &str {
    &digest.hex()[..12]
}

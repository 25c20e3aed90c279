//! The agent's planner: desired against observed, as steps with reasons.

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
pub fn plan(wanted: &Wanted, observed: &Observed) -> Vec<Step> {
    let _ = (wanted, observed);
    todo!()
}

//! One kind of deployment: compose, helm, plain manifests. [`super::engines::Engines`] makes a runtime of several.

use super::Future;
use super::ledger::Entry;
use super::program::ProgramError;
use crate::artifacts::Holder;
use crate::machine::io::{ApplyWork, FailureKind, SeenComponent, WorkFailure};
use crate::preload::Preload;
use margo::description::Component;
use serde_json::Value;

pub trait Engine: Send + Sync + 'static {
    /// As in `deploymentProfile.type`.
    fn deployment_type(&self) -> &'static str;

    /// What the ledger is to know before [`Engine::apply`] acts: names, objects. `before` is what it knew until now.
    /// Changes nothing that runs; may fetch and check.
    fn prepare<'a>(&'a self, work: &'a ApplyWork, before: Option<&'a Entry>) -> Future<'a, Result<Value, WorkFailure>> {
        let _ = work;
        let known = before.map_or(Value::Null, |entry| entry.data.clone());
        Box::pin(std::future::ready(Ok(known)))
    }

    /// Fetches, verifies, checks (preflight), then brings one component to what the document says, and waits as it
    /// asks for. The ledger entry was written before. May be repeated, may be dropped at any point. Data volumes survive.
    fn apply<'a>(&'a self, work: &'a ApplyWork, entry: &'a Entry) -> Future<'a, Result<(), WorkFailure>>;

    /// Removes what the entry stands for; what is not there is no error. Volumes only when `entry.purge`.
    fn remove<'a>(&'a self, entry: &'a Entry) -> Future<'a, Result<(), WorkFailure>>;

    /// The state of each entry now, in the same order. `Err`: the engine cannot tell anything.
    fn observe<'a>(&'a self, entries: &'a [Entry]) -> Future<'a, Result<Vec<SeenComponent>, String>>;

    /// Returns when something of ours may have changed (engine events); never, where there are none.
    fn changed(&self) -> Future<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// A technician holds changes from now on, or no longer: what an engine does without being asked waits.
    fn hold(&self, _: bool) {}

    /// Whether the engine was away since this was last asked: what it ran went down with it, by nobody's hand.
    fn came_back(&self) -> bool {
        false
    }

    /// Takes in artifacts and images of a preloaded desired state. May be repeated.
    fn preload(&self, _: &Preload) -> Result<(), String> {
        Ok(())
    }

    /// The last lines of the logs of a component.
    fn logs<'a>(&'a self, entry: &'a Entry, lines: usize) -> Future<'a, Result<String, String>>;
}

/// The component a piece of work is about.
pub fn component(work: &ApplyWork) -> &Component {
    &work.document.spec.deployment_profile.components[work.component]
}

/// Could not be applied or removed, for this reason.
pub fn failed(message: impl Into<String>) -> WorkFailure {
    WorkFailure { kind: FailureKind::Failed, message: message.into() }
}

/// The engine itself does not answer.
pub fn unavailable(message: impl Into<String>) -> WorkFailure {
    WorkFailure { kind: FailureKind::Unavailable, message: message.into() }
}

/// What the same deployment has from before holds what this component needs.
pub fn in_the_way(message: impl Into<String>) -> WorkFailure {
    WorkFailure { kind: FailureKind::InTheWay, message: message.into() }
}

/// Who needs the artifact of the component a piece of work is about.
pub fn holder(work: &ApplyWork) -> Holder<'_> {
    Holder { deployment: work.deployment, component: &component(work).name, document: &work.digest }
}

pub fn from_program(error: ProgramError) -> WorkFailure {
    match error {
        ProgramError::Start { .. } => unavailable(error.to_string()),
        _ => failed(error.to_string()),
    }
}

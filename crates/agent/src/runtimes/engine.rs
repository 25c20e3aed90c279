//! One deployment type: compose, helm, plain manifests. [`super::engines::Engines`] combines several to a runtime.

use super::Future;
use super::ledger::Entry;
use super::program::ProgramError;
use crate::artifacts::Holder;
use crate::machine::io::{ApplyWork, FailureKind, ObservedComponent, WorkFailure};
use crate::preload::Preload;
use margo::description::Component;
use serde_json::Value;

pub trait Engine: Send + Sync + 'static {
    /// As in `deploymentProfile.type`.
    fn deployment_type(&self) -> &'static str;

    /// Data for the ledger before [`Engine::apply`]: names, objects. `before` is its current entry.
    /// Changes no workloads; may fetch and check.
    fn prepare<'a>(&'a self, work: &'a ApplyWork, before: Option<&'a Entry>) -> Future<'a, Result<Value, WorkFailure>> {
        let _ = work;
        let known = before.map_or(Value::Null, |entry| entry.data.clone());
        Box::pin(std::future::ready(Ok(known)))
    }

    /// Fetches, verifies, checks (preflight), then brings one component to the state in its document, and waits if it
    /// requires it. The ledger entry exists already. May be repeated or dropped at any point. Data volumes survive.
    fn apply<'a>(&'a self, work: &'a ApplyWork, entry: &'a Entry) -> Future<'a, Result<(), WorkFailure>>;

    /// Removes the component of the entry; a missing one is no error. Volumes only if `entry.purge`.
    fn remove<'a>(&'a self, entry: &'a Entry) -> Future<'a, Result<(), WorkFailure>>;

    /// The current state of each entry, in the same order. `Err`: the engine does not answer.
    fn observe<'a>(&'a self, entries: &'a [Entry]) -> Future<'a, Result<Vec<ObservedComponent>, String>>;

    /// Returns when a workload may have changed (engine events); never, without events.
    fn changed(&self) -> Future<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// A maintenance hold starts or ends: changes that the engine makes on its own wait.
    fn hold(&self, _: bool) {}

    /// Whether the engine restarted since the last call: its stopped workloads are not drift.
    fn has_restarted(&self) -> bool {
        false
    }

    /// Stores artifacts and images of a preloaded desired state. May be repeated.
    fn preload(&self, _: &Preload) -> Result<(), String> {
        Ok(())
    }

    /// The last lines of the logs of a component.
    fn logs<'a>(&'a self, entry: &'a Entry, lines: usize) -> Future<'a, Result<String, String>>;
}

/// The component of a piece of work.
pub fn component(work: &ApplyWork) -> &Component {
    &work.document.spec.deployment_profile.components[work.component]
}

/// An apply or removal failed for this reason.
pub fn failed(message: impl Into<String>) -> WorkFailure {
    WorkFailure { kind: FailureKind::Failed, message: message.into() }
}

/// The engine itself does not answer.
pub fn unavailable(message: impl Into<String>) -> WorkFailure {
    WorkFailure { kind: FailureKind::Unavailable, message: message.into() }
}

/// An old component of the same deployment uses what this component needs.
pub fn blocked_by_own(message: impl Into<String>) -> WorkFailure {
    WorkFailure { kind: FailureKind::InTheWay, message: message.into() }
}

/// The holder of the artifact of a piece of work.
pub fn holder(work: &ApplyWork) -> Holder<'_> {
    Holder { deployment: work.deployment, component: &component(work).name, document: &work.digest }
}

pub fn from_program(error: ProgramError) -> WorkFailure {
    match error {
        ProgramError::Start { .. } => unavailable(error.to_string()),
        _ => failed(error.to_string()),
    }
}

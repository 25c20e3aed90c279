//! A simulated runtime: it records workloads, and can be slow, fail, drift and lose children on demand.
//!
//! Its world is a durable file, so that a restarted agent finds its simulated workloads. A TOML file controls its
//! behavior and is read before every action, so that faults can be injected while the agent runs.

pub mod script;
pub mod world;

use super::{Future, LogsQuery, Runtime};
use crate::disk::{DiskError, read_record, write_record};
use crate::machine::io::{ApplyWork, FailureKind, Observation, RemoveWork, WorkFailure};
use script::Script;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use world::World;

/// The simulated workloads.
pub const WORLD_FILE: &str = "simulated-world.json";

/// The simulated engine of one agent.
#[derive(Debug)]
pub struct Simulated {
    world_path: Option<PathBuf>,
    script: Source,
    world: Mutex<World>,
}

#[derive(Debug)]
enum Source {
    File(PathBuf),
    Fixed(Script),
}

impl Simulated {
    /// The world is in `folder/simulated-world.json`; `script` controls its behavior, if that file exists.
    pub fn open(folder: &Path, script: Option<PathBuf>) -> Result<Self, DiskError> {
        let world_path = folder.join(WORLD_FILE);
        let mut damaged = None;
        let world = read_record::<World>(&world_path, &mut |error| damaged = Some(error));
        let world = match (world, damaged) {
            (Some(world), _) => world,
            (None, Some(error)) => return Err(error),
            (None, None) => World::default(),
        };
        let script = script.map_or_else(|| Source::Fixed(Script::default()), Source::File);
        Ok(Self { world_path: Some(world_path), script, world: Mutex::new(world) })
    }

    /// The world is in memory, for tests and demonstrations.
    pub fn in_memory(script: Script) -> Self {
        Self { world_path: None, script: Source::Fixed(script), world: Mutex::new(World::default()) }
    }

    fn script(&self) -> Result<Script, WorkFailure> {
        match &self.script {
            Source::Fixed(script) => Ok(script.clone()),
            Source::File(path) => {
                Script::read(path).map_err(|message| WorkFailure { kind: FailureKind::Unavailable, message })
            }
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // A panic elsewhere leaves at worst an unwritten change, as after a crash.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the world and makes the change durable before returning.
    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> Result<T, WorkFailure> {
        let mut world = self.world();
        let mut next = world.clone();
        let outcome = change(&mut next);
        if next != *world {
            if let Some(path) = &self.world_path {
                write_record(path, &next)
                    .map_err(|error| WorkFailure { kind: FailureKind::Failed, message: error.chain() })?;
            }
            *world = next;
        }
        Ok(outcome)
    }
}

impl Runtime for Simulated {
    fn apply(&self, work: ApplyWork) -> Future<'_, Result<(), WorkFailure>> {
        Box::pin(async move {
            let script = self.script()?;
            let delay = script.delay(&work);
            let waits = work.document.spec.deployment_profile.components[work.component].properties.waits();
            if !waits {
                return self.change(|world| world.apply(&work, &script))?;
            }
            if !delay.is_zero() {
                self.change(|world| world.begin(&work))?;
                tokio::time::sleep(delay).await;
            }
            // Read again: the script may have changed during the delay.
            let script = self.script()?;
            self.change(|world| world.apply(&work, &script))?
        })
    }

    fn remove(&self, work: RemoveWork) -> Future<'_, Result<(), WorkFailure>> {
        Box::pin(async move {
            let script = self.script()?;
            let delay = script.remove_delay;
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            self.change(|world| world.remove(&work, &script))?
        })
    }

    fn observe(&self) -> Future<'_, Result<Observation, String>> {
        Box::pin(async move {
            let script = self.script().map_err(|failure| failure.message)?;
            Ok(self.world().observe(&script))
        })
    }

    fn logs(&self, requested: LogsQuery) -> Future<'_, Result<String, String>> {
        Box::pin(async move { self.world().logs(&requested) })
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn deployment_types(&self) -> &'static [&'static str] {
        &["compose", "helm"]
    }
}

#[cfg(test)]
mod tests;

//! Deterministic simulation: the real agent core and the real publishing logic in one thread, from a seed.
//!
//! Agents (including a gateway with children) talk to a server with its state in a real SQLite file. Messages are lost,
//! duplicated, delayed, reordered and corrupted; agents crash between any two effects, the server before or after any
//! commit; disks fill, clocks jump, runtimes fail and drift; an operator keeps changing things. After every step the
//! [`checker`] verifies the invariants. Then the faults stop, the fleet must converge, and the server must report it.
//!
//! The same seed gives the same run, with the same hash of its trace.

mod cast;
mod checker;
mod disk;
mod faults;
mod node;
mod operator;
mod runtime;
mod server;
mod trace;
mod violation;
mod world;

pub use cast::{capabilities, description};
pub(crate) use server::routes_for;
pub use violation::Violation;

use margo::Digest;
use server::Installation;
use std::path::{Path, PathBuf};
use std::time::Duration;
use world::World;

/// A deliberate bug, to prove that the checker finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The agent polls with the ETag of the accepted instead of the reconciled manifest.
    AcceptedEtag,
    /// The server gives every manifest the same version.
    VersionReused,
    /// The server acknowledges a status before it has stored it.
    StatusForgotten,
}

/// Options of one run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long faults are injected.
    pub troubled: Duration,
    pub bug: Option<Bug>,
    /// Write every line of the trace to standard error.
    pub print: bool,
    /// The database file of this run.
    database: PathBuf,
    installation: Installation,
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    /// Hash over everything that happened.
    pub trace: Digest,
    pub events: u64,
    pub verdict: Result<(), Violation>,
    /// The last lines of the trace.
    pub tail: Vec<String>,
}

/// Runs simulations one after the other, all from one template database.
pub struct Simulator {
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    template: PathBuf,
    installation: Installation,
}

/// How long faults are injected in one run; many short runs find more than one long one.
pub const TROUBLED: Duration = Duration::from_mins(5);

/// Trace lines shown with a failure.
const TAIL_LINES: usize = 60;

impl Simulator {
    pub fn new() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Use a file system in memory if there is one: a thousand runs sync a million times.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }?;
        let template = runtime.block_on(server::template(folder.path()))?;
        let installation = Installation::new(folder.path())?;
        Ok(Self { runtime, folder, template, installation })
    }

    /// Runs the simulation of one seed.
    pub fn run(&self, seed: u64, bug: Option<Bug>, print: bool) -> anyhow::Result<Outcome> {
        let database = self.folder.path().join(format!("{seed}.db"));
        std::fs::copy(&self.template, &database)?;
        let installation = self.installation.clone();
        let options = Options { troubled: TROUBLED, bug, print, database: database.clone(), installation };
        let outcome = self.runtime.block_on(live(seed, options));
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", database.display()));
        }
        Ok(outcome)
    }
}

async fn live(seed: u64, options: Options) -> Outcome {
    let mut world = match World::new(seed, options).await {
        Ok(world) => world,
        Err(violation) => {
            return Outcome { seed, trace: Digest::of(b""), events: 0, verdict: Err(violation), tail: Vec::new() };
        }
    };
    let verdict = world.run().await;
    world.server.die_and_wait().await;
    Outcome { seed, trace: world.trace.hash(), events: world.trace.count, verdict, tail: world.trace.tail(TAIL_LINES) }
}

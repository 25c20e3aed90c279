//! Deterministic simulation: the real agent core and the real publishing logic in one thread, from a seed.
//!
//! Agents (a gateway with children among them) talk to a server that keeps its state in a real SQLite file. Messages
//! are lost, doubled, delayed, reordered and garbled; agents die between any two effects, the server before or after
//! any commit; disks fill, clocks jump, runtimes fail and drift; an operator changes things all the while. After every
//! step the [`checker`] compares what happened with what was promised. Then the faults stop and the fleet must
//! converge, and the server must say so.
//!
//! The same seed gives the same world, down to the hash of its trace.

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

/// A mistake planted on purpose, to show that the checker would find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The agent asks with the ETag of what it has accepted instead of what it has carried out.
    AcceptedEtag,
    /// The server gives every manifest the same version.
    VersionReused,
    /// The server acknowledges a status before it has kept it.
    StatusForgotten,
}

/// How one world is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long trouble lasts before the world is left in peace.
    pub troubled: Duration,
    pub bug: Option<Bug>,
    /// Write every line of the trace to standard error.
    pub print: bool,
    /// The database file of this world.
    database: PathBuf,
    installation: Installation,
}

/// What one world came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    /// Hash over everything that happened.
    pub trace: Digest,
    pub events: u64,
    pub verdict: Result<(), Violation>,
    /// The last lines before the verdict.
    pub tail: Vec<String>,
}

/// Runs worlds one after the other, all from one template database.
pub struct Simulator {
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    template: PathBuf,
    installation: Installation,
}

/// How long the trouble lasts in one world; many small worlds find more than one long one.
pub const TROUBLED: Duration = Duration::from_mins(5);

/// Lines of the trace shown with a failure.
const TAIL_LINES: usize = 60;

impl Simulator {
    pub fn new() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Memory, where there is a file system in memory: a thousand worlds sync a million times.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }?;
        let template = runtime.block_on(server::template(folder.path()))?;
        let installation = Installation::new(folder.path())?;
        Ok(Self { runtime, folder, template, installation })
    }

    /// Lives through the world of one seed.
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

//! Benchmarks as ratios and growth, all from one run: absolute numbers depend mostly on the machine.

// Suggested reading order: shared modules, then section by section.
pub mod machine;
pub mod process;
pub mod results;
pub mod report;
pub mod stats;
pub mod plot;
pub mod generator;
pub mod nginx;
pub mod server;

pub mod fleet;
pub mod probes;

pub mod bare;
pub mod agent;
pub mod connections;
pub mod counts;
pub mod enrollment;
pub mod handshakes;
pub mod manifests;
pub mod memory;
pub mod pages;
pub mod polls;
pub mod publish;
pub mod statuses;
pub mod workloads;

use anyhow::Context as _;
use margrave_core::time::{Clock, Timestamp};
use margrave_server::app::publisher;
use margrave_server::catalog::Descriptions;
use margrave_server::manifest_cache::ManifestCache;
use margrave_server::telemetry::Metrics;
use margrave_store::Store;
use process::Cores;
use results::Findings;
use std::sync::Arc;
use std::time::Duration;

/// Names on the command line and titles in the document, in the order of measurement.
pub const SECTIONS: &[(&str, &str)] = &[
    ("polls", "Unchanged polls"),
    ("handshakes", "Full handshakes"),
    ("memory", "Memory and disk per device"),
    ("connections", "Memory per connection"),
    ("publish", "One deployment to a fleet"),
    ("enrollment", "Enrolling one more device"),
    ("statuses", "Status reports"),
    ("pages", "Pages of the web UI"),
    ("agent", "The agent"),
    ("workloads", "Real workloads"),
    ("manifests", "Manifests and bundles"),
];

/// Duration and number of runs.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub cores: Cores,
    /// Alternating runs.
    pub rounds: usize,
    pub warm_up: Duration,
    pub measured: Duration,
    /// A short run that only checks that everything works.
    pub quick: bool,
}

impl Setting {
    pub fn new(quick: bool) -> Self {
        let cores = Cores::detect();
        if quick {
            let (warm_up, measured) = (Duration::from_millis(200), Duration::from_secs(1));
            return Self { cores, rounds: 3, warm_up, measured, quick };
        }
        Self { cores, rounds: 9, warm_up: Duration::from_millis(500), measured: Duration::from_secs(4), quick }
    }
}

/// Measures one of [`SECTIONS`].
pub async fn measure(name: &str, setting: &Setting) -> anyhow::Result<Findings> {
    let measured = match name {
        "polls" => polls::run(setting).await,
        "handshakes" => handshakes::run(setting).await,
        "memory" => memory::run(setting).await,
        "connections" => connections::run(setting).await,
        "publish" => publish::run(setting).await,
        "enrollment" => enrollment::run(setting).await,
        "statuses" => statuses::run(setting).await,
        "pages" => pages::run(setting).await,
        "agent" => agent::run(setting).await,
        "workloads" => workloads::run(setting).await,
        "manifests" => Ok(manifests::run(setting)),
        _ => anyhow::bail!("unknown section `{name}`"),
    };
    measured.with_context(|| format!("measure `{name}`"))
}

/// Prints progress.
#[expect(clippy::print_stderr, reason = "progress output")]
pub fn print_progress(what: &str) {
    eprintln!("{what}");
}

/// A scratch folder on a real disk, because the measurements include syncing.
pub fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir()
}

/// A fixed time: the measurements do not depend on it.
const NOW: Timestamp = Timestamp(1_780_000_000_000_000);

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// The dependencies of the publisher.
async fn parts(store: &Store) -> anyhow::Result<publisher::Parts> {
    Ok(publisher::Parts {
        store: store.clone(),
        heads: Arc::new(ManifestCache::load(store).await?),
        clock: Arc::new(FixedClock),
        descriptions: Arc::new(Descriptions::default()),
        metrics: Arc::new(Metrics::default()),
    })
}

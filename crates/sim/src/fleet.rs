//! A fleet of virtual devices: the real agent's state machine over real mutual TLS; only the workloads are simulated.
//!
//! Each device is one task with a few kilobytes of state and at most one connection (two with long polls), so that one
//! process can simulate a plant.

// Suggested reading order.
mod device;
mod identities;
mod link;
pub mod profile;
mod sample;
pub mod tally;

use anyhow::Context as _;
use device::Device;
use link::Target;
use margrave_agent::SystemClock;
use margrave_agent::machine::Settings;
use margrave_agent::machine::schedule::{PollPolicy, RetryPolicy};
use margrave_api::client::ApiClient;
use margrave_core::time::Clock;
use profile::Profile;
use std::sync::Arc;
use std::time::Duration;
use tally::{Outcome, Snapshot, Tally};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Upper limit of open connections, whatever the options say.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Upper limit of devices in one process.
pub const DEVICES_MAX: usize = 200_000;
/// Interval between progress reports to the caller.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Time limit for stopping devices, so that a stuck one does not delay the result.
const STOP_MAX: Duration = Duration::from_secs(30);
/// Open files other than device connections: logs, sockets to the operator API, the runtime's own.
pub const OTHER_FILES: u64 = 256;

/// Whether a device keeps its connection between polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    KeepAlive,
    Reconnect,
}

/// Options of a simulation.
#[derive(Debug, Clone)]
pub struct Options {
    pub devices: usize,
    /// Clients and devices are named `PREFIX-00001` and so on; devices have the label `simulation=PREFIX`.
    pub prefix: String,
    pub poll: Duration,
    /// Long-poll duration; none for plain polls.
    pub hold: Duration,
    pub profile: Profile,
    pub seed: u64,
    pub connections: Connections,
    pub connections_max: usize,
    /// None: until stopped.
    pub run_for: Option<Duration>,
    /// Import a sample application and deploy it to all compatible devices once all have reported.
    pub deploy_sample: bool,
    /// Decommission the clients afterwards.
    pub clean: bool,
}

impl Options {
    /// Invalid options, with advice.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.devices > DEVICES_MAX {
            found.push(format!("--devices: {} are too many for one process, at most {DEVICES_MAX}", self.devices));
        }
        if self.poll.is_zero() {
            found.push("--poll: must be greater than zero".to_owned());
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections_max) {
            found.push(format!("--connections-max: must be between 1 and {CONNECTIONS_MAX}"));
        }
        if self.connections == Connections::KeepAlive && self.devices > self.connections_max {
            found.push(format!(
                "--connections: {} devices cannot keep a connection each, the limit is {}: use `reconnect`",
                self.devices, self.connections_max
            ));
        }
        // A long poll needs its own connection, whatever the mode of connections between polls.
        if !self.hold.is_zero() && self.devices.saturating_mul(2) > self.connections_max {
            found.push(format!(
                "--hold: {} devices with long polls may need {} connections, the limit is {}",
                self.devices,
                self.devices.saturating_mul(2),
                self.connections_max
            ));
        }
        if let Err(error) = format!("{}-00001", self.prefix).parse::<margo::ids::ClientId>() {
            found.push(format!("--prefix: {error}"));
        }
        found
    }

    pub fn client(&self, index: usize) -> String {
        format!("{}-{:05}", self.prefix, index + 1)
    }
}

/// State shared by all devices.
struct Shared {
    target: Target,
    settings: Settings,
    clock: Arc<dyn Clock>,
    tally: Arc<Tally>,
    /// One permit per allowed connection.
    permits: Arc<Semaphore>,
    keep_alive: bool,
}

/// Runs a fleet until its duration has passed or `stop` is cancelled; reports progress to `watch` at intervals.
pub async fn run(
    api: &ApiClient,
    options: &Options,
    stop: CancellationToken,
    watch: &(dyn Fn(&Snapshot) + Sync),
) -> anyhow::Result<Outcome> {
    let trust = api.trust().await.context("get the trust domain from the server")?;
    let tally = Arc::new(Tally::new(options));
    let shared = Arc::new(Shared {
        target: Target::parse(&trust.wfm_url)?,
        settings: settings(options.poll, options.hold),
        clock: Arc::new(SystemClock),
        tally: Arc::clone(&tally),
        permits: Arc::new(Semaphore::new(options.connections_max)),
        keep_alive: options.connections == Connections::KeepAlive,
    });
    let stop_devices = CancellationToken::new();
    let devices = TaskTracker::new();
    let start = |index: usize, identity| {
        let character = options.profile.draw(options.seed, index);
        let device = Device::new(index, options, character, identity, Arc::clone(&shared))?;
        devices.spawn(device.run(stop_devices.clone()));
        anyhow::Ok(())
    };
    let outcome = tokio::select! {
        outcome = live(api, options, &tally, start, watch) => outcome,
        () = stop.cancelled() => Ok(()),
    };
    let result = tally.outcome(options);
    stop_devices.cancel();
    devices.close();
    let _ = tokio::time::timeout(STOP_MAX, devices.wait()).await;
    outcome?;
    if options.clean {
        identities::decommission(api, &options.prefix).await?;
    }
    Ok(result)
}

/// Starts the devices and reports on them until the end.
async fn live(
    api: &ApiClient,
    options: &Options,
    tally: &Tally,
    start: impl Fn(usize, margrave_agent::identity::Identity) -> anyhow::Result<()>,
    watch: &(dyn Fn(&Snapshot) + Sync),
) -> anyhow::Result<()> {
    let until = options.run_for.map(|run_for| tokio::time::Instant::now() + run_for);
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let enroll = identities::make(api, options, |index, identity| {
        tally.enrolled();
        start(index, identity)
    });
    tokio::pin!(enroll);
    let mut enrolling = true;
    let mut deploy = options.deploy_sample;
    loop {
        tokio::select! {
            made = &mut enroll, if enrolling => {
                made?;
                enrolling = false;
            }
            _ = ticks.tick() => {
                let snapshot = tally.snapshot();
                watch(&snapshot);
                if until.is_some_and(|until| tokio::time::Instant::now() >= until) {
                    return Ok(());
                }
                if deploy && !enrolling && snapshot.reporting == options.devices {
                    deploy = false;
                    sample::deploy(api, &options.prefix).await?;
                }
            }
        }
    }
}

/// Decommissions every client with the prefix; returns their number.
pub async fn clean(api: &ApiClient, prefix: &str) -> anyhow::Result<usize> {
    identities::decommission(api, prefix).await
}

fn settings(poll: Duration, hold: Duration) -> Settings {
    let defaults = Settings::default();
    Settings {
        poll: PollPolicy {
            period: poll,
            long_poll: hold,
            // Spread starts over the whole period, so that polls are evenly distributed from the beginning.
            start_spread: poll,
            forbidden_period: poll,
            ..defaults.poll
        },
        retry: RetryPolicy { first: Duration::from_secs(1).min(poll), max: poll },
        observe_period: poll.max(Duration::from_mins(1)),
        component_timeout: defaults.component_timeout,
    }
}

//! Statistics of a simulation: cheap enough for ten thousand devices, exact enough to publish.

use super::Options;
use margo::status::State;
use margrave_agent::Code;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// State of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceProgress {
    /// The server has not accepted its capabilities yet.
    Unreported,
    Working,
    UpToDate,
    Failed,
}

const OFFLINE: u8 = 0x10;

impl DeviceProgress {
    fn of(code: u8) -> Self {
        match code & !OFFLINE {
            1 => Self::Working,
            2 => Self::UpToDate,
            3 => Self::Failed,
            _ => Self::Unreported,
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    enrolled: AtomicU64,
    requests: AtomicU64,
    polls_unchanged: AtomicU64,
    polls_changed: AtomicU64,
    polls_failed: AtomicU64,
    connections_open: AtomicU64,
    connections_peak: AtomicU64,
    connections_opened: AtomicU64,
}

pub struct Tally {
    started: Instant,
    counters: Counters,
    polls: Latencies,
    connects: Latencies,
    devices: Vec<AtomicU8>,
    /// Errors by code of the standard or HTTP status.
    errors: Mutex<BTreeMap<String, u64>>,
    /// Deployments by the last state that the server accepted.
    deployments: Mutex<BTreeMap<&'static str, u64>>,
}

/// The current statistics.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub seconds: f64,
    pub enrolled: usize,
    /// Devices whose capabilities the server has accepted.
    pub reporting: usize,
    pub up_to_date: usize,
    pub failed: usize,
    pub working: usize,
    pub offline: usize,
    pub requests: u64,
    pub polls: Polls,
    /// Failed requests by kind.
    pub errors: BTreeMap<String, u64>,
    pub poll_latency_ms: Quantiles,
    pub connect_latency_ms: Quantiles,
    pub connections: ConnectionCounts,
    /// By the last state that the server accepted.
    pub deployments: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Polls {
    /// 304
    pub unchanged: u64,
    /// 200
    pub changed: u64,
    pub failed: u64,
}

impl Polls {
    pub fn all(self) -> u64 {
        self.unchanged + self.changed + self.failed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ConnectionCounts {
    pub open: u64,
    pub peak: u64,
    pub opened: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// The machine-readable result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub devices: usize,
    pub prefix: String,
    pub seed: u64,
    pub poll_seconds: f64,
    pub connections_max: usize,
    /// Failed as configured in the profile.
    pub failed_as_configured: usize,
    /// Neither up to date nor failed nor offline.
    pub unsettled: usize,
    pub polls_per_second: f64,
    #[serde(flatten)]
    pub state: Snapshot,
}

impl Outcome {
    /// Share of failed requests.
    pub fn error_share(&self) -> f64 {
        let errors: u64 = self.state.errors.values().sum();
        if self.state.requests == 0 { 0.0 } else { errors as f64 / self.state.requests as f64 }
    }

    /// Reasons why the run failed; empty if it succeeded.
    pub fn problems(&self, error_share_max: f64) -> Vec<String> {
        let mut found = Vec::new();
        let state = &self.state;
        let mut print_progress = |count: usize, what: &str| {
            if count > 0 {
                found.push(format!("{count} of {} devices {what}", self.devices));
            }
        };
        print_progress(self.devices - state.enrolled.min(self.devices), "have no identity");
        print_progress(self.unsettled, "are not up to date");
        print_progress(state.failed.saturating_sub(self.failed_as_configured), "failed unexpectedly");
        if self.error_share() > error_share_max {
            let errors: u64 = state.errors.values().sum();
            found.push(format!("{errors} of {} requests failed", state.requests));
        }
        found
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            started: Instant::now(),
            counters: Counters::default(),
            polls: Latencies::default(),
            connects: Latencies::default(),
            devices: (0..options.devices).map(|_| AtomicU8::new(0)).collect(),
            errors: Mutex::default(),
            deployments: Mutex::default(),
        }
    }

    pub(super) fn enrolled(&self) {
        self.counters.enrolled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn device(&self, index: usize, doing: DeviceProgress, offline: bool) {
        let code = match doing {
            DeviceProgress::Unreported => 0,
            DeviceProgress::Working => 1,
            DeviceProgress::UpToDate => 2,
            DeviceProgress::Failed => 3,
        };
        self.devices[index].store(code | if offline { OFFLINE } else { 0 }, Ordering::Relaxed);
    }

    pub(super) fn request(&self) {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a poll by status; `None` if it failed.
    pub(super) fn poll(&self, status: Option<u16>, took: Duration) {
        let counter = match status {
            Some(304) => &self.counters.polls_unchanged,
            Some(200) => &self.counters.polls_changed,
            _ => &self.counters.polls_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if status.is_some() {
            self.polls.add(took);
        }
    }

    pub(super) fn refused(&self, status: u16) {
        *locked(&self.errors).entry(format!("http {status}")).or_default() += 1;
    }

    pub(super) fn unanswered(&self, code: Code) {
        *locked(&self.errors).entry(format!("{} {}", code.number(), code.title())).or_default() += 1;
    }

    /// Counts an accepted status report: the deployment moves from one state to another.
    pub(super) fn deployment(&self, from: Option<State>, to: State) {
        let mut deployments = locked(&self.deployments);
        if let Some(count) = from.and_then(|from| deployments.get_mut(from.as_str())) {
            *count = count.saturating_sub(1);
        }
        *deployments.entry(to.as_str()).or_default() += 1;
    }

    pub(super) fn opened(&self, took: Duration) {
        self.connects.add(took);
    }

    /// Counts a connection until the value is dropped.
    pub(super) fn connection(self: &std::sync::Arc<Self>) -> Open {
        let open = self.counters.connections_open.fetch_add(1, Ordering::Relaxed) + 1;
        self.counters.connections_opened.fetch_add(1, Ordering::Relaxed);
        self.counters.connections_peak.fetch_max(open, Ordering::Relaxed);
        Open(std::sync::Arc::clone(self))
    }

    pub fn snapshot(&self) -> Snapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let mut doing = [0_usize; 4];
        let mut offline = 0;
        for device in &self.devices {
            let code = device.load(Ordering::Relaxed);
            offline += usize::from(code & OFFLINE != 0);
            doing[DeviceProgress::of(code) as usize] += 1;
        }
        let [unreported, working, up_to_date, failed] = doing;
        let mut deployments = locked(&self.deployments).clone();
        deployments.retain(|_, count| *count > 0);
        Snapshot {
            seconds: self.started.elapsed().as_secs_f64(),
            enrolled: read(&counters.enrolled) as usize,
            reporting: self.devices.len() - unreported,
            up_to_date,
            failed,
            working,
            offline,
            requests: read(&counters.requests),
            polls: Polls {
                unchanged: read(&counters.polls_unchanged),
                changed: read(&counters.polls_changed),
                failed: read(&counters.polls_failed),
            },
            errors: locked(&self.errors).clone(),
            poll_latency_ms: self.polls.quantiles(),
            connect_latency_ms: self.connects.quantiles(),
            connections: ConnectionCounts {
                open: read(&counters.connections_open),
                peak: read(&counters.connections_peak),
                opened: read(&counters.connections_opened),
            },
            deployments,
        }
    }

    pub(super) fn outcome(&self, options: &Options) -> Outcome {
        let state = self.snapshot();
        let mut unsettled = 0;
        let mut failed_as_configured = 0;
        for (index, device) in self.devices.iter().enumerate() {
            let code = device.load(Ordering::Relaxed);
            match DeviceProgress::of(code) {
                DeviceProgress::Unreported | DeviceProgress::Working if code & OFFLINE == 0 => unsettled += 1,
                DeviceProgress::Failed if options.profile.draw(options.seed, index).fails_always => {
                    failed_as_configured += 1;
                }
                _ => {}
            }
        }
        Outcome {
            devices: options.devices,
            prefix: options.prefix.clone(),
            seed: options.seed,
            poll_seconds: options.poll.as_secs_f64(),
            connections_max: options.connections_max,
            failed_as_configured,
            unsettled,
            polls_per_second: state.polls.all() as f64 / state.seconds.max(0.001),
            state,
        }
    }
}

/// One open connection.
pub(super) struct Open(std::sync::Arc<Tally>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Buckets per power of two; limits the error to three per cent.
const STEPS: u64 = 32;
/// Up to 2^36 microseconds, most of a day.
const BUCKETS: usize = (32 * STEPS) as usize;

/// Latencies in microseconds.
struct Latencies {
    buckets: Vec<AtomicU64>,
    longest: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), longest: AtomicU64::new(0) }
    }
}

fn bucket(micros: u64) -> usize {
    if micros < STEPS {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2()) - u64::from(STEPS.ilog2());
    let step = (micros >> power) - STEPS;
    (((power + 1) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The largest value a bucket holds.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (power, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step + 1) << power) - 1
}

impl Latencies {
    fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(micros, Ordering::Relaxed);
    }

    fn quantiles(&self) -> Quantiles {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let longest = self.longest.load(Ordering::Relaxed);
        let at = |share: f64| {
            let desired = ((all as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= desired
            });
            found.map_or(0.0, |bucket| upper(bucket).min(longest) as f64 / 1000.0)
        };
        Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: longest as f64 / 1000.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_value_within_three_per_cent() {
        for micros in [0, 1, 31, 32, 33, 63, 64, 100, 999, 1_000, 65_535, 1_000_000, 60_000_000] {
            let top = upper(bucket(micros));
            assert!(top >= micros && top as f64 <= micros as f64 * 1.04 + 1.0, "{micros}: {top}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn computes_quantiles_of_added_latencies() {
        let latencies = Latencies::default();
        assert_eq!(latencies.quantiles(), Quantiles::default());
        for millis in 1..=100 {
            latencies.add(Duration::from_millis(millis));
        }
        let Quantiles { p50, p90, p99, max } = latencies.quantiles();
        assert!((50.0..52.0).contains(&p50) && (90.0..93.5).contains(&p90), "{p50} {p90}");
        assert!((99.0..=100.0).contains(&p99) && (max - 100.0).abs() < 0.001, "{p99} {max}");
    }
}

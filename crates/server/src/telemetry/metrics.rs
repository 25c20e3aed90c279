//! Metrics for Prometheus. Labels have few values: never an id.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;

/// From half a millisecond to 16 seconds.
const DURATION_BUCKETS: (f64, f64, u16) = (0.0005, 2.0, 16);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RouteLabels {
    pub listener: &'static str,
    /// The route's pattern, never the path itself.
    pub route: String,
    pub method: String,
    pub status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RouteLabels, Counter>,
    request_seconds: Family<ListenerLabel, Histogram, fn() -> Histogram>,
    handshake_failures: Family<ListenerLabel, Counter>,
    polls: Family<OutcomeLabel, Counter>,
    idle: Gauge,
    open_count: Gauge,
    long_polls: Family<OutcomeLabel, Counter>,
    status_reports: Family<OutcomeLabel, Counter>,
    status_batches: Counter,
    capability_batches: Counter,
    enrollments: Family<OutcomeLabel, Counter>,
    publish_batches: Counter,
    store_errors: Counter,
}

fn duration_histogram() -> Histogram {
    let (start, factor, length) = DURATION_BUCKETS;
    Histogram::new(exponential_buckets(start, factor, length))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("margrave"),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(duration_histogram as fn() -> Histogram),
            handshake_failures: Family::default(),
            polls: Family::default(),
            idle: Gauge::default(),
            open_count: Gauge::default(),
            long_polls: Family::default(),
            status_reports: Family::default(),
            status_batches: Counter::default(),
            capability_batches: Counter::default(),
            enrollments: Family::default(),
            publish_batches: Counter::default(),
            store_errors: Counter::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register("request_duration_seconds", "Time to answer", metrics.request_seconds.clone());
        registry.register("handshake_failures", "TLS handshakes that failed", metrics.handshake_failures.clone());
        registry.register("polls", "Manifest polls by outcome", metrics.polls.clone());
        registry.register("connections_idle", "Idle device connections", metrics.idle.clone());
        registry.register("long_polls_open", "Open long polls", metrics.open_count.clone());
        registry.register("long_polls", "Long polls by outcome", metrics.long_polls.clone());
        registry.register("status_reports", "Status reports by outcome", metrics.status_reports.clone());
        registry.register("status_batches", "Transactions that wrote status reports", metrics.status_batches.clone());
        registry.register(
            "capability_batches",
            "Transactions that wrote capability reports",
            metrics.capability_batches.clone(),
        );
        registry.register("enrollments", "Enrollment attempts by outcome", metrics.enrollments.clone());
        registry.register("publish_batches", "Transactions that published manifests", metrics.publish_batches.clone());
        registry.register("store_errors", "Failed store operations", metrics.store_errors.clone());
        metrics
    }
}

#[derive(Debug)]
pub struct IdleConnection(Gauge);

impl Drop for IdleConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The counters of an unchanged poll, looked up once.
#[derive(Debug, Clone)]
pub struct UnchangedPolls {
    requests: Counter,
    request_seconds: Histogram,
    polls: Counter,
}

impl UnchangedPolls {
    pub fn count(&self, took: Duration) {
        self.request_seconds.observe(took.as_secs_f64());
        self.requests.inc();
        self.polls.inc();
    }
}

impl Metrics {
    /// The counters of polls on the manifest route that are answered with 304.
    pub fn unchanged_polls(&self, listener: &'static str, route: String) -> UnchangedPolls {
        let labels = RouteLabels { listener, route, method: "GET".to_owned(), status: 304 };
        UnchangedPolls {
            requests: self.requests.get_or_create_owned(&labels),
            request_seconds: self.request_seconds.get_or_create_owned(&ListenerLabel { listener }),
            polls: self.polls.get_or_create_owned(&OutcomeLabel { outcome: "unchanged" }),
        }
    }
    pub fn request(&self, labels: RouteLabels, took: Duration) {
        self.request_seconds.get_or_create(&ListenerLabel { listener: labels.listener }).observe(took.as_secs_f64());
        self.requests.get_or_create(&labels).inc();
    }
    /// A connection is idle until this is dropped.
    pub fn rests(&self) -> IdleConnection {
        self.idle.inc();
        IdleConnection(self.idle.clone())
    }
    pub fn idle(&self) -> i64 {
        self.idle.get()
    }
    pub fn handshake_failed(&self, listener: &'static str) {
        self.handshake_failures.get_or_create(&ListenerLabel { listener }).inc();
    }
    /// `unchanged` (304) or `changed` (200).
    pub fn poll(&self, outcome: &'static str) {
        self.polls.get_or_create(&OutcomeLabel { outcome }).inc();
    }
    pub fn long_poll_started(&self) {
        self.open_count.inc();
    }
    /// `changed`, `elapsed`, `replaced`, `closing`, `gone`.
    pub fn long_poll_ended(&self, outcome: &'static str) {
        self.open_count.dec();
        self.long_polls.get_or_create(&OutcomeLabel { outcome }).inc();
    }
    /// The limit was reached: the poll was answered at once.
    pub fn long_poll_refused(&self) {
        self.long_polls.get_or_create(&OutcomeLabel { outcome: "full" }).inc();
    }
    /// `stored`, `unknown`, `refused`, `busy`.
    pub fn status_report(&self, outcome: &'static str) {
        self.status_reports.get_or_create(&OutcomeLabel { outcome }).inc();
    }
    pub fn status_batch(&self) {
        self.status_batches.inc();
    }
    pub fn capability_batch(&self) {
        self.capability_batches.inc();
    }
    /// `granted`, `denied`, `invalid`, `busy`.
    pub fn enrollment(&self, outcome: &'static str) {
        self.enrollments.get_or_create(&OutcomeLabel { outcome }).inc();
    }
    pub fn publish_batch(&self) {
        self.publish_batches.inc();
    }
    pub fn store_error(&self) {
        self.store_errors.inc();
    }

    /// OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        encode(&mut out, &self.registry).expect("writing to a string does not fail");
        out
    }
}

//! Wraps every request: an id, a span, one log line, one count.

use super::{Metrics, RouteLabels};
use crate::net::{Peer, RemoteAddress};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use tracing::Instrument as _;
use tracing::level_filters::LevelFilter;

pub const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longer ids from outside are replaced: they appear in every log line.
const REQUEST_ID_CHARS_MAX: usize = 64;

/// Identifies one request in responses, logs and the audit log. Taken from `x-request-id` if the caller sends a valid
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub String);

/// Middleware for a listener: `axum::middleware::from_fn_with_state((name, metrics), observe)`.
pub async fn observe(
    State((listener, metrics)): State<(&'static str, Arc<Metrics>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = request_id(&request);
    request.extensions_mut().insert(id.clone());
    let method = request.method().to_string();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let span = tracing::info_span!(
        "request",
        request.id = %id.0,
        listener,
        http.method = %method,
        http.route = %route,
        client.id = tracing::field::Empty,
        remote = tracing::field::Empty,
    );
    if let Some(Peer(identity)) = request.extensions().get::<Peer>() {
        span.record("client.id", identity.client_id.as_str());
    }
    if let Some(RemoteAddress(address)) = request.extensions().get::<RemoteAddress>() {
        span.record("remote", tracing::field::display(address));
    }
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    let took = started.elapsed();
    span.in_scope(|| log(status, took.as_secs_f64() * 1_000.0));
    metrics.request(RouteLabels { listener, route, method: known_method(method), status: status.as_u16() }, took);
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID_HEADER, value);
    }
    response
}

/// An unchanged poll is by far the most frequent request and not informative.
fn log(status: StatusCode, duration_ms: f64) {
    let status = status.as_u16();
    match status {
        304 => tracing::debug!(http.status = status, duration_ms, "answered"),
        // The error is logged where it occurred; here it is only counted.
        _ => tracing::info!(http.status = status, duration_ms, "answered"),
    }
}

fn request_id(request: &Request) -> RequestId {
    let sane = |text: &&str| {
        (1..=REQUEST_ID_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let given = request.headers().get(REQUEST_ID_HEADER).and_then(|value| value.to_str().ok()).filter(sane);
    given.map_or_else(RequestId::fresh, |given| RequestId(given.to_owned()))
}

impl RequestId {
    /// A unique id: from a random start, without a system call each time.
    pub fn fresh() -> Self {
        static START: LazyLock<(u64, u64)> = LazyLock::new(|| uuid::Uuid::new_v4().as_u64_pair());
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let (high, low) = (mix(START.0.wrapping_add(count)), mix(START.1 ^ count));
        let bytes = uuid::Uuid::from_u64_pair(high, low).into_bytes();
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
    }
}

/// The finalizer of splitmix64: bijective, and neighbors look unrelated.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Whether a line may be written for an unchanged poll; a filter may enable it in any of its directives.
pub(crate) fn logs_unchanged() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// Methods are free text on the wire; a label must not be.
fn known_method(method: String) -> String {
    match method.as_str() {
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => method,
        _ => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Metrics, observe};
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::post;
    use parking_lot::Mutex;
    use serde_json::Value;
    use std::io;
    use std::sync::Arc;
    use tower::ServiceExt as _;
    use tracing_subscriber::fmt::MakeWriter;

    /// Collects log lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Lines {
        type Writer = Self;
        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    #[tokio::test]
    async fn every_request_is_one_json_line_with_its_id_and_without_bodies_or_tokens() {
        let lines = Lines::default();
        let builder = tracing_subscriber::fmt().with_writer(lines.clone()).json();
        let subscriber = builder.flatten_event(true).with_current_span(true).with_span_list(false).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let router: Router = Router::new()
            .route("/things/{id}", post(async || "made"))
            .layer(from_fn_with_state(("operators", Arc::new(Metrics::default())), observe));
        let request = http::Request::post("/things/7?token=swordfish")
            .header("x-request-id", "abc-1")
            .header("authorization", "Bearer swordfish")
            .body(Body::from("swordfish"))
            .unwrap();
        router.oneshot(request).await.unwrap();
        drop(guard);
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert!(!text.contains("swordfish"), "{text}");
        let line: Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(line["message"], "answered");
        assert_eq!(line["http.status"], 200);
        assert_eq!(line["span"]["request.id"], "abc-1");
        assert_eq!(line["span"]["http.route"], "/things/{id}");
        assert_eq!(line["span"]["listener"], "operators");
        assert!(line["duration_ms"].as_f64().is_some() && line["timestamp"].is_string());
    }
}

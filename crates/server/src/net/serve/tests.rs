//! Connection lifetimes.

use super::super::lifetime::{CloseReason, Lifetimes};
use super::{Bound, Options};
use crate::clock::SystemClock;
use crate::telemetry::Metrics;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::stream;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Upper bound for anything that should happen.
const PATIENCE: Duration = Duration::from_secs(20);
const PIECES: usize = 40;

/// A slow response: twice as long as all limits of the test together.
async fn slow() -> Body {
    let pieces = stream::unfold((interval(Duration::from_millis(20)), 0), |(mut tick, sent)| async move {
        tick.tick().await;
        (sent < PIECES).then_some((Ok::<_, Infallible>("piece"), (tick, sent + 1)))
    });
    Body::from_stream(pieces)
}

/// Limits that are never reached here.
fn patient() -> Options {
    let long = Duration::from_hours(1);
    Options {
        name: "test",
        http1_only: false,
        connections_max: 1,
        handshake_timeout: long,
        idle_timeout: long,
        connection_age_max: long,
        rest_after: long,
        close_grace: Duration::from_millis(100),
        clock: Arc::new(SystemClock),
        metrics: Arc::new(Metrics::default()),
    }
}

/// The response of a plain listener to these bytes, until it closes the connection.
async fn answer(options: impl FnOnce(&mut Options), request: &[u8]) -> String {
    let mut settings = patient();
    options(&mut settings);
    let bound = Bound::to(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut stream = TcpStream::connect(bound.address).await.unwrap();
    let router = Router::new().route("/", get(slow));
    let stop = CancellationToken::new();
    let _stop_at_the_end = stop.clone().drop_guard();
    tokio::spawn(bound.serve(settings, None, router, stop, TaskTracker::new()));
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed in time");
    read.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_request_in_progress_outlives_the_age_of_its_connection() {
    for http1_only in [false, true] {
        let limits = |options: &mut Options| {
            options.http1_only = http1_only;
            options.connection_age_max = Duration::from_millis(100);
            options.idle_timeout = Duration::from_millis(200);
        };
        let answer = answer(limits, b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        assert_eq!(answer.matches("piece").count(), PIECES, "{answer}");
        assert!(answer.ends_with("0\r\n\r\n"), "the response is complete: {answer}");
    }
}

#[tokio::test]
async fn closes_a_connection_without_a_request() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [preface.as_slice(), &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    for http1_only in [false, true] {
        let limits = |options: &mut Options| {
            options.http1_only = http1_only;
            options.idle_timeout = Duration::from_millis(100);
        };
        for sent in [b"".as_slice(), b"P", b"GET / HT", &preface[..18], preface, &settings] {
            assert!(!answer(limits, sent).await.contains("piece"), "{sent:?}");
        }
    }
}

#[tokio::test]
async fn closes_a_connection_without_further_requests() {
    let whole = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n".as_slice();
    for http1_only in [false, true] {
        let limits = |options: &mut Options| {
            options.http1_only = http1_only;
            options.idle_timeout = Duration::from_millis(100);
        };
        for more in [b"".as_slice(), b"GET / HT"] {
            let answer = answer(limits, &[whole, more].concat()).await;
            assert_eq!(answer.matches("piece").count(), PIECES, "only idle time after the response counts: {answer}");
        }
    }
}

#[tokio::test]
async fn closes_a_connection_at_its_age_before_the_next_sweep() {
    // An idle limit of one hour would allow four sweeps a second; the age comes with the connection, like that of a
    // certificate.
    let lifetimes = Lifetimes::new(Duration::from_hours(1), Duration::from_hours(1), Duration::from_hours(1));
    let stop = CancellationToken::new();
    let (_sender, trust) = watch::channel(());
    tokio::spawn(Arc::clone(&lifetimes).run(stop.clone(), trust));
    let long = lifetimes.begin(Duration::from_hours(1), 0, true, &stop);
    let short = lifetimes.begin(Duration::from_millis(50), 0, true, &stop);
    let reason = timeout(PATIENCE, poll_fn(|context| short.poll_closing(context))).await.expect("woken in time");
    assert_eq!((reason, long.closing()), (CloseReason::Age, None));
    stop.cancel();
    let reason = timeout(PATIENCE, poll_fn(|context| long.poll_closing(context))).await.expect("woken in time");
    assert_eq!(reason, CloseReason::Stop);
    let late = lifetimes.begin(Duration::from_hours(1), 0, true, &stop);
    assert_eq!(late.closing(), Some(CloseReason::Stop), "it comes after the last sweep");
}

#[tokio::test]
async fn closes_connections_from_before_a_trust_change() {
    let lifetimes = Lifetimes::new(Duration::from_hours(1), Duration::from_hours(1), Duration::from_hours(1));
    let stop = CancellationToken::new();
    let _stop_at_the_end = stop.clone().drop_guard();
    let (sender, trust) = watch::channel(());
    tokio::spawn(Arc::clone(&lifetimes).run(stop.clone(), trust));
    let before = lifetimes.trust();
    let old = lifetimes.begin(Duration::from_hours(1), before, true, &stop);
    sender.send(()).unwrap();
    let reason = timeout(PATIENCE, poll_fn(|context| old.poll_closing(context))).await.expect("woken in time");
    assert_eq!(reason, CloseReason::Trust);
    let slow = lifetimes.begin(Duration::from_hours(1), before, true, &stop);
    assert_eq!(slow.closing(), Some(CloseReason::Trust), "its handshake was in progress");
    let new = lifetimes.begin(Duration::from_hours(1), lifetimes.trust(), true, &stop);
    assert_eq!(new.closing(), None);
}

/// Reads until the received data is enough.
async fn read_until(stream: &mut TcpStream, enough: impl Fn(&str) -> bool) {
    let mut seen = Vec::new();
    while !enough(&String::from_utf8_lossy(&seen)) {
        let read = timeout(PATIENCE, stream.read_buf(&mut seen)).await.expect("answered in time").unwrap();
        assert!(read > 0, "closed after {} bytes", seen.len());
    }
}

async fn expect_responses(stream: &mut TcpStream, count: usize) {
    read_until(stream, |seen| seen.matches("quick answer").count() == count).await;
}

async fn idle(metrics: &Metrics, count: i64) {
    let mut looks = interval(Duration::from_millis(5));
    let seen = async {
        while metrics.idle() != count {
            looks.tick().await;
        }
    };
    timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("{} are idle, not {count}", metrics.idle()));
}

#[tokio::test]
async fn an_idle_connection_loses_no_data() {
    const LARGE: usize = 8 << 20;
    let metrics = Arc::new(Metrics::default());
    let options = Options {
        http1_only: true,
        connections_max: 2,
        rest_after: Duration::ZERO,
        metrics: Arc::clone(&metrics),
        ..patient()
    };
    let bound = Bound::to(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut stream = TcpStream::connect(bound.address).await.unwrap();
    let mut other = TcpStream::connect(bound.address).await.unwrap();
    let router = Router::new()
        .route("/quick", get(async || "quick answer").post(async |body: String| format!("quick answer to {body}")))
        .route("/large", get(async || "~".repeat(LARGE)));
    let stop = CancellationToken::new();
    tokio::spawn(bound.serve(options, None, router, stop.clone(), TaskTracker::new()));
    let quick = b"GET /quick HTTP/1.1\r\nhost: test\r\n\r\n";
    for _ in 0..2 {
        stream.write_all(quick).await.unwrap();
        expect_responses(&mut stream, 1).await;
        idle(&metrics, 1).await;
    }
    // A request in two pieces, and another one right after it.
    stream.write_all(&quick[..9]).await.unwrap();
    idle(&metrics, 0).await;
    stream.write_all(&[&quick[9..], quick].concat()).await.unwrap();
    expect_responses(&mut stream, 2).await;
    idle(&metrics, 1).await;
    // The rest of a body is never parsed as a request.
    stream.write_all(b"POST /quick HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\nhe").await.unwrap();
    idle(&metrics, 0).await;
    stream.write_all(b"llo").await.unwrap();
    read_until(&mut stream, |seen| seen.ends_with("quick answer to hello")).await;
    // An unread response stays in flight, while other connections become idle.
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    for _ in 0..2 {
        other.write_all(quick).await.unwrap();
        expect_responses(&mut other, 1).await;
        idle(&metrics, 1).await;
    }
    read_until(&mut stream, |seen| seen.len() > LARGE && seen.matches('~').count() == LARGE).await;
    idle(&metrics, 2).await;
    // An idle connection is closed when the server stops.
    stop.cancel();
    for stream in [&mut stream, &mut other] {
        let mut more = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut more)).await.expect("closed in time").unwrap();
        assert_eq!(more, b"");
    }
    idle(&metrics, 0).await;
}

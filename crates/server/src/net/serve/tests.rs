//! How long a connection lasts.

use super::super::lifetime::{Lifetimes, Reason};
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

/// How long anything that should happen may take.
const PATIENCE: Duration = Duration::from_secs(20);
const PIECES: usize = 40;

/// An answer that takes some time to send: twice as long as every limit of the test together.
async fn slow() -> Body {
    let pieces = stream::unfold((interval(Duration::from_millis(20)), 0), |(mut tick, sent)| async move {
        tick.tick().await;
        (sent < PIECES).then_some((Ok::<_, Infallible>("piece"), (tick, sent + 1)))
    });
    Body::from_stream(pieces)
}

/// What a plain listener answers to these bytes until it closes the connection.
async fn answer(options: impl FnOnce(&mut Options), request: &[u8]) -> String {
    let long = Duration::from_hours(1);
    let mut settings = Options {
        name: "test",
        http1_only: false,
        connections_max: 1,
        handshake_timeout: long,
        idle_timeout: long,
        connection_age_max: long,
        close_grace: Duration::from_millis(100),
        clock: Arc::new(SystemClock),
        metrics: Arc::new(Metrics::default()),
    };
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
async fn a_request_under_way_outlives_the_age_of_its_connection() {
    for http1_only in [false, true] {
        let limits = |options: &mut Options| {
            options.http1_only = http1_only;
            options.connection_age_max = Duration::from_millis(100);
            options.idle_timeout = Duration::from_millis(200);
        };
        let answer = answer(limits, b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        assert_eq!(answer.matches("piece").count(), PIECES, "{answer}");
        assert!(answer.ends_with("0\r\n\r\n"), "the answer is whole: {answer}");
    }
}

#[tokio::test]
async fn whoever_asks_for_nothing_is_shown_out() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [preface.as_slice(), &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    for http1_only in [false, true] {
        let limits = |options: &mut Options| {
            options.http1_only = http1_only;
            options.idle_timeout = Duration::from_millis(100);
        };
        for said in [b"".as_slice(), b"P", b"GET / HT", &preface[..18], preface, &settings] {
            assert!(!answer(limits, said).await.contains("piece"), "{said:?}");
        }
    }
}

#[tokio::test]
async fn whoever_asks_for_nothing_more_is_shown_out() {
    let whole = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n".as_slice();
    for http1_only in [false, true] {
        let limits = |options: &mut Options| {
            options.http1_only = http1_only;
            options.idle_timeout = Duration::from_millis(100);
        };
        for more in [b"".as_slice(), b"GET / HT"] {
            let answer = answer(limits, &[whole, more].concat()).await;
            assert_eq!(answer.matches("piece").count(), PIECES, "only silence after the answer counts: {answer}");
        }
    }
}

#[tokio::test]
async fn a_connection_ends_at_its_age_however_late_the_next_look_would_be() {
    // The hour of silence would allow a look every second; the age comes with the connection, as that of a certificate does.
    let lifetimes = Lifetimes::new(Duration::from_hours(1), Duration::from_hours(1));
    let stop = CancellationToken::new();
    let (_sender, trust) = watch::channel(());
    tokio::spawn(Arc::clone(&lifetimes).run(stop.clone(), trust));
    let long = lifetimes.begin(Duration::from_hours(1), 0, true, &stop);
    let short = lifetimes.begin(Duration::from_millis(50), 0, true, &stop);
    let reason = timeout(PATIENCE, poll_fn(|context| short.poll_closing(context))).await.expect("told in time");
    assert_eq!((reason, long.closing()), (Reason::Age, None));
    stop.cancel();
    let reason = timeout(PATIENCE, poll_fn(|context| long.poll_closing(context))).await.expect("told in time");
    assert_eq!(reason, Reason::Stop);
    let late = lifetimes.begin(Duration::from_hours(1), 0, true, &stop);
    assert_eq!(late.closing(), Some(Reason::Stop), "it comes after the last look");
}

#[tokio::test]
async fn a_connection_made_under_an_older_trust_is_told() {
    let lifetimes = Lifetimes::new(Duration::from_hours(1), Duration::from_hours(1));
    let stop = CancellationToken::new();
    let _stop_at_the_end = stop.clone().drop_guard();
    let (sender, trust) = watch::channel(());
    tokio::spawn(Arc::clone(&lifetimes).run(stop.clone(), trust));
    let before = lifetimes.trust();
    let old = lifetimes.begin(Duration::from_hours(1), before, true, &stop);
    sender.send(()).unwrap();
    let reason = timeout(PATIENCE, poll_fn(|context| old.poll_closing(context))).await.expect("told in time");
    assert_eq!(reason, Reason::Trust);
    let slow = lifetimes.begin(Duration::from_hours(1), before, true, &stop);
    assert_eq!(slow.closing(), Some(Reason::Trust), "its handshake was under way");
    let new = lifetimes.begin(Duration::from_hours(1), lifetimes.trust(), true, &stop);
    assert_eq!(new.closing(), None);
}

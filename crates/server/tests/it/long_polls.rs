//! `Prefer: wait=N`: long polls (RFC 7240).

use crate::support::client::{Device, plain, refused};
use crate::support::{TestServer, client_id, eventually, postgres};
use margrave_core::model::ClientState;
use margrave_server::config::Span;
use reqwest::Response;
use sqlx::Connection as _;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const MANIFEST: &str = "/api/v1/deployments";
/// Above every wait of these tests; below the time that polls ask for.
const PATIENCE: Duration = Duration::from_mins(1);
/// Longer than any test.
const LONG: &str = "wait=3600";

async fn etag(device: &Device) -> String {
    device.get(MANIFEST).await.headers()["etag"].to_str().unwrap().to_owned()
}

/// A long poll.
fn poll(device: &Device, etag: &str, prefer: &'static str) -> JoinHandle<Response> {
    let request = device.request("GET", MANIFEST).header("if-none-match", etag).header("prefer", prefer);
    tokio::spawn(async move { request.timeout(PATIENCE).send().await.unwrap() })
}

async fn open_count(server: &TestServer, count: usize) {
    eventually(&format!("{count} long polls are open"), async || {
        (server.state().long_polls.open_count() == count).then_some(())
    })
    .await;
}

/// Status and `Preference-Applied` of an answer.
fn outcome(response: &Response) -> (u16, Option<&str>) {
    let applied = response.headers().get("preference-applied").map(|applied| applied.to_str().unwrap());
    (response.status().as_u16(), applied)
}

async fn metric(server: &TestServer, line: &str) -> bool {
    let text = plain().get(server.operators_url("/metrics")).send().await.unwrap().text().await.unwrap();
    text.lines().any(|found| found == line)
}

#[tokio::test]
async fn delivers_a_rollout_to_a_long_poll() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let lathe = server.accepted("lathe").await;
    let (before, other) = (etag(&press).await, etag(&lathe).await);
    let waiting = poll(&press, &before, LONG);
    let bystander = poll(&lathe, &other, LONG);
    open_count(&server, 2).await;
    assert!(metric(&server, "margrave_long_polls_open 2").await);
    server.deploy("press").await;
    let response = waiting.await.unwrap();
    assert_eq!(outcome(&response), (200, Some("wait=120")), "as long as the server allows");
    assert_ne!(response.headers()["etag"], before.as_str());
    assert_eq!(response.json::<serde_json::Value>().await.unwrap()["deployments"].as_array().unwrap().len(), 1);
    assert!(!bystander.is_finished(), "a rollout to one client wakes no other");
    assert!(metric(&server, "margrave_long_polls_total{outcome=\"changed\"} 1").await);
    bystander.abort();
    open_count(&server, 0).await;
    assert!(metric(&server, "margrave_long_polls_total{outcome=\"gone\"} 1").await);
}

#[tokio::test]
async fn answers_304_when_a_long_poll_times_out() {
    // Longer than the request timeout, and with the database locked: it is answered from memory (invariant 3).
    let limit = Span(Duration::from_millis(500));
    let server = TestServer::start_with(|config| config.limits.request_timeout = limit).await;
    let press = server.accepted("press").await;
    let etag = etag(&press).await;
    let path = server.state().config.data_dir.join("margrave.db");
    let mut writer = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    sqlx::query("BEGIN EXCLUSIVE").execute(&mut writer).await.unwrap();
    let started = Instant::now();
    let response = poll(&press, &etag, "respond-async, wait=2").await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(2), "waited for the whole time");
    assert_eq!(outcome(&response), (304, Some("wait=2")));
    assert_eq!(response.headers()["etag"], etag.as_str());
    assert_eq!(response.headers()["cache-control"], "private");
    sqlx::query("ROLLBACK").execute(&mut writer).await.unwrap();
    assert!(metric(&server, "margrave_long_polls_total{outcome=\"elapsed\"} 1").await);
}

#[tokio::test]
async fn answers_other_requests_without_waiting() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let etag = etag(&press).await;
    let ask = async |method: &str, path: &str, name: &'static str, value: &str| {
        let request = press.request(method, path).header("prefer", LONG).header(name, value).timeout(PATIENCE);
        let response = request.send().await.unwrap();
        assert_eq!(outcome(&response).1, None, "{method} {path} {name}: {value}");
        response.status().as_u16()
    };
    assert_eq!(ask("GET", MANIFEST, "accept", "*/*").await, 200);
    assert_eq!(ask("GET", MANIFEST, "if-none-match", "\"sha256:00\"").await, 200);
    assert_eq!(ask("HEAD", MANIFEST, "if-none-match", &etag).await, 304);
    assert_eq!(ask("GET", "/api/v1/bundles/x", "if-none-match", &etag).await, 404);
    let stranger = server.device("stranger");
    refused(poll(&stranger, &etag, LONG).await.unwrap(), 403, Some("not-authorized")).await;
    for prefer in ["wait=0", "wait=x", "return=minimal"] {
        assert_eq!(outcome(&poll(&press, &etag, prefer).await.unwrap()), (304, None), "{prefer}");
    }
    assert_eq!(server.state().long_polls.open_count(), 0);
}

#[tokio::test]
async fn answers_at_once_when_long_polls_are_off() {
    let server = TestServer::start_with(|config| config.limits.long_poll_max = Span::seconds(0)).await;
    let press = server.accepted("press").await;
    let etag = etag(&press).await;
    assert_eq!(outcome(&poll(&press, &etag, LONG).await.unwrap()), (304, None));
}

#[tokio::test]
async fn limits_long_polls_to_one_per_client_and_in_total() {
    let server = TestServer::start_with(|config| config.limits.long_polls = 2).await;
    let press = server.accepted("press").await;
    let lathe = server.accepted("lathe").await;
    let mill = server.accepted("mill").await;
    let etag = etag(&press).await;
    let first = poll(&press, &etag, LONG);
    open_count(&server, 1).await;
    // The newer one replaces the older, which is answered without a wait.
    let second = poll(&press, &etag, LONG);
    assert_eq!(outcome(&first.await.unwrap()), (304, None));
    open_count(&server, 1).await;
    assert!(metric(&server, "margrave_long_polls_total{outcome=\"replaced\"} 1").await);
    let other = poll(&lathe, &self::etag(&lathe).await, LONG);
    open_count(&server, 2).await;
    // At the limit: an ordinary answer, not an error, and no open poll is replaced.
    let third = poll(&mill, &self::etag(&mill).await, LONG).await.unwrap();
    assert_eq!(outcome(&third), (304, None));
    assert!(metric(&server, "margrave_long_polls_total{outcome=\"full\"} 1").await);
    assert!(!second.is_finished() && !other.is_finished());
    server.deploy("press").await;
    assert_eq!(second.await.unwrap().status(), 200);
    let third = poll(&mill, &self::etag(&mill).await, LONG);
    open_count(&server, 2).await;
    third.abort();
    other.abort();
}

#[tokio::test]
async fn rejects_the_long_poll_of_a_client_decommissioned_meanwhile() {
    // WID-05, GEN-14
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let waiting = poll(&press, &etag(&press).await, LONG);
    open_count(&server, 1).await;
    server.set_state("press", ClientState::Decommissioned).await;
    refused(waiting.await.unwrap(), 403, Some("not-authorized")).await;
}

#[tokio::test]
async fn a_waiting_client_never_looks_offline() {
    let server = TestServer::start_with(|config| config.offline_after = Span::seconds(6)).await;
    let press = server.accepted("press").await;
    let etag = etag(&press).await;
    let response = poll(&press, &etag, LONG).await.unwrap();
    assert_eq!(outcome(&response), (304, Some("wait=2")), "two fifths of `offline_after`");
}

#[tokio::test]
async fn answers_long_polls_when_the_server_stops() {
    let server = TestServer::start_with(|config| config.limits.drain_timeout = Span(PATIENCE)).await;
    let press = server.accepted("press").await;
    let waiting = poll(&press, &etag(&press).await, LONG);
    open_count(&server, 1).await;
    tokio::time::timeout(PATIENCE, server.running.shutdown()).await.expect("stops before the end of the wait");
    assert_eq!(outcome(&waiting.await.unwrap()), (304, Some("wait=120")));
}

#[tokio::test]
async fn answers_a_long_poll_when_its_connection_reaches_its_age() {
    // TLS-03
    let age = Span(Duration::from_secs(2));
    let server = TestServer::start_with(|config| config.limits.connection_age_max = age).await;
    let press = server.accepted("press").await;
    let response = poll(&press, &etag(&press).await, LONG).await.unwrap();
    assert_eq!(outcome(&response), (304, Some("wait=120")));
    assert_eq!(response.headers()["connection"], "close");
    assert!(metric(&server, "margrave_long_polls_total{outcome=\"closing\"} 1").await);
}

#[tokio::test]
async fn delivers_a_rollout_of_another_server_to_a_long_poll() {
    let url = postgres::database().await;
    let one = TestServer::start_with(|config| config.store.url = Some(url.clone())).await;
    let two = TestServer::start_with(|config| {
        config.store.url = Some(url.clone());
        config.store.seal_key_file = Some(one.state().config.seal_key_file());
    })
    .await;
    let press = one.accepted("press").await;
    let lathe = one.accepted("lathe").await;
    let (waiting, lathe) = (poll(&press, &etag(&press).await, LONG), poll(&lathe, &etag(&lathe).await, LONG));
    open_count(&one, 2).await;
    // The other direction works as well: this client was created while the server ran.
    let known = async || two.state().heads.get(&client_id("press"));
    eventually("the other server knows the client", known).await;
    two.deploy("press").await;
    assert_eq!(outcome(&waiting.await.unwrap()), (200, Some("wait=120")));
    two.set_state("lathe", ClientState::Decommissioned).await;
    refused(lathe.await.unwrap(), 403, Some("not-authorized")).await;
    let (one, two) = (one.running, two.running);
    tokio::join!(one.shutdown(), two.shutdown());
}

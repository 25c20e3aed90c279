//! Health, readiness, metrics.

use crate::support::client::plain;
use crate::support::{TestServer, client_id, eventually};
use margrave_store::{Store, StoreOptions};

#[tokio::test]
async fn health_readiness_and_metrics_need_no_token() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let client = plain();
    let get = async |path: &str| client.get(server.operators_url(path)).send().await.unwrap();
    assert_eq!(get("/healthz").await.status(), 200);
    let ready = get("/readyz").await;
    assert_eq!(ready.status(), 200);
    assert_eq!(ready.text().await.unwrap(), "ready\n");

    let etag = press.get("/api/v1/deployments").await.headers()["etag"].clone();
    press.request("GET", "/api/v1/deployments").header("if-none-match", etag).send().await.unwrap();
    let metrics = get("/metrics").await;
    assert!(metrics.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let text = metrics.text().await.unwrap();
    for line in [
        "margrave_polls_total{outcome=\"changed\"} 1",
        "margrave_polls_total{outcome=\"unchanged\"} 1",
        "margrave_requests_total{listener=\"devices\",route=\"/api/v1/deployments\",method=\"GET\",status=\"304\"} 1",
        "margrave_requests_total{listener=\"operators\",route=\"/healthz\",method=\"GET\",status=\"200\"} 1",
        "margrave_store_errors_total 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_stopping_server_is_not_ready() {
    let server = TestServer::start().await;
    let client = plain();
    // An existing connection: no new ones are accepted from here on.
    assert_eq!(client.get(server.operators_url("/readyz")).send().await.unwrap().status(), 200);
    server.state().stopping.cancel();
    let late = client.get(server.operators_url("/readyz")).send().await;
    assert!(late.is_err() || late.unwrap().status() == 503);
    server.running.wait().await;
    server.running.shutdown().await;
}

#[tokio::test]
async fn checkpoints_writes_into_the_database_file() {
    // Commits do not checkpoint the log, so a background loop must: a copy without the log soon has everything.
    let server = TestServer::start().await;
    server.accepted("line-1").await;
    let file = server.state().config.data_dir.join("margrave.db");
    eventually("the file alone has the client", || async {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.db");
        std::fs::copy(&file, &copy).unwrap();
        let url = format!("sqlite://{}", copy.display());
        // A copy made during a write may be torn.
        let store = Store::open(&StoreOptions { url, readers: 1 }).await.ok()?;
        let found = store.client_get(&client_id("line-1")).await.ok()?;
        store.close().await;
        found
    })
    .await;
}

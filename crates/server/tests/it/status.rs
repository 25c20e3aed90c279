//! `POST /api/v1/deployments/{deploymentId}/status` (requirements §6).

use crate::support::client::{Device, refused};
use crate::support::fleet::status;
use crate::support::{TestServer, client_id};
use margo::ids::DeploymentId;
use margo::status::State;
use margrave_core::model::Reported;
use serde_json::{Value, json};
use uuid::Uuid;

async fn reported(server: &TestServer, id: DeploymentId) -> Option<Reported> {
    server.state().store.deployment_get(id).await.unwrap().unwrap().reported
}

async fn post(device: &Device, id: DeploymentId, body: &Value) -> reqwest::Response {
    device.post(&format!("/api/v1/deployments/{id}/status"), body.to_string()).await
}

#[tokio::test]
async fn every_report_updates_the_status_record() {
    // ST-09, W-10
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    for state in ["pending", "installing", "installed"] {
        let response = post(&press, id, &status(id, 2, state)).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.text().await.unwrap(), "");
    }
    let last = reported(&server, id).await.unwrap();
    assert_eq!((last.state, last.adopted_version), (State::Installed, 2));
}

#[tokio::test]
async fn returns_404_for_a_deployment_of_another_client() {
    // W-11, GEN-09
    let server = TestServer::start().await;
    let (press, lathe) = (server.accepted("press").await, server.accepted("lathe").await);
    let id = server.deploy("press").await;
    let stranger = DeploymentId(Uuid::new_v4());
    refused(post(&press, stranger, &status(stranger, 2, "installed")).await, 404, Some("deployment-not-found")).await;
    refused(post(&lathe, id, &status(id, 2, "failed")).await, 404, Some("deployment-not-found")).await;
    assert!(reported(&server, id).await.is_none(), "reports of other clients do not count");
    let odd = press.post("/api/v1/deployments/seven/status", status(id, 2, "installed").to_string()).await;
    refused(odd, 404, Some("deployment-not-found")).await;
}

#[tokio::test]
async fn a_report_with_a_version_that_was_never_issued_changes_nothing() {
    // Invariant 2: one request must not use up the versions of a client, or stop a rollout to others.
    let server = TestServer::start().await;
    let (press, _lathe) = (server.accepted("press").await, server.accepted("lathe").await);
    let id = server.deploy("press").await;
    let stranger = DeploymentId(Uuid::new_v4());
    let most = 9_007_199_254_740_989;
    let version = || server.state().heads.get(&client_id("press")).unwrap().version;
    let before = version();
    refused(post(&press, stranger, &status(stranger, most, "installed")).await, 404, Some("deployment-not-found"))
        .await;
    assert_eq!(version(), before, "a report about another deployment raises nothing");
    for adopted in [most, before + 100_001] {
        refused(post(&press, id, &status(id, adopted, "installed")).await, 422, Some("semantic-error")).await;
        assert_eq!(version(), before, "{adopted}");
        assert_eq!(server.state().heads.rejected_version(&client_id("press")), Some(adopted), "shown on the client");
    }
    assert!(reported(&server, id).await.is_none());
    assert_eq!(post(&press, id, &status(id, before + 100_000, "installed")).await.status(), 200, "as after a restore");
    assert!(version() > before + 100_000);
    server.deploy("lathe").await;
}

#[tokio::test]
async fn accepts_reports_for_a_removed_deployment() {
    // ST-12
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    server.remove("press", id).await;
    for state in ["removing", "removed"] {
        assert_eq!(post(&press, id, &status(id, 3, state)).await.status(), 200);
    }
    assert_eq!(reported(&server, id).await.unwrap().state, State::Removed);
}

#[tokio::test]
async fn accepts_lenient_forms_from_the_field() {
    // W-12, W-14
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    let mut body = status(id, 2, "failed");
    body["adoptedManifestVersion"] = json!("2");
    body["status"]["error"] = json!({ "code": "DEPLOYMENT_ERROR", "message": "" });
    body["components"][0]["error"] = json!({ "code": "", "source": "", "message": "" });
    body["apiVersion"] = json!("deployment.margo.org/v1alpha1");
    body["kind"] = json!("DeploymentStatusManifest");
    assert_eq!(post(&press, id, &body).await.status(), 200);
    assert_eq!(reported(&server, id).await.unwrap().adopted_version, 2);
    assert_eq!(post(&press, id, &status(id, 0, "installed")).await.status(), 200, "0 means unknown");
}

#[tokio::test]
async fn distinguishes_malformed_and_invalid_reports() {
    // ST-09, W-13, PRB-02, invariant 2
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    let path = format!("/api/v1/deployments/{id}/status");
    refused(press.post(&path, "{").await, 400, Some("invalid-request")).await;
    let body = vec![b' '; margrave_server::devices::STATUS_BYTES_MAX + 1];
    refused(press.post(&path, body).await, 413, None).await;

    let wrong = async |change: fn(&mut Value)| {
        let mut body = status(id, 2, "installed");
        change(&mut body);
        let problem = refused(post(&press, id, &body).await, 422, Some("semantic-error")).await;
        problem["errors"][0]["field"].as_str().unwrap().to_owned()
    };
    assert_eq!(wrong(|body| body["deploymentId"] = json!(Uuid::new_v4())).await, "deploymentId");
    assert_eq!(wrong(|body| body["status"]["state"] = json!("sleeping")).await, "status.state");
    assert_eq!(wrong(|body| body["components"][0]["name"] = Value::Null).await, "components[0].name");
    let over = |body: &mut Value| body["adoptedManifestVersion"] = json!(u64::MAX);
    assert_eq!(wrong(over).await, "adoptedManifestVersion");
    let far_over = |body: &mut Value| body["adoptedManifestVersion"] = json!("340282366920938463463374607431768211456");
    assert_eq!(wrong(far_over).await, "adoptedManifestVersion");
    assert!(reported(&server, id).await.is_none(), "nothing was stored");
}

#[tokio::test]
async fn concurrent_reports_share_transactions_without_loss() {
    // Invariant 5: a report answered with 200 is in the store.
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    let reports: Vec<_> = (0..200)
        .map(|_| {
            let press = press.clone();
            tokio::spawn(async move { post(&press, id, &status(id, 2, "installing")).await.status() })
        })
        .collect();
    for report in reports {
        assert_eq!(report.await.unwrap(), 200);
    }
    assert_eq!(post(&press, id, &status(id, 2, "installed")).await.status(), 200);
    assert_eq!(reported(&server, id).await.unwrap().state, State::Installed);
    let metrics = server.state().metrics.encode();
    assert!(metrics.contains("margrave_status_reports_total{outcome=\"kept\"} 201"), "{metrics}");
}

#[tokio::test]
async fn publishes_above_the_version_of_a_client_that_is_ahead() {
    // Invariant 2: the backup contains version 2, the client has adopted 50 since.
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    assert_eq!(post(&press, id, &status(id, 50, "installed")).await.status(), 200);
    let head = server.state().heads.get(&client_id("press")).unwrap();
    assert!(head.version > 50, "{head:?}");
    assert_eq!(server.manifest("press").await.0, head.version);
    let view = server.state().store.deployment_get(id).await.unwrap().unwrap();
    assert!(view.deployment.target_version > view.reported.unwrap().adopted_version, "not treated as converged");
    assert_eq!(post(&press, id, &status(id, head.version, "installed")).await.status(), 200);
    assert_eq!(server.manifest("press").await.0, head.version, "only once");
}

//! Status explanations over the API, in every state of a deployment.

use super::batches::fleet;
use super::packages::{ID, upload};
use super::{Kind, api, create, deployed, finished, on, press, problem};
use crate::support::{TestServer, eventually};
use margrave_api::deployments::Deployment;
use margrave_api::explain::{Explanation, Fact};
use margrave_core::model::ClientState;
use serde_json::{Value, json};
use std::time::Duration;

fn codes(facts: &[Fact]) -> Vec<&str> {
    facts.iter().map(|fact| fact.code.as_str()).collect()
}

#[track_caller]
fn check(shown: &Explanation, state: &str, waiting_for: &[&str], next_steps: &[&str]) {
    assert_eq!(shown.state, state, "{shown:?}");
    assert_eq!(codes(&shown.waiting_for), waiting_for, "{shown:?}");
    assert_eq!(codes(&shown.next_steps), next_steps, "{shown:?}");
}

async fn say(device: &crate::support::client::Device, deployment: &Deployment, version: u64, component: Value) {
    let state = component["state"].clone();
    let body = json!({
        "deploymentId": deployment.id, "adoptedManifestVersion": version, "status": { "state": state },
        "components": [component],
    });
    let response = device.post(&format!("/api/v1/deployments/{}/status", deployment.id), body.to_string()).await;
    assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
}

#[tokio::test]
async fn explains_a_deployment_from_pending_to_up_to_date_to_offline_to_removed() {
    let server = TestServer::start().await;
    let api = api(&server);
    let device = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let explain = async || api.explain_deployment(&deployment.id).await.unwrap();

    let shown = explain().await;
    check(&shown, "pending", &["next-poll"], &["next-poll"]);
    assert_eq!(shown.subject, format!("deployment/{}", deployment.id));
    assert_eq!(codes(&shown.desired), ["present", "requested-by"]);
    assert_eq!(shown.desired[1].sentence, "`token:admin` requested it: a test");
    assert_eq!(shown.summary, deployment.explanation, "the list and the explanation use the same words");

    let version = deployment.target_version;
    say(&device, &deployment, version, json!({ "name": "vision", "state": "installing" })).await;
    let started = server.state().now();
    check(&explain().await, "updating", &["next-report"], &["next-report"]);
    server.clock.advance(Duration::from_mins(1));
    let error = json!({ "code": "301", "source": "press", "message": "no such image" });
    say(&device, &deployment, version, json!({ "name": "vision", "state": "failed", "error": error })).await;
    let failed = explain().await;
    check(&failed, "failed", &["cause-removed"], &["next-action", "retry", "new-revision"]);
    let component = failed.observed.iter().find(|fact| fact.code == "component").unwrap();
    assert_eq!(component.sentence, "component `vision` is `failed`: no such image (code 301 from `press`)");
    assert_ne!(failed.observed[0].since, Some(started.to_string()));

    say(&device, &deployment, version, json!({ "name": "vision", "state": "installed" })).await;
    let since = server.state().now();
    server.clock.advance(Duration::from_mins(1));
    say(&device, &deployment, version, json!({ "name": "vision", "state": "installed", "more": 1 })).await;
    let fine = explain().await;
    check(&fine, "up-to-date", &[], &["new-revision"]);
    assert_eq!(fine.observed[0].since, Some(since.to_string()), "since the first report");

    finished(&api, &api.remove_deployment(&deployment.id, Some("sold"), None).await.unwrap()).await;
    check(&explain().await, "pending", &["next-poll"], &["next-poll"]);
    server.clock.advance(Duration::from_hours(1));
    let offline = explain().await;
    check(&offline, "device-offline", &["contact", "next-poll"], &["check-device"]);
    assert_eq!(codes(&offline.desired), ["absent", "requested-by"]);
    say(&device, &deployment, version + 1, json!({ "name": "vision", "state": "removed" })).await;
    check(&explain().await, "removed", &[], &["deploy-again"]);
    assert_eq!(problem(api.explain_deployment("absent").await).code, "not-found");
}

#[tokio::test]
async fn explains_deployments_of_a_blocked_client() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    server.set_state("press", ClientState::Decommissioned).await;
    let shown = api.explain_deployment(&deployment.id).await.unwrap();
    check(&shown, "pending", &["acceptance", "next-poll"], &["accept-client"]);
    let device = api.explain_device("press", "press").await.unwrap();
    check(&device, "blocked", &["acceptance", "deployment"], &["accept-client"]);
    assert_eq!(device.next_steps[0].command.as_deref(), Some("margrave client accept press"));
}

#[tokio::test]
async fn a_device_and_a_child_behind_a_gateway_are_explained() {
    let server = TestServer::start().await;
    let api = api(&server);
    let gateway = server.accepted("gw").await;
    Kind::default().report(&gateway, "gw").await;
    Kind::default().report(&gateway, "gw/cell").await;
    upload(&api, "1.0.0").await;
    let empty = api.explain_device("gw", "gw/cell").await.unwrap();
    check(&empty, "online", &[], &["deploy"]);
    let mut scope = on(&["gw"]);
    "gw/cell".clone_into(&mut scope.devices.as_mut().unwrap()[0].device);
    finished(&api, &api.create_deployments(&create("1.0.0", scope)).await.unwrap()).await;
    check(&api.explain_device("gw", "gw/cell").await.unwrap(), "updating", &["deployment"], &["next-poll"]);
    server.clock.advance(Duration::from_hours(1));
    let offline = api.explain_device("gw", "gw/cell").await.unwrap();
    check(&offline, "offline", &["contact", "deployment"], &["check-device"]);
    assert!(offline.summary.starts_with("its gateway `gw` has been offline since "), "{offline:?}");
    assert_eq!(problem(api.explain_device("gw", "gw/none").await).code, "not-found");
}

#[tokio::test]
async fn explains_an_application_by_counts_and_most_common_reasons() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    for name in ["small-1", "small-2"] {
        let small = Kind { memory: "512Mi", types: &["compose"], ..Kind::default() };
        press(&server, name, &small).await;
    }
    let blocked = api.explain_application(ID).await.unwrap();
    check(&blocked, "blocked", &[], &["show-compatibility"]);
    let reason = blocked.observed.iter().find(|fact| fact.code == "incompatibility-reason").unwrap();
    assert!(reason.sentence.starts_with("2 devices: profile `"), "{reason:?}");

    let device = press(&server, "press", &Kind::default()).await;
    assert_eq!(api.explain_application(ID).await.unwrap().state, "unused");
    let deployment = deployed(&server, "press").await;
    // Last-seen times are written in batches, and these counts come from the database.
    let waiting = eventually("the device counts as online", async || {
        let shown = api.explain_application(ID).await.unwrap();
        (codes(&shown.waiting_for) == ["next-poll"]).then_some(shown)
    })
    .await;
    check(&waiting, "updating", &["next-poll"], &["show-compatibility"]);
    let fit = waiting.observed.iter().find(|fact| fact.code == "compatibility").unwrap();
    assert_eq!(
        (&fit.values["compatible"], &fit.values["incompatible"], &fit.values["devices"]),
        (&json!(1), &json!(2), &json!(3))
    );
    let error = json!({ "code": "301", "source": "press", "message": "no such image" });
    let failed = json!({ "name": "vision", "state": "failed", "error": error });
    say(&device, &deployment, deployment.target_version, failed).await;
    let failing = api.explain_application(ID).await.unwrap();
    check(&failing, "failed", &["cause-removed"], &["explain-deployment", "show-compatibility"]);
    assert!(failing.next_steps[0].sentence.contains("no such image (301)"), "{failing:?}");
    assert_eq!(problem(api.explain_application("nothing").await).code, "not-found");
}

#[tokio::test]
async fn evaluates_every_device_of_a_large_fleet_for_an_application() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    fleet(&server, 450).await;
    let shown = api.explain_application(ID).await.unwrap();
    let fit = shown.observed.iter().find(|fact| fact.code == "compatibility").unwrap();
    assert_eq!(
        (&fit.values["judged"], &fit.values["devices"], &fit.values["compatible"]),
        (&json!(450), &json!(450), &json!(450)),
        "{fit:?}"
    );
}

//! One deployment through its whole life.

use super::packages::{self, ID};
use super::{Kind, all_deployments, api, create, deployed, finished, on, press, problem, refused, report};
use crate::support::TestServer;
use indexmap::IndexMap;
use margo::manifest::StateManifest;
use margrave_api::client::{ApiClient, DeploymentQuery, PageQuery};
use margrave_api::deployments::{Deployment, DeploymentState, Desired, UpdateDeployment};
use margrave_api::rollouts::RolloutKind;
use serde_json::{Value, json};
use std::time::Duration;

fn answers(list: &[(&str, Value)]) -> UpdateDeployment {
    let answers: IndexMap<String, Value> =
        list.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    UpdateDeployment { values: answers, comment: Some("tuning".to_owned()), ..UpdateDeployment::default() }
}

async fn updated(api: &ApiClient, id: &str, body: &UpdateDeployment) -> Deployment {
    let rollout = api.update_deployment(id, body, None).await.unwrap();
    let rollout = finished(api, &rollout).await;
    assert!(rollout.skipped.is_empty(), "{:?}", rollout.skipped);
    api.deployment(id).await.unwrap()
}

#[tokio::test]
async fn a_deployment_goes_from_the_catalog_to_the_device_and_back() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    assert_eq!((deployment.profile.as_str(), deployment.revision, deployment.target_version), ("small", 1, 2));
    assert_eq!(deployment.state, DeploymentState::Pending);

    let body = client.get("/api/v1/deployments").await.bytes().await.unwrap();
    let manifest = StateManifest::read(&body).unwrap().document;
    assert_eq!(manifest.manifest_version, 2);
    let entry = &manifest.deployments[0];
    assert_eq!(
        (entry.deployment_id.to_string(), entry.digest.to_string()),
        (deployment.id.clone(), deployment.digest.clone())
    );
    let yaml = client.get(&entry.url).await.text().await.unwrap();
    assert!(yaml.contains("s3cret-value"), "the device gets the value itself");

    report(&client, &deployment.id, 2, "installing").await;
    let now = api.deployment(&deployment.id).await.unwrap();
    assert_eq!(now.state, DeploymentState::Updating);
    report(&client, &deployment.id, 2, "installed").await;
    let now = api.deployment(&deployment.id).await.unwrap();
    assert_eq!((now.state, now.explanation.as_str()), (DeploymentState::UpToDate, "revision 1 (1.0.0) is installed"));
    assert_eq!(now.reported.unwrap().components[0].name, "vision");

    let now = updated(&api, &deployment.id, &answers(&[("interval", json!(30))])).await;
    assert_eq!((now.revision, now.target_version, now.state), (2, 3, DeploymentState::Outdated));
    assert!(now.explanation.contains("older revision"), "{}", now.explanation);
    assert_eq!(now.values["interval"], json!(30));
    assert_eq!(now.values["greeting"], json!("hello"), "values that were not given stay");
    let history = api.deployment_status_history(&deployment.id).await.unwrap().items;
    assert_eq!(history.iter().map(|status| status.state.as_str()).collect::<Vec<_>>(), ["installed", "installing"]);

    let rollout = api.remove_deployment(&deployment.id, Some("not needed"), None).await.unwrap();
    assert_eq!((finished(&api, &rollout).await.kind, rollout.total), (RolloutKind::Remove, 1));
    assert!(all_deployments(&api).await.is_empty());
    let gone = api.deployment(&deployment.id).await.unwrap();
    assert_eq!(gone.desired, Desired::Absent);
    report(&client, &deployment.id, 4, "removed").await;
    assert_eq!(api.deployment(&deployment.id).await.unwrap().state, DeploymentState::Removed);
    let query = DeploymentQuery { state: Some(DeploymentState::Removed), ..DeploymentQuery::default() };
    let removed = api.deployments(&query, &PageQuery::default()).await.unwrap().items;
    assert_eq!(removed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [deployment.id.as_str()]);
    let body = client.get("/api/v1/deployments").await.bytes().await.unwrap();
    let manifest = StateManifest::read(&body).unwrap().document;
    assert!(manifest.deployments.is_empty() && manifest.bundle.is_none());

    let revisions = api.deployment_revisions(&deployment.id).await.unwrap().items;
    let told: Vec<_> =
        revisions.iter().map(|revision| (revision.revision, revision.action, revision.comment.as_deref())).collect();
    assert_eq!(
        told,
        [
            (3, RolloutKind::Remove, Some("not needed")),
            (2, RolloutKind::Reconfigure, Some("tuning")),
            (1, RolloutKind::Create, Some("a test")),
        ]
    );
    assert!(api.verify_audit().await.unwrap().intact);
}

#[tokio::test]
async fn an_upgrade_keeps_values_drops_old_parameters_and_uses_new_defaults() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    updated(&api, &deployment.id, &answers(&[("greeting", json!("moin")), ("legacy", json!("old"))])).await;
    packages::upload(&api, "2.0.0").await;
    let body = UpdateDeployment { version: Some("2.0.0".to_owned()), ..answers(&[("mode", json!("fast"))]) };
    let now = updated(&api, &deployment.id, &body).await;
    assert_eq!((now.version.as_str(), now.revision, now.id), ("2.0.0", 3, deployment.id));
    assert_eq!(now.values["greeting"], json!("moin"));
    assert_eq!(now.values["mode"], json!("fast"));
    assert_eq!(now.values["image"], json!("vision:2"), "it has no setting");
    assert!(!now.values.contains_key("legacy"));
}

#[tokio::test]
async fn rejects_invalid_values_by_name_without_effect() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    packages::upload(&api, "1.0.0").await;
    let mut body = create("1.0.0", on(&["press"]));
    body.values = IndexMap::from([
        ("interval".to_owned(), json!(5)),
        ("greeting".to_owned(), json!("x".repeat(21))),
        ("unheard".to_owned(), json!(1)),
        ("password".to_owned(), json!("short")),
    ]);
    let problem = problem(api.create_deployments(&body).await);
    let mut fields: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["values.greeting", "values.interval", "values.password", "values.unheard"], "{problem:?}");
    assert!(!serde_json::to_string(&problem).unwrap().contains("short"), "{problem:?}");
    assert!(api.rollouts(&PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn an_immutable_value_keeps_its_first_value() {
    // PRM-06
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let moved = api.update_deployment(&deployment.id, &answers(&[("site", json!("elsewhere"))]), None).await;
    assert_eq!(refused(moved), ("invalid".to_owned(), vec!["values.site".to_owned()]));
    let same = updated(&api, &deployment.id, &answers(&[("site", json!("plant")), ("interval", json!(90))])).await;
    assert_eq!(same.values["site"], json!("plant"));
}

#[tokio::test]
async fn an_update_for_an_older_revision_is_a_conflict() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    updated(&api, &deployment.id, &answers(&[("interval", json!(30))])).await;
    let late = api.update_deployment(&deployment.id, &answers(&[("interval", json!(40))]), Some(1)).await;
    assert_eq!(problem(late).code, "conflict");
    assert_eq!(problem(api.remove_deployment(&deployment.id, None, Some(1)).await).status, 412);
    let dry = api.plan_update_deployment(&deployment.id, &answers(&[("interval", json!(40))]), Some(1)).await;
    assert_eq!(problem(dry).code, "conflict");
    assert_eq!(api.deployment(&deployment.id).await.unwrap().revision, 2);
}

#[tokio::test]
async fn reports_a_rollout_without_changes() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let same = api.update_deployment(&deployment.id, &answers(&[("greeting", json!("hello"))]), None).await;
    assert_eq!(problem(same).code, "unchanged");
    assert_eq!(
        problem(api.update_deployment(&deployment.id, &UpdateDeployment::default(), None).await).code,
        "invalid"
    );
}

#[tokio::test]
async fn rejects_a_second_deployment_of_the_same_application_on_a_device() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    packages::upload(&api, "1.0.0").await;
    let body = create("1.0.0", on(&["press"]));
    // Both are sent before the first is published: the intent already counts.
    let (one, other) = tokio::join!(api.create_deployments(&body), api.create_deployments(&body));
    let (good, bad) = if one.is_ok() { (one, other) } else { (other, one) };
    finished(&api, &good.unwrap()).await;
    let problem = problem(bad);
    assert_eq!((problem.code.as_str(), problem.errors[0].field.as_str()), ("exists", "press/press"), "{problem:?}");
    assert_eq!(all_deployments(&api).await.len(), 1);
}

#[tokio::test]
async fn distinguishes_an_offline_device_from_a_pending_one() {
    // ST-06
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    client.get("/api/v1/deployments").await;
    let deployment = deployed(&server, "press").await;
    assert!(deployment.explanation.contains("waiting for the device"), "{}", deployment.explanation);
    server.clock.advance(Duration::from_hours(1));
    let now = api.deployment(&deployment.id).await.unwrap();
    assert_eq!(now.state, DeploymentState::DeviceOffline);
    assert!(now.explanation.contains("been offline since"), "{}", now.explanation);
    let summary = api.summary().await.unwrap();
    assert_eq!((summary.devices, summary.applications), (1, 1));
}

#[tokio::test]
async fn reports_a_failure_with_component_code_and_message() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let body = json!({
        "deploymentId": deployment.id, "adoptedManifestVersion": 2, "status": { "state": "failed" },
        "components": [{ "name": "vision", "state": "failed",
            "error": { "code": "MGR-PULL", "source": "device", "message": "the image cannot be pulled" } }],
    });
    client.post(&format!("/api/v1/deployments/{}/status", deployment.id), body.to_string()).await;
    let now = api.deployment(&deployment.id).await.unwrap();
    assert_eq!(now.state, DeploymentState::Failed);
    assert_eq!(
        now.explanation,
        "revision 1 (1.0.0) failed in component `vision`: the image cannot be pulled (MGR-PULL)"
    );
    let query = DeploymentQuery { state: Some(DeploymentState::Failed), ..DeploymentQuery::default() };
    assert_eq!(api.deployments(&query, &PageQuery::default()).await.unwrap().items.len(), 1);
    let query = DeploymentQuery { state: Some(DeploymentState::UpToDate), ..DeploymentQuery::default() };
    assert!(api.deployments(&query, &PageQuery::default()).await.unwrap().items.is_empty());
    assert_eq!(api.application(ID).await.unwrap().deployments["1.0.0"].0[&DeploymentState::Failed], 1);
}

#[tokio::test]
async fn separates_deployments_of_clients() {
    // GEN-09
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let lathe = press(&server, "lathe", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let path = format!("/api/v1/deployments/{}/{}", deployment.id, deployment.digest);
    assert_eq!(lathe.get(&path).await.status(), 404);
    let manifest =
        StateManifest::read(&lathe.get("/api/v1/deployments").await.bytes().await.unwrap()).unwrap().document;
    assert!(manifest.deployments.is_empty() && manifest.manifest_version == 1);
    let query = DeploymentQuery { client: Some("lathe".to_owned()), ..DeploymentQuery::default() };
    assert!(api.deployments(&query, &PageQuery::default()).await.unwrap().items.is_empty());
}

//! One deployment through its whole life.

use super::packages::{self, ID};
use super::{Kind, all_deployments, api, create, deployed, finished, on, press, problem, refused, report};
use crate::support::TestServer;
use indexmap::IndexMap;
use margo::manifest::StateManifest;
use margrave_api::changes::ChangeKind;
use margrave_api::client::{ApiClient, DeploymentQuery, PageQuery};
use margrave_api::deployments::{Convergence, Deployment, Desired, UpdateDeployment};
use serde_json::{Value, json};
use std::time::Duration;

fn answers(list: &[(&str, Value)]) -> UpdateDeployment {
    let answers: IndexMap<String, Value> =
        list.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    UpdateDeployment { answers, reason: Some("tuning".to_owned()), ..UpdateDeployment::default() }
}

async fn updated(api: &ApiClient, id: &str, body: &UpdateDeployment) -> Deployment {
    let change = api.update_deployment(id, body, None).await.unwrap();
    let change = finished(api, &change).await;
    assert!(change.skipped.is_empty(), "{:?}", change.skipped);
    api.deployment(id).await.unwrap()
}

#[tokio::test]
async fn a_deployment_goes_from_the_catalog_to_the_device_and_back() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    assert_eq!((deployment.profile.as_str(), deployment.revision, deployment.target_version), ("small", 1, 2));
    assert_eq!(deployment.convergence, Convergence::Waiting);

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
    assert_eq!(now.convergence, Convergence::Applying);
    report(&client, &deployment.id, 2, "installed").await;
    let now = api.deployment(&deployment.id).await.unwrap();
    assert_eq!(
        (now.convergence, now.explanation.as_str()),
        (Convergence::Converged, "revision 1 (1.0.0) is installed")
    );
    assert_eq!(now.status.unwrap().components[0].name, "vision");

    let now = updated(&api, &deployment.id, &answers(&[("interval", json!(30))])).await;
    assert_eq!((now.revision, now.target_version, now.convergence), (2, 3, Convergence::OlderRevision));
    assert!(now.explanation.contains("older revision"), "{}", now.explanation);
    assert_eq!(now.values["interval"], json!(30));
    assert_eq!(now.values["greeting"], json!("hello"), "what was not named stays");
    let history = api.deployment_status_history(&deployment.id).await.unwrap().items;
    assert_eq!(history.iter().map(|status| status.state.as_str()).collect::<Vec<_>>(), ["installed", "installing"]);

    let change = api.remove_deployment(&deployment.id, Some("not needed"), None).await.unwrap();
    assert_eq!((finished(&api, &change).await.kind, change.total), (ChangeKind::Remove, 1));
    assert!(all_deployments(&api).await.is_empty());
    let gone = api.deployment(&deployment.id).await.unwrap();
    assert_eq!(gone.desired, Desired::Absent);
    report(&client, &deployment.id, 4, "removed").await;
    assert_eq!(api.deployment(&deployment.id).await.unwrap().convergence, Convergence::Converged);
    let body = client.get("/api/v1/deployments").await.bytes().await.unwrap();
    let manifest = StateManifest::read(&body).unwrap().document;
    assert!(manifest.deployments.is_empty() && manifest.bundle.is_none());

    let revisions = api.deployment_revisions(&deployment.id).await.unwrap().items;
    let told: Vec<_> =
        revisions.iter().map(|revision| (revision.revision, revision.action, revision.reason.as_deref())).collect();
    assert_eq!(
        told,
        [
            (3, ChangeKind::Remove, Some("not needed")),
            (2, ChangeKind::Reconfigure, Some("tuning")),
            (1, ChangeKind::Create, Some("a test")),
        ]
    );
    assert!(api.verify_audit().await.unwrap().intact);
}

#[tokio::test]
async fn an_upgrade_keeps_answers_leaves_old_parameters_behind_and_follows_the_suppliers_own() {
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
    assert_eq!(now.values["image"], json!("vision:2"), "nobody was asked for it");
    assert!(!now.values.contains_key("legacy"));
}

#[tokio::test]
async fn answers_that_break_a_rule_are_named_and_nothing_happens() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    packages::upload(&api, "1.0.0").await;
    let mut body = create("1.0.0", on(&["press"]));
    body.answers = IndexMap::from([
        ("interval".to_owned(), json!(5)),
        ("greeting".to_owned(), json!("x".repeat(21))),
        ("unheard".to_owned(), json!(1)),
        ("password".to_owned(), json!("short")),
    ]);
    let problem = problem(api.create_deployments(&body).await);
    let mut fields: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["answers.greeting", "answers.interval", "answers.password", "answers.unheard"], "{problem:?}");
    assert!(!serde_json::to_string(&problem).unwrap().contains("short"), "{problem:?}");
    assert!(api.changes(&PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn an_immutable_answer_stays_as_it_was_first_given() {
    // PRM-06
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let moved = api.update_deployment(&deployment.id, &answers(&[("site", json!("elsewhere"))]), None).await;
    assert_eq!(refused(moved), ("invalid".to_owned(), vec!["answers.site".to_owned()]));
    let same = updated(&api, &deployment.id, &answers(&[("site", json!("plant")), ("interval", json!(90))])).await;
    assert_eq!(same.values["site"], json!("plant"));
}

#[tokio::test]
async fn a_change_for_an_older_revision_is_a_conflict() {
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
async fn what_would_change_nothing_says_so() {
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
async fn the_second_of_the_same_application_on_a_device_is_refused() {
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
async fn a_silent_device_is_told_from_one_that_has_not_answered_yet() {
    // ST-06
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    client.get("/api/v1/deployments").await;
    let deployment = deployed(&server, "press").await;
    assert!(deployment.explanation.contains("waiting for the device"), "{}", deployment.explanation);
    server.clock.advance(Duration::from_hours(1));
    let now = api.deployment(&deployment.id).await.unwrap();
    assert_eq!(now.convergence, Convergence::NotHeardOf);
    assert!(now.explanation.contains("not been heard of since"), "{}", now.explanation);
    let summary = api.summary().await.unwrap();
    assert_eq!((summary.devices, summary.applications), (1, 1));
}

#[tokio::test]
async fn a_failure_is_told_with_component_code_and_message() {
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
    assert_eq!(now.convergence, Convergence::Failed);
    assert_eq!(
        now.explanation,
        "revision 1 (1.0.0) failed in component `vision`: the image cannot be pulled (MGR-PULL)"
    );
    let query = DeploymentQuery { convergence: Some(Convergence::Failed), ..DeploymentQuery::default() };
    assert_eq!(api.deployments(&query, &PageQuery::default()).await.unwrap().items.len(), 1);
    let query = DeploymentQuery { convergence: Some(Convergence::Converged), ..DeploymentQuery::default() };
    assert!(api.deployments(&query, &PageQuery::default()).await.unwrap().items.is_empty());
    assert_eq!(api.application(ID).await.unwrap().deployments["1.0.0"].0[&Convergence::Failed], 1);
}

#[tokio::test]
async fn deployments_of_clients_stay_apart() {
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

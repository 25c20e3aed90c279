//! Differences between revisions, between desired and reported, between versions.

use super::packages::{ID, upload};
use super::{Kind, api, deployed, finished, press, problem, report};
use crate::support::TestServer;
use indexmap::IndexMap;
use margrave_api::client::ApiClient;
use margrave_api::deployments::{Deployment, UpdateDeployment};
use margrave_api::diff::{DeploymentDiff, DiffSideKind};
use serde_json::{Value, json};

async fn update(api: &ApiClient, id: &str, version: Option<&str>, answers: &[(&str, Value)]) {
    let answers: IndexMap<String, Value> =
        answers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let body = UpdateDeployment { version: version.map(str::to_owned), values: answers, ..UpdateDeployment::default() };
    finished(api, &api.update_deployment(id, &body, None).await.unwrap()).await;
}

/// Revision 1: 1.0.0. Revision 2: another interval and password. Revision 3: 2.0.0.
async fn three_revisions(server: &TestServer) -> (ApiClient, Deployment) {
    let api = api(server);
    let deployment = deployed(server, "press").await;
    upload(&api, "2.0.0").await;
    let answers = [("interval", json!(15)), ("password", json!("another-s3cret"))];
    update(&api, &deployment.id, None, &answers).await;
    update(&api, &deployment.id, Some("2.0.0"), &[]).await;
    (api.clone(), api.deployment(&deployment.id).await.unwrap())
}

fn fields(diff: &DeploymentDiff) -> Vec<&str> {
    diff.fields.iter().map(|field| field.field.as_str()).collect()
}

#[tokio::test]
async fn compares_any_two_revisions_and_masks_secrets() {
    let server = TestServer::start().await;
    press(&server, "press", &Kind::default()).await;
    let (api, deployment) = three_revisions(&server).await;
    assert_eq!(deployment.revision, 3);

    let last = api.deployment_diff(&deployment.id, None, None).await.unwrap();
    assert_eq!((last.from.revision, last.to.revision), (Some(2), Some(3)));
    assert_eq!(fields(&last), ["version", "parameters.image", "parameters.legacy", "parameters.mode"]);
    assert!(last.unified.starts_with("--- revision 2 (1.0.0)\n+++ revision 3 (2.0.0)\n@@ "), "{}", last.unified);
    assert!(last.unified.contains("-      value: vision:1\n+      value: vision:2\n"), "{}", last.unified);

    let second = api.deployment_diff(&deployment.id, Some("1"), Some("2")).await.unwrap();
    assert_eq!(fields(&second), ["parameters.interval", "parameters.password"]);
    assert_eq!(second.fields[0].before, Some(json!(60)));
    assert_eq!(second.fields[0].after, Some(json!(15)));
    assert_eq!(second.fields[1].after, Some(json!("******** (changed)")));
    let back = api.deployment_diff(&deployment.id, Some("3"), Some("1")).await.unwrap();
    assert!(fields(&back).contains(&"version"));
    let first = api.deployment_diff(&deployment.id, Some("0"), Some("1")).await.unwrap();
    assert_eq!(first.from.kind, DiffSideKind::Nothing);
    assert!(first.unified.contains("@@ -0,0 +1,"), "{}", first.unified);
    let same = api.deployment_diff(&deployment.id, Some("desired"), Some("3")).await.unwrap();
    assert!(same.same && same.unified.is_empty() && same.fields.is_empty());

    for diff in [&last, &second, &back, &first, &same] {
        let text = serde_json::to_string(diff).unwrap();
        assert!(!text.contains("s3cret"), "{text}");
    }
    assert_eq!(problem(api.deployment_diff(&deployment.id, Some("9"), None).await).code, "not-found");
    assert_eq!(problem(api.deployment_diff(&deployment.id, Some("new"), None).await).code, "invalid");
    assert_eq!(problem(api.deployment_diff("absent", None, None).await).code, "not-found");
}

#[tokio::test]
async fn compares_desired_with_reported_state() {
    let server = TestServer::start().await;
    let device = press(&server, "press", &Kind::default()).await;
    let (api, deployment) = three_revisions(&server).await;
    let compare = async || api.deployment_diff(&deployment.id, Some("reported"), None).await.unwrap();

    let offline = compare().await;
    assert_eq!((offline.from.kind, offline.same), (DiffSideKind::Nothing, false));

    let second = api.deployment_revisions(&deployment.id).await.unwrap().items[1].manifest_version;
    report(&device, &deployment.id, second, "installed").await;
    let behind = compare().await;
    assert_eq!((behind.from.kind, behind.from.revision), (DiffSideKind::Reported, Some(2)));
    assert!(fields(&behind).contains(&"version") && behind.components.is_empty(), "{behind:?}");
    assert_eq!(behind.status.as_ref().unwrap().state, "installed");

    report(&device, &deployment.id, deployment.target_version, "installing").await;
    let applying = compare().await;
    assert!(applying.fields.is_empty() && !applying.same);
    assert_eq!(applying.components[0].reported.as_deref(), Some("installing"));
    report(&device, &deployment.id, deployment.target_version, "installed").await;
    assert!(compare().await.same);
    report(&device, &deployment.id, 0, "installed").await;
    let vague = compare().await;
    assert!(vague.from.kind == DiffSideKind::Unknown && !vague.same && vague.lines.is_empty(), "{vague:?}");
}

#[tokio::test]
async fn the_diff_of_a_removal_removes_everything() {
    let server = TestServer::start().await;
    press(&server, "press", &Kind::default()).await;
    let api = api(&server);
    let deployment = deployed(&server, "press").await;
    finished(&api, &api.remove_deployment(&deployment.id, None, None).await.unwrap()).await;
    let diff = api.deployment_diff(&deployment.id, None, None).await.unwrap();
    assert_eq!(diff.to.name, "revision 2 (removal)");
    assert!(diff.fields.iter().all(|field| field.after.is_none()) && !diff.unified.contains("s3cret"), "{diff:?}");
}

#[tokio::test]
async fn two_versions_of_an_application_are_compared() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    upload(&api, "2.0.0").await;
    let diff = api.application_diff(ID, "1.0.0", "2.0.0").await.unwrap();
    let names: Vec<_> = diff.fields.iter().map(|field| field.field.as_str()).collect();
    assert_eq!(
        names,
        ["version", "parameters.image", "parameters.legacy", "settings.legacy", "parameters.mode", "settings.mode"]
    );
    assert!(diff.unified.contains("-  version: \"1.0.0\"\n+  version: \"2.0.0\"\n"), "{}", diff.unified);
    assert!(api.application_diff(ID, "2.0.0", "2.0.0").await.unwrap().same);
    assert_eq!(problem(api.application_diff(ID, "1.0.0", "9").await).code, "not-found");
}

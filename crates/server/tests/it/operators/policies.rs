//! What devices do by themselves: chosen per deployment, carried in the document, kept by later changes.

use super::*;
use margo::deployment::ApplicationDeployment;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::policies::{Drift, OnFailure, OnRemoval, PolicyWish};
use margrave_core::policy::Policy;

async fn document(api: &ApiClient, id: &str) -> ApplicationDeployment {
    let yaml = api.deployment_document(id, None).await.unwrap();
    ApplicationDeployment::read(yaml.as_bytes()).unwrap().document
}

#[tokio::test]
async fn a_policy_is_written_only_where_it_differs_and_stays_with_the_deployment() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "plain", &Kind::default()).await;
    let plain = deployed(&server, "plain").await;
    // EXT-01, DEP-03: without wishes nothing is added to the document.
    assert!(document(&api, &plain.id).await.spec.extensions.is_empty());
    let wish = PolicyWish { drift: Some(Drift::Report), on_failure: Some(OnFailure::Rollback), on_removal: None };
    let body = UpdateDeployment { policy: wish, ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(&plain.id, &body, None).await.unwrap()).await;
    let shown = api.deployment(&plain.id).await.unwrap();
    assert_eq!(
        (shown.policy.drift, shown.policy.on_failure, shown.policy.on_removal),
        (Drift::Report, OnFailure::Rollback, OnRemoval::Keep)
    );
    let written = document(&api, &plain.id).await;
    assert_eq!(
        written.spec.extensions["x-margrave-extensions"],
        json!({"policy": {"drift": "report", "onFailure": "rollback"}})
    );
    assert_eq!(Policy::of(&written), Policy::from(shown.policy));
    // An upgrade leaves it as it is.
    packages::upload(&api, "2.0.0").await;
    let upgrade = UpdateDeployment { version: Some("2.0.0".to_owned()), ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(&plain.id, &upgrade, None).await.unwrap()).await;
    let upgraded = api.deployment(&plain.id).await.unwrap();
    assert_eq!((upgraded.version.as_str(), upgraded.policy), ("2.0.0", shown.policy));
    assert_eq!(Policy::of(&document(&api, &plain.id).await), Policy::from(shown.policy));
    // Back to the defaults, the document is as the standard has it.
    let wish = PolicyWish { drift: Some(Drift::Correct), on_failure: Some(OnFailure::KeepPartial), on_removal: None };
    let body = UpdateDeployment { policy: wish, ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(&plain.id, &body, None).await.unwrap()).await;
    assert!(document(&api, &plain.id).await.spec.extensions.is_empty());
}

#[tokio::test]
async fn a_removal_takes_no_policy() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "plain", &Kind::default()).await;
    let deployment = deployed(&server, "plain").await;
    let scope = Scope { deployments: Some(vec![deployment.id]), ..Scope::default() };
    let policy = PolicyWish { on_removal: Some(OnRemoval::Purge), ..PolicyWish::default() };
    let body = CreateChange {
        kind: ChangeKind::Remove,
        version: None,
        answers: indexmap::IndexMap::new(),
        policy,
        ..create("1.0.0", scope)
    };
    let (code, fields) = refused(api.create_change(&body).await);
    assert_eq!((code.as_str(), fields), ("invalid", vec!["policy".to_owned()]));
}

#[tokio::test]
async fn a_technicians_hold_is_shown_where_a_device_is_explained() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "plain", &Kind::default()).await;
    let mut capabilities: Value = serde_json::from_str(&Kind::default().capabilities("plain")).unwrap();
    // CAP-09: other managers ignore it.
    capabilities["x-margrave-extensions"] =
        json!({"hold": {"reason": "changing the fan", "until": "2026-11-16T18:00:00Z"}});
    let response = client.put("/api/v1/capabilities/plain", capabilities.to_string()).await;
    assert!(response.status().is_success());
    let explained = api.explain_device("plain", "plain").await.unwrap();
    let held = explained.known.iter().find(|fact| fact.code == "held-by-technician").expect("it is told");
    assert_eq!(held.sentence, "a technician at the device holds changes until 2026-11-16T18:00:00Z: changing the fan");
}

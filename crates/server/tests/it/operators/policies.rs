//! Policies: set per deployment, carried in the document, kept by later rollouts.

use super::pages::Browser;
use super::*;
use margo::deployment::ApplicationDeployment;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::policies::{Drift, OnFailure, OnRemoval, PolicyPatch};
use margrave_core::policy::Policy;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};

async fn document(api: &ApiClient, id: &str) -> ApplicationDeployment {
    let yaml = api.deployment_document(id, None).await.unwrap();
    ApplicationDeployment::read(yaml.as_bytes()).unwrap().document
}

#[tokio::test]
async fn writes_only_non_default_policies_and_keeps_them() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "plain", &Kind::default()).await;
    let plain = deployed(&server, "plain").await;
    // EXT-01, DEP-03: with default policies nothing is added to the document.
    assert!(document(&api, &plain.id).await.spec.extensions.is_empty());
    let wish = PolicyPatch { drift: Some(Drift::Report), on_failure: Some(OnFailure::Rollback), on_removal: None };
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
    // An upgrade does not change it.
    packages::upload(&api, "2.0.0").await;
    let upgrade = UpdateDeployment { version: Some("2.0.0".to_owned()), ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(&plain.id, &upgrade, None).await.unwrap()).await;
    let upgraded = api.deployment(&plain.id).await.unwrap();
    assert_eq!((upgraded.version.as_str(), upgraded.policy), ("2.0.0", shown.policy));
    assert_eq!(Policy::of(&document(&api, &plain.id).await), Policy::from(shown.policy));
    // With the defaults again, the document is as the standard defines it.
    let wish = PolicyPatch { drift: Some(Drift::Correct), on_failure: Some(OnFailure::KeepPartial), on_removal: None };
    let body = UpdateDeployment { policy: wish, ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(&plain.id, &body, None).await.unwrap()).await;
    assert!(document(&api, &plain.id).await.spec.extensions.is_empty());
}

#[tokio::test]
async fn a_removal_accepts_no_policy() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "plain", &Kind::default()).await;
    let deployment = deployed(&server, "plain").await;
    let scope = Scope { deployments: Some(vec![deployment.id]), ..Scope::default() };
    let policy = PolicyPatch { on_removal: Some(OnRemoval::Purge), ..PolicyPatch::default() };
    let body = CreateRollout {
        kind: RolloutKind::Remove,
        version: None,
        values: indexmap::IndexMap::new(),
        policy,
        ..create("1.0.0", scope)
    };
    let (code, fields) = refused(api.create_rollout(&body).await);
    assert_eq!((code.as_str(), fields), ("invalid", vec!["policy".to_owned()]));
}

#[tokio::test]
async fn explains_a_device_with_its_maintenance_hold() {
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
    let held = explained.observed.iter().find(|fact| fact.code == "maintenance-hold").expect("the hold is explained");
    assert_eq!(
        held.sentence,
        "a technician has put the device on maintenance hold until 2026-11-16T18:00:00Z: changing the fan"
    );
}

/// A draft in the wizard, up to its configuration.
async fn started(browser: &Browser, form: &[(&str, &str)]) -> String {
    let answer = browser.post("/deploy", form).await;
    let place = answer.headers()[LOCATION].to_str().unwrap();
    place.rsplit_once('/').unwrap().0.to_owned()
}

/// Values as a browser sends them for version 1.0.0, with further form fields.
async fn answered(browser: &Browser, draft: &str, chosen: &[(&str, &str)]) -> Response {
    let mut form = vec![
        ("go", "continue"),
        ("p:greeting", "hello"),
        ("p:interval", "60"),
        ("p:site", "plant"),
        ("p:legacy", "normal"),
    ];
    form.extend(chosen);
    browser.post(&format!("{draft}/configuration"), &form).await
}

async fn text(browser: &Browser, path: &str) -> String {
    browser.get(path).await.text().await.unwrap()
}

#[track_caller]
fn stands(page: &str, word: &str) -> bool {
    assert!(page.contains(&format!("<option value=\"{word}\"")), "`{word}` is not offered: {page}");
    page.contains(&format!("<option value=\"{word}\" selected>"))
}

#[tokio::test]
async fn pages_offer_policies_and_keep_them_in_the_draft() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "plain", &Kind::default()).await;
    let form = [("kind", "create"), ("application", packages::ID), ("version", "1.0.0"), ("device", "plain/plain")];
    let draft = started(&browser, &form).await;
    let page = text(&browser, &format!("{draft}/configuration")).await;
    assert!(stands(&page, "correct") && stands(&page, "keep-partial") && stands(&page, "keep"), "{page}");
    assert!(page.contains("Correct and report (default)") && !page.contains("Keep current policy"), "{page}");

    let chosen = [("p:password", "s3cret-value"), ("drift", "correct"), ("onFailure", "stop"), ("onRemoval", "keep")];
    let kept = answered(&browser, &draft, &chosen[1..]).await;
    assert_eq!(kept.status(), StatusCode::UNPROCESSABLE_ENTITY, "a password is required");
    assert!(stands(&kept.text().await.unwrap(), "stop"), "an invalid value does not lose the selection");
    let wrong = answered(&browser, &draft, &[("onFailure", "panic")]).await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let kept = answered(&browser, &draft, &chosen).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    assert!(stands(&text(&browser, &format!("{draft}/configuration")).await, "stop"), "the draft keeps it");
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("<span class=\"strong\">Stop</span>"), "{review}");
    assert!(review.contains("onFailure: stop"), "it is in the document: {review}");

    let answer = browser.post(&format!("{draft}/review"), &[("key", "k"), ("comment", "")]).await;
    let rollout = answer.headers()[LOCATION].to_str().unwrap().trim_start_matches("/rollouts/").to_owned();
    finished(&api, &api.rollout(&rollout).await.unwrap()).await;
    let made = all_deployments(&api).await.remove(0);
    assert_eq!((made.policy.drift, made.policy.on_failure), (Drift::Correct, OnFailure::Stop));
    let shown = text(&browser, &format!("/deployments/{}", made.id)).await;
    assert!(shown.contains("<dd>Stop</dd>"), "{shown}");
}

#[tokio::test]
async fn a_page_can_change_only_the_policy_or_leave_it() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "plain", &Kind::default()).await;
    let before = deployed(&server, "plain").await;
    let draft = started(&browser, &[("kind", "reconfigure"), ("deployment", before.id.as_str())]).await;
    let page = text(&browser, &format!("{draft}/configuration")).await;
    assert_eq!(page.matches("<option value=\"\">Keep current policy</option>").count(), 3, "{page}");
    assert!(!stands(&page, "correct") && page.contains("Current: correct and report"), "{page}");
    // The current policy is no change.
    let same = [("drift", "correct"), ("onFailure", ""), ("onRemoval", "keep")];
    let kept = answered(&browser, &draft, &same).await;
    assert_eq!(kept.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(kept.text().await.unwrap().contains("href=\"#configuration\""));

    let kept = answered(&browser, &draft, &[("drift", "report"), ("onFailure", ""), ("onRemoval", "")]).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("Report only") && review.contains("instead of: correct and report"), "{review}");
    assert!(review.contains(">unchanged<") && review.contains("data-reason=\"update\" data-count=\"1\""), "{review}");
    let seen = before.revision.to_string();
    let answer = browser.post(&format!("{draft}/review"), &[("key", "k"), ("comment", ""), ("seen", &seen)]).await;
    let rollout = answer.headers()[LOCATION].to_str().unwrap().trim_start_matches("/rollouts/").to_owned();
    finished(&api, &api.rollout(&rollout).await.unwrap()).await;
    let after = api.deployment(&before.id).await.unwrap();
    assert_eq!((after.policy.drift, after.values), (Drift::Report, before.values));

    // For all devices on another version, each keeps its policy.
    packages::upload(&api, "2.0.0").await;
    let form = [("kind", "upgrade"), ("application", packages::ID), ("version", "2.0.0")];
    let draft = started(&browser, &form).await;
    let page = text(&browser, &format!("{draft}/configuration")).await;
    assert_eq!(page.matches("Keep current policy of each device").count(), 3, "{page}");
    let form = [("go", "continue"), ("p:mode", "normal"), ("drift", ""), ("onFailure", "rollback"), ("onRemoval", "")];
    let kept = browser.post(&format!("{draft}/configuration"), &form).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("Unchanged on each device") && review.contains(">Roll back<"), "{review}");
    let answer = browser.post(&format!("{draft}/review"), &[("key", "k2"), ("comment", "")]).await;
    let rollout = answer.headers()[LOCATION].to_str().unwrap().trim_start_matches("/rollouts/").to_owned();
    finished(&api, &api.rollout(&rollout).await.unwrap()).await;
    let last = api.deployment(&before.id).await.unwrap();
    assert_eq!((last.policy.drift, last.policy.on_failure), (Drift::Report, OnFailure::Rollback));
}

//! What devices do by themselves: chosen per deployment, carried in the document, kept by later changes.

use super::pages::Browser;
use super::*;
use margo::deployment::ApplicationDeployment;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::policies::{Drift, OnFailure, OnRemoval, PolicyWish};
use margrave_core::policy::Policy;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};

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

/// A draft somebody has begun on a page, up to its questions.
async fn begun(browser: &Browser, form: &[(&str, &str)]) -> String {
    let answer = browser.post("/deploy", form).await;
    let place = answer.headers()[LOCATION].to_str().unwrap();
    place.rsplit_once('/').unwrap().0.to_owned()
}

/// Answers as a browser sends them for version 1.0.0, with what else was chosen.
async fn answered(browser: &Browser, draft: &str, chosen: &[(&str, &str)]) -> Response {
    let mut form = vec![
        ("go", "continue"),
        ("p:greeting", "hello"),
        ("p:interval", "60"),
        ("p:site", "plant"),
        ("p:legacy", "normal"),
    ];
    form.extend(chosen);
    browser.post(&format!("{draft}/answers"), &form).await
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
async fn pages_offer_what_a_device_does_by_itself_and_keep_it_in_the_draft() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "plain", &Kind::default()).await;
    let form = [("kind", "create"), ("application", packages::ID), ("version", "1.0.0"), ("device", "plain/plain")];
    let draft = begun(&browser, &form).await;
    let page = text(&browser, &format!("{draft}/answers")).await;
    assert!(stands(&page, "correct") && stands(&page, "keep-partial") && stands(&page, "keep"), "{page}");
    assert!(page.contains("Put it right and report it (default)") && !page.contains("Leave as it is"), "{page}");

    let chosen = [("p:password", "s3cret-value"), ("drift", "correct"), ("onFailure", "hold"), ("onRemoval", "keep")];
    let kept = answered(&browser, &draft, &chosen[1..]).await;
    assert_eq!(kept.status(), StatusCode::UNPROCESSABLE_ENTITY, "a password is needed");
    assert!(stands(&kept.text().await.unwrap(), "hold"), "what was chosen is not lost by a wrong answer");
    let wrong = answered(&browser, &draft, &[("onFailure", "panic")]).await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let kept = answered(&browser, &draft, &chosen).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    assert!(stands(&text(&browser, &format!("{draft}/answers")).await, "hold"), "the draft keeps it");
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("<span class=\"strong\">Stop until somebody changes it</span>"), "{review}");
    assert!(review.contains("onFailure: hold"), "the document says it: {review}");

    let answer = browser.post(&format!("{draft}/review"), &[("key", "k"), ("reason", "")]).await;
    let change = answer.headers()[LOCATION].to_str().unwrap().trim_start_matches("/changes/").to_owned();
    finished(&api, &api.change(&change).await.unwrap()).await;
    let made = all_deployments(&api).await.remove(0);
    assert_eq!((made.policy.drift, made.policy.on_failure), (Drift::Correct, OnFailure::Hold));
    let shown = text(&browser, &format!("/deployments/{}", made.id)).await;
    assert!(shown.contains("<dd>Stop until somebody changes it</dd>"), "{shown}");
}

#[tokio::test]
async fn on_a_page_the_policy_alone_can_be_changed_and_is_left_alone_otherwise() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "plain", &Kind::default()).await;
    let before = deployed(&server, "plain").await;
    let draft = begun(&browser, &[("kind", "reconfigure"), ("deployment", before.id.as_str())]).await;
    let page = text(&browser, &format!("{draft}/answers")).await;
    assert_eq!(page.matches("<option value=\"\">Leave as it is</option>").count(), 3, "{page}");
    assert!(!stands(&page, "correct") && page.contains("Now: put it right and report it"), "{page}");
    // What is so already is no change.
    let same = [("drift", "correct"), ("onFailure", ""), ("onRemoval", "keep")];
    let kept = answered(&browser, &draft, &same).await;
    assert_eq!(kept.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(kept.text().await.unwrap().contains("Nothing is different yet"));

    let kept = answered(&browser, &draft, &[("drift", "report"), ("onFailure", ""), ("onRemoval", "")]).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("Report it, touch nothing") && review.contains("instead of: put it right"), "{review}");
    assert!(review.contains("as it is now") && review.contains("1 device would change."), "{review}");
    let seen = before.revision.to_string();
    let answer = browser.post(&format!("{draft}/review"), &[("key", "k"), ("reason", ""), ("seen", &seen)]).await;
    let change = answer.headers()[LOCATION].to_str().unwrap().trim_start_matches("/changes/").to_owned();
    finished(&api, &api.change(&change).await.unwrap()).await;
    let after = api.deployment(&before.id).await.unwrap();
    assert_eq!((after.policy.drift, after.values), (Drift::Report, before.values));

    // To all that run another version, each keeps what it has.
    packages::upload(&api, "2.0.0").await;
    let form = [("kind", "upgrade"), ("application", packages::ID), ("version", "2.0.0")];
    let draft = begun(&browser, &form).await;
    let page = text(&browser, &format!("{draft}/answers")).await;
    assert_eq!(page.matches("Leave as it is on each device").count(), 3, "{page}");
    let form = [("go", "continue"), ("p:mode", "normal"), ("drift", ""), ("onFailure", "rollback"), ("onRemoval", "")];
    let kept = browser.post(&format!("{draft}/answers"), &form).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(
        review.contains("Stays as it is on each device") && review.contains("Go back to what ran before"),
        "{review}"
    );
    let answer = browser.post(&format!("{draft}/review"), &[("key", "k2"), ("reason", "")]).await;
    let change = answer.headers()[LOCATION].to_str().unwrap().trim_start_matches("/changes/").to_owned();
    finished(&api, &api.change(&change).await.unwrap()).await;
    let last = api.deployment(&before.id).await.unwrap();
    assert_eq!((last.policy.drift, last.policy.on_failure), (Drift::Report, OnFailure::Rollback));
}

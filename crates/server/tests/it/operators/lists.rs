//! Lists, the overview, rollouts, events and the audit log, and error pages.

use super::pages::Browser;
use super::*;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::devices::PutGroup;
use reqwest::StatusCode;
use std::time::Duration;

/// Templates contain line breaks.
async fn text_of(answer: reqwest::Response) -> String {
    answer.text().await.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) async fn text(browser: &Browser, path: &str) -> String {
    let answer = browser.get(path).await;
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    text_of(answer).await
}

/// On a busy machine counting takes long, and pages then show counts up to two minutes old.
pub(super) fn counted_anew(server: &TestServer) {
    server.clock.advance(Duration::from_secs(125));
}

#[track_caller]
pub(super) fn has(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
}

#[track_caller]
pub(super) fn lacks(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(!page.contains(part), "{part:?} in {page}");
    }
}

#[tokio::test]
async fn lists_a_removal_until_done_and_then_among_removed_deployments() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    let row = format!("id=\"r-{}\"", deployment.id);
    let page = text(&browser, "/deployments").await;
    has(&page, &[&row, "data-state=\"up-to-date\""]);
    lacks(&page, &["href=\"/deployments?state=removing\""]);

    let removal = api.remove_deployment(&deployment.id, None, None).await.unwrap();
    finished(&api, &removal).await;
    for path in ["/deployments", "/deployments?state=removing"] {
        let page = text(&browser, path).await;
        has(&page, &[&row, "data-state=\"pending\"", "data-reason=\"removing\"", "data-state=\"removing\""]);
    }
    counted_anew(&server);
    has(&text(&browser, "/deployments").await, &["href=\"/deployments?state=removing\"> <b>1</b>"]);
    lacks(&text(&browser, "/deployments?state=removed").await, &[&row]);
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    has(&page, &["<p data-reason=\"removing\">", "data-action=\"deploy\""]);
    has(&page, &["name=\"device\" value=\"press/press\"", &format!("name=\"like\" value=\"{}\"", deployment.id)]);
    lacks(&page, &["id=\"differs\"", "data-action=\"reconfigure\""]);

    // An offline device: the removal stays listed.
    server.clock.advance(Duration::from_hours(1));
    has(&text(&browser, "/deployments?state=removing").await, &[&row, "data-state=\"device-offline\""]);
    has(&text(&browser, "/").await, &["href=\"/deployments?state=removing\">1 ", "data-state=\"device-offline\""]);

    let now = api.deployment(&deployment.id).await.unwrap();
    report(&client, &deployment.id, now.target_version, "removed").await;
    lacks(&text(&browser, "/deployments").await, &[&row]);
    lacks(&text(&browser, "/deployments?state=removing").await, &[&row]);
    has(&text(&browser, "/deployments?state=removed").await, &[&row, "data-state=\"removed\""]);
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    has(&page, &["data-action=\"deploy\""]);
    lacks(&page, &["<p data-reason=\"removing\">"]);
}

#[tokio::test]
async fn lists_rollouts_in_progress_first_with_their_device() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    counted_anew(&server);
    let page = text(&browser, "/").await;
    let (in_progress, latest) = page.split_once("id=\"latest\"").unwrap();
    has(in_progress, &["id=\"in-progress\"", "1.0.0 to press<", "data-state=\"in-progress\""]);
    has(latest, &["data-reason=\"no-rollouts\"", "Nothing yet."]);
    let rollout = format!("/rollouts/{}", deployment.rollout);
    let in_progress = "role=\"status\" data-state=\"in-progress\"";
    let waiting = "data-state=\"device-offline\"><i></i>1 ";
    let page = text(&browser, &rollout).await;
    has(&page, &[in_progress]);
    lacks(&page, &[waiting, "data-action=\"withdraw\""]);
    server.clock.advance(Duration::from_hours(1));
    let page = text(&browser, &rollout).await;
    has(&page, &[in_progress, waiting, "data-action=\"withdraw\" data-count=\"1\""]);

    report(&client, &deployment.id, deployment.target_version, "installed").await;
    counted_anew(&server);
    let page = text(&browser, "/").await;
    lacks(&page, &["id=\"in-progress\""]);
    has(page.split_once("id=\"latest\"").unwrap().1, &["1.0.0 to press<", "data-state=\"up-to-date\"><i></i>1 of 1 "]);
    has(&text(&browser, &rollout).await, &["role=\"status\" data-state=\"completed\""]);

    // Another version is a rollout, up or down.
    packages::upload(&api, "0.9.0").await;
    let body = UpdateDeployment { version: Some("0.9.0".to_owned()), ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(&deployment.id, &body, None).await.unwrap()).await;
    let page = text(&browser, "/rollouts").await;
    has(&page, &["to 0.9.0 on press<"]);
    lacks(&page, &["Upgrade", "data-action=\"upgrade\""]);
}

#[tokio::test]
async fn offers_no_cancel_after_everything_is_published() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let page = text(&browser, &format!("/rollouts/{}?ask=cancel", deployment.rollout)).await;
    has(&page, &["class=\"ask form panel\"", "data-cancel>"]);
    lacks(&page, &["data-action=\"cancel\"", "id=\"ask-comment\"", "data-reason=\"affected\""]);
}

#[tokio::test]
async fn a_retry_is_pending_and_not_outdated() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, deployment.target_version, "failed").await;
    let path = format!("/deployments/{}", deployment.id);
    browser.post(&path, &[("action", "retry")]).await;
    eventually("the desired state is republished", async || {
        (api.deployment(&deployment.id).await.unwrap().target_version > deployment.target_version).then_some(())
    })
    .await;
    for path in [path.as_str(), "/deployments"] {
        let page = text(&browser, path).await;
        has(&page, &["data-state=\"pending\"", "revision 1"]);
        lacks(&page, &["data-state=\"outdated\""]);
    }
}

#[tokio::test]
async fn an_empty_overview_lists_pending_clients() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    has(
        &text(&browser, "/").await,
        &["data-reason=\"no-devices\"", "data-reason=\"no-deployments\"", "href=\"/devices/add\""],
    );
    browser.post("/devices/add", &[("key", "k"), ("client", "lathe-3"), ("hours", "1"), ("comment", "")]).await;
    has(&text(&browser, "/").await, &["data-reason=\"no-devices\"", "lathe-3", "href=\"/settings/enrollment-tokens\""]);
}

#[tokio::test]
async fn an_error_page_keeps_navigation_and_explains_what_happened() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let body = PutGroup { selector: "site=nord".to_owned(), description: None, comment: None };
    api.put_group("north", &body, None).await.unwrap();
    api.delete_group("north", Some("it was a try"), None).await.unwrap();
    let answer = browser.get("/groups/north").await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    let page = text_of(answer).await;
    has(
        &page,
        &[
            "<nav id=\"nav\"",
            "data-reason=\"not-found\"",
            "north was removed <time",
            "it was a try.",
            "class=\"button\" href=\"/groups\"",
        ],
    );
    has(&page, &["<code>north</code>"]);

    // A rejected action links back to the object, by its display name.
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let path = format!("/deployments/{}", deployment.id);
    let answer = browser.post(&path, &[("action", "retry")]).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    has(&text_of(answer).await, &[&format!("class=\"button\" href=\"{path}\""), "data-reason=\"unchanged\""]);
    let lost = "/deployments/8e6d3a1c-8d0d-4b0a-9a52-0d6a3a3c2f11";
    let page = text_of(browser.get(lost).await).await;
    has(&page, &["data-reason=\"not-found\"", "class=\"button\" href=\"/deployments\""]);

    // Without a session only the sign-in page is offered.
    let stranger = Browser::new(&server);
    let page = text_of(stranger.get("/assets-of-old").await).await;
    lacks(&page, &["<nav id=\"nav\""]);
}

#[tokio::test]
async fn events_and_audit_use_display_names() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press-07", &Kind::default()).await;
    let deployment = deployed(&server, "press-07").await;
    report(&client, &deployment.id, deployment.target_version, "failed").await;
    press(&server, "lathe-3", &Kind::default()).await;
    let application = api.application(packages::ID).await.unwrap().name;
    counted_anew(&server);

    let failed = eventually("the failure is an event", async || {
        let page = text(&browser, "/events?kind=deployment.failed").await;
        page.contains("data-event=\"deployment.failed\"").then_some(page)
    })
    .await;
    has(&failed, &[&format!("href=\"/deployments/{}\">{application} on press-07</a>", deployment.id)]);
    lacks(&failed, &[">Open</a>", "data-event=\"client.accepted\""]);
    let page = text(&browser, "/events?device=ESS-0").await;
    has(&page, &["press-07", "value=\"ESS-0\""]);
    lacks(&page, &["lathe-3"]);

    let page = text(&browser, "/audit").await;
    has(&page, &["data-audit=\"deployment.create\"", "data-audit=\"session.create\""]);
    let about: String = url::form_urlencoded::byte_serialize(application.to_uppercase().as_bytes()).collect();
    let page = text(&browser, &format!("/audit?subject={about}")).await;
    has(
        &page,
        &["data-audit=\"deployment.create\"", "data-audit=\"application.import\"", "data-audit=\"rollout.create\""],
    );
    lacks(&page, &["data-audit=\"session.create\"", "data-audit=\"client.create\""]);
    // On a phone the columns after the first ones are below them.
    has(&page, &["class=\"narrow\"> <td colspan=\"4\" class=\"small\"> <p>a test</p>"]);
}

#[tokio::test]
async fn lists_failed_deployments_first_with_their_cause() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    let mut clients = Vec::new();
    for name in ["press-1", "press-2", "press-3"] {
        clients.push(press(&server, name, &Kind::default()).await);
    }
    let rollout = api.create_deployments(&create("1.0.0", on(&["press-1", "press-2", "press-3"]))).await.unwrap();
    finished(&api, &rollout).await;
    let mut all = all_deployments(&api).await;
    all.sort_by(|one, other| one.id.cmp(&other.id));
    let last = all.last().unwrap();
    let client =
        clients.iter().zip(["press-1", "press-2", "press-3"]).find(|(_, name)| *name == last.client).unwrap().0;
    report(client, &last.id, last.target_version, "failed").await;
    let page = text(&browser, "/deployments").await;
    let places: Vec<usize> = all.iter().map(|one| page.find(&format!("id=\"r-{}\"", one.id)).unwrap()).collect();
    assert!(places[2] < places[0] && places[0] < places[1], "{places:?}");
    let narrow = page.split(&format!("id=\"n-{}\" class=\"narrow\"", last.id)).nth(1).unwrap();
    has(narrow.split("</tr>").next().unwrap(), &["1.0.0"]);
    assert_eq!(page.matches("id=\"r-").count(), 3, "each of them once");
}

#[tokio::test]
async fn shows_no_diff_for_a_device_that_never_had_it() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    has(&page, &["data-reason=\"no-difference\""]);
    lacks(&page, &["id=\"differs\""]);
}

#[tokio::test]
async fn reports_incompatibility_by_deployment_profile() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "tiny", &Kind { memory: "512Mi", types: &["compose"], ..Kind::default() }).await;
    let path = format!("/catalog/{}/compatibility", packages::ID);
    let page = eventually("it is computed", async || {
        let page = text(&browser, &path).await;
        page.contains("1 device: ").then_some(page)
    })
    .await;
    has(&page, &["1 device: Compose: "]);
    lacks(&page, &["profile <code>"]);
}

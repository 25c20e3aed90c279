//! Where things are found: lists, the overview, changes, activity and audit, and what a page says when something is not there.

use super::pages::Browser;
use super::*;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::devices::PutGroup;
use reqwest::StatusCode;
use std::time::Duration;

/// Templates break lines where it suits them.
async fn text_of(answer: reqwest::Response) -> String {
    answer.text().await.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) async fn text(browser: &Browser, path: &str) -> String {
    let answer = browser.get(path).await;
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    text_of(answer).await
}

/// On a busy machine counting takes long, and pages then show numbers of up to two minutes ago.
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
async fn a_removal_is_listed_until_the_device_is_rid_of_it_and_then_among_what_was_removed() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    let row = format!("id=\"r-{}\"", deployment.id);
    let page = text(&browser, "/deployments").await;
    has(&page, &[&row, "Up to date", "href=\"/deployments?state=removing\"> <b>0</b>"]);

    let removal = api.remove_deployment(&deployment.id, None, None).await.unwrap();
    finished(&api, &removal).await;
    for path in ["/deployments", "/deployments?state=removing"] {
        let page = text(&browser, path).await;
        has(&page, &[&row, "Waiting for the device", "to be removed", "Being removed"]);
    }
    counted_anew(&server);
    has(&text(&browser, "/deployments").await, &["href=\"/deployments?state=removing\"> <b>1</b>"]);
    lacks(&text(&browser, "/deployments?state=removed").await, &[&row]);
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    has(&page, &["A removal that was told cannot be called off", ">Deploy it again</button>"]);
    has(&page, &["name=\"device\" value=\"press/press\"", &format!("name=\"like\" value=\"{}\"", deployment.id)]);
    lacks(&page, &["How the device differs", ">Reconfigure</button>"]);

    // A device nobody hears of: the removal is not forgotten.
    server.clock.advance(Duration::from_hours(1));
    has(&text(&browser, "/deployments?state=removing").await, &[&row, "Device not heard of"]);
    has(&text(&browser, "/").await, &[">1 being removed</a>", "Waits for 1 device not heard of."]);

    let now = api.deployment(&deployment.id).await.unwrap();
    report(&client, &deployment.id, now.target_version, "removed").await;
    lacks(&text(&browser, "/deployments").await, &[&row]);
    lacks(&text(&browser, "/deployments?state=removing").await, &[&row]);
    has(&text(&browser, "/deployments?state=removed").await, &[&row, "Removed"]);
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    has(&page, &[">Deploy it again</button>"]);
    lacks(&page, &["cannot be called off"]);
}

#[tokio::test]
async fn changes_under_way_stand_before_those_that_are_over_and_name_their_device() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let page = text(&browser, "/").await;
    let (under_way, latest) = page.split_once("id=\"latest\"").unwrap();
    has(under_way, &["id=\"under-way\"", "1.0.0 to press<", "Waits for 1 device "]);
    has(latest, &["None is over yet.", "Nothing yet."]);
    let change = format!("/changes/{}", deployment.change);
    let told = "Told; waiting for the device to finish.";
    has(&text(&browser, &change).await, &["<title>Under way - Deploy ", told]);
    server.clock.advance(Duration::from_hours(1));
    has(&text(&browser, &change).await, &["1 device does not call; it waits until it does.", "Call it off there"]);

    report(&client, &deployment.id, deployment.target_version, "installed").await;
    counted_anew(&server);
    let page = text(&browser, "/").await;
    lacks(&page, &["id=\"under-way\""]);
    has(page.split_once("id=\"latest\"").unwrap().1, &["1.0.0 to press<", "1 of 1 done"]);
    has(&text(&browser, &change).await, &["<title>Finished - Deploy "]);

    // Another version is a change, up or down.
    packages::upload(&api, "0.9.0").await;
    let body = UpdateDeployment { version: Some("0.9.0".to_owned()), ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(&deployment.id, &body, None).await.unwrap()).await;
    let page = text(&browser, "/changes").await;
    has(&page, &["to 0.9.0 on press<"]);
    lacks(&page, &["Upgrade"]);
}

#[tokio::test]
async fn nothing_is_left_to_cancel_once_everybody_is_told() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let page = text(&browser, &format!("/changes/{}?ask=cancel", deployment.change)).await;
    has(&page, &["Nothing is left to cancel", "The device told already goes on"]);
    lacks(&page, &["Cancel the rest", "Reason, for the audit", "The 1 device"]);
}

#[tokio::test]
async fn what_is_tried_again_waits_for_the_device_and_is_on_no_older_revision() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, deployment.target_version, "failed").await;
    let path = format!("/deployments/{}", deployment.id);
    browser.post(&path, &[("action", "retry")]).await;
    eventually("the device is told again", async || {
        (api.deployment(&deployment.id).await.unwrap().target_version > deployment.target_version).then_some(())
    })
    .await;
    // A list has the state once, as the tile that counts none.
    for (path, tiles) in [(path.as_str(), 0), ("/deployments", 1)] {
        let page = text(&browser, path).await;
        has(&page, &["Waiting for the device", "was told revision 1", "once more and has not answered yet"]);
        lacks(&page, &["is on an older revision"]);
        assert_eq!(page.matches("older revision</span>").count(), tiles, "{path}");
    }
}

#[tokio::test]
async fn an_empty_overview_says_who_is_waited_for() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    has(&text(&browser, "/").await, &["Invite the first device", "Nothing was deployed yet"]);
    browser.post("/devices/add", &[("key", "k"), ("client", "lathe-3"), ("hours", "1"), ("reason", "")]).await;
    has(&text(&browser, "/").await, &["Waiting for lathe-3", "Invite another device"]);
}

#[tokio::test]
async fn an_error_keeps_the_way_around_and_says_what_became_of_the_thing() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let body = PutGroup { selector: "site=nord".to_owned(), description: None, reason: None };
    api.put_group("north", &body, None).await.unwrap();
    api.delete_group("north", Some("it was a try"), None).await.unwrap();
    let answer = browser.get("/groups/north").await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    let page = text_of(answer).await;
    has(
        &page,
        &[
            "<nav id=\"nav\"",
            "Group north was removed <time",
            " by ",
            ": it was a try.",
            "href=\"/groups\">All groups<",
        ],
    );
    has(&page, &["<p>Group <code>north</code> does not exist"]);

    // What is refused leads back to the thing, and names it as people know it.
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let path = format!("/deployments/{}", deployment.id);
    let answer = browser.post(&path, &[("action", "retry")]).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    has(&text_of(answer).await, &[&format!("href=\"{path}\">Look at it as it is now"), "It has not failed"]);
    let lost = "/deployments/8e6d3a1c-8d0d-4b0a-9a52-0d6a3a3c2f11";
    let page = text_of(browser.get(lost).await).await;
    has(&page, &["<p>Deployment does not exist", "href=\"/deployments\">All deployments<"]);

    // Somebody who is not signed in has nowhere to go but the door.
    let stranger = Browser::new(&server);
    let page = text_of(stranger.get("/assets-of-old").await).await;
    lacks(&page, &["<nav id=\"nav\""]);
}

#[tokio::test]
async fn activity_and_audit_speak_of_things_by_their_names() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press-07", &Kind::default()).await;
    let deployment = deployed(&server, "press-07").await;
    report(&client, &deployment.id, deployment.target_version, "failed").await;
    press(&server, "lathe-3", &Kind::default()).await;
    let application = api.application(packages::ID).await.unwrap().name;

    let failed = eventually("the failure is an event", async || {
        let page = text(&browser, "/activity?kind=deployment.failed").await;
        page.contains("title=\"deployment.failed\">Failed</span>").then_some(page)
    })
    .await;
    has(&failed, &[&format!("href=\"/deployments/{}\">{application} on press-07</a>", deployment.id)]);
    lacks(&failed, &[">Open</a>", "Device client"]);
    let page = text(&browser, "/activity?device=ESS-0").await;
    has(&page, &["press-07", "value=\"ESS-0\""]);
    lacks(&page, &["lathe-3"]);

    let page = text(&browser, "/activity/audit").await;
    has(&page, &["<td title=\"deployment.create\">Deploy</td>", "<td title=\"session.create\">Sign in</td>"]);
    let about: String = url::form_urlencoded::byte_serialize(application.to_uppercase().as_bytes()).collect();
    let page = text(&browser, &format!("/activity/audit?subject={about}")).await;
    has(&page, &["title=\"deployment.create\"", "title=\"application.import\"", "title=\"change.create\""]);
    lacks(&page, &["title=\"session.create\"", "title=\"client.create\""]);
    // On a phone the columns behind the first ones stand under them.
    has(&page, &["class=\"narrow\"> <td colspan=\"4\" class=\"small\"> <p>a test</p>"]);
}

#[tokio::test]
async fn what_failed_comes_first_and_says_why_on_a_phone_too() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    let mut clients = Vec::new();
    for name in ["press-1", "press-2", "press-3"] {
        clients.push(press(&server, name, &Kind::default()).await);
    }
    let change = api.create_deployments(&create("1.0.0", on(&["press-1", "press-2", "press-3"]))).await.unwrap();
    finished(&api, &change).await;
    let mut all = all_deployments(&api).await;
    all.sort_by(|one, other| one.id.cmp(&other.id));
    let last = all.last().unwrap();
    let client =
        clients.iter().zip(["press-1", "press-2", "press-3"]).find(|(_, name)| *name == last.client).unwrap().0;
    report(client, &last.id, last.target_version, "failed").await;
    let page = text(&browser, "/deployments").await;
    let places: Vec<usize> = all.iter().map(|one| page.find(&format!("id=\"r-{}\"", one.id)).unwrap()).collect();
    assert!(places[2] < places[0] && places[0] < places[1], "{places:?}");
    has(&page, &["What failed comes first."]);
    let narrow = page.split(&format!("id=\"n-{}\" class=\"narrow\"", last.id)).nth(1).unwrap();
    has(narrow.split("</tr>").next().unwrap(), &["Revision 1 (1.0.0) failed"]);
    assert_eq!(page.matches("id=\"r-").count(), 3, "each of them once");
}

#[tokio::test]
async fn a_device_that_never_had_it_is_no_page_of_differences() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    has(&page, &["there is nothing to compare"]);
    lacks(&page, &["How the device differs"]);
}

#[tokio::test]
async fn what_does_not_fit_is_told_by_the_kind_of_package() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "tiny", &Kind { memory: "512Mi", types: &["compose"], ..Kind::default() }).await;
    let path = format!("/catalog/{}?where=yes", packages::ID);
    let page = eventually("it is worked out", async || {
        let page = text(&browser, &path).await;
        page.contains("1 device: ").then_some(page)
    })
    .await;
    has(&page, &["1 device: Compose: "]);
    lacks(&page, &["profile <code>"]);
}

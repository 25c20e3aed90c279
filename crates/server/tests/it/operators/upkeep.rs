//! Looking after devices, groups and settings on the pages: questions that say what happens, words that fit, nothing typed lost.

use super::pages::Browser;
use super::*;
use crate::support::client_id;
use margrave_api::clients::CreateEnrolmentToken;
use margrave_api::devices::{PutGroup, UpdateDevice};
use margrave_core::model::ClientState;
use margrave_core::time::Clock as _;
use reqwest::StatusCode;
use std::time::Duration;

async fn text(browser: &Browser, path: &str) -> String {
    let answer = browser.get(path).await;
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    answer.text().await.unwrap()
}

#[track_caller]
fn says(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "lacks {wanted}: {text}");
    }
}

#[tokio::test]
async fn forgetting_a_gateway_counts_what_is_behind_it() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let gateway = press(&server, "gw", &Kind::default()).await;
    let alone = text(&browser, "/devices/gw/gw?ask=forget").await;
    says(&alone, &["This touches 1 device.", "Forget this device"]);
    for child in ["gw/a", "gw/b"] {
        Kind::default().report(&gateway, child).await;
    }
    let question = text(&browser, "/devices/gw/gw?ask=forget").await;
    says(&question, &["This touches 3 devices.", "Forget 3 devices", "2 devices behind it are forgotten as well"]);
    let retire = text(&browser, "/clients/gw?ask=retire").await;
    says(&retire, &["This touches 3 devices.", "Nothing is deployed there."]);
    let revision = api(&server).device("gw", "gw").await.unwrap().revision.to_string();
    browser.post("/devices/gw/gw", &[("action", "forget"), ("revision", &revision)]).await;
    assert!(api(&server).devices(None, None, &PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn what_cannot_be_forgotten_yet_is_said_instead_of_asked() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let question = text(&browser, "/devices/press/press?ask=forget").await;
    says(
        &question,
        &["press cannot be forgotten yet", &format!("href=\"/deployments/{}\"", deployment.id), "class=\"ask"],
    );
    assert!(!question.contains("Forget this device") && !question.contains("ask-reason"), "{question}");
    says(&text(&browser, "/clients/press?ask=retire").await, &["1 deployment stays as it is there."]);
}

#[tokio::test]
async fn what_is_on_a_retired_client_says_so_and_a_client_without_device_leads_nowhere() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    says(&text(&browser, "/settings/clients").await, &["href=\"/devices/press/press\""]);
    server.set_state("press", ClientState::Retired).await;
    let page = format!("/deployments/{}", deployment.id);
    says(&text(&browser, &page).await, &["is retired and gets no changes", "/clients/press?ask=accept"]);
    let device = text(&browser, "/devices/press/press").await;
    says(&device, &["Retired"]);
    assert!(!device.contains("shut out") && !device.contains("Shut out"), "{device}");
    finished(&api, &api.remove_deployment(&deployment.id, None, None).await.unwrap()).await;
    server.clock.advance(Duration::from_hours(2));
    let removed = text(&browser, &page).await;
    says(&removed, &["is retired and gets nothing; the removal waits until it is accepted again", "?ask=forget"]);
    assert!(!removed.contains("has not been heard of"), "{removed}");
    api.delete_device("press", "press", None).await.unwrap();
    says(&text(&browser, &page).await, &["Its device was forgotten here"]);
    let clients = text(&browser, "/settings/clients").await;
    assert!(!clients.contains("/devices/press/press"), "{clients}");
}

#[tokio::test]
async fn inviting_a_device_that_exists_asks_once_more() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let form = [("client", "press"), ("hours", "1"), ("reason", "set up anew")];
    let answer = browser.post("/devices/add", &form).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    let warned = answer.text().await.unwrap();
    says(&warned, &["exists already", "stays good until it expires", "Invite press again", "value=\"set up anew\""]);
    assert!(api(&server).invitations().await.unwrap().items.is_empty(), "nothing was made yet");
    let other = [("client", "lathe"), ("hours", "1"), ("again", "press")];
    says(&browser.post("/devices/add", &other).await.text().await.unwrap(), &["Invitation for lathe"]);
    let again = [form.as_slice(), &[("again", "press")]].concat();
    let made = browser.post("/devices/add", &again).await;
    assert_eq!(made.status(), StatusCode::OK);
    says(&made.text().await.unwrap(), &["margrave-agent enrol"]);
    // One that is only accepted beforehand is what invitations are for.
    server.create("mill", ClientState::Accepted).await;
    let form = [("client", "mill"), ("hours", "1")];
    says(&browser.post("/devices/add", &form).await.text().await.unwrap(), &["margrave-agent enrol"]);
}

#[tokio::test]
async fn a_label_no_selector_takes_is_refused_and_nothing_typed_is_lost() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "press", &Kind::default()).await;
    let labels = |name: &str, value: &str| UpdateDevice {
        labels: indexmap::IndexMap::from([(name.to_owned(), Some(value.to_owned()))]),
        reason: None,
    };
    let (code, fields) = refused(api.update_device("press", "press", &labels("bad label!", "x"), None).await);
    assert_eq!((code.as_str(), fields), ("invalid", vec!["labels.bad label!".to_owned()]));
    let form = [("action", "labels"), ("revision", "1"), ("name", "bad label!"), ("value", "x y z"), ("reason", "why")];
    let answer = browser.post("/devices/press/press", &form).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let told = answer.text().await.unwrap();
    says(&told, &["The name of the new label", "<code>bad-label</code>", "value=\"bad label!\"", "value=\"x y z\""]);
    says(&told, &["value=\"why\"", "href=\"#label-name\""]);
    let form = [("action", "labels"), ("revision", "1"), ("name", ""), ("value", "7"), ("reason", "why")];
    let answer = browser.post("/devices/press/press", &form).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer.text().await.unwrap(), &["has no name", "value=\"7\"", "value=\"why\""]);
    // A value may hold anything: a selector names it in quotes.
    api.update_device("press", "press", &labels("hall", "3 north"), None).await.unwrap();
    let found = api.devices(Some("hall=\"3 north\""), None, &PageQuery::default()).await.unwrap();
    assert_eq!(found.items.len(), 1);
    api.update_device("press", "press", &labels("site", "graz"), None).await.unwrap();
    says(
        &text(&browser, "/devices").await,
        &["site=graz <span class=\"soft\">by an operator", "site=nord <span class=\"soft\">by the device"],
    );
    says(&text(&browser, "/devices/press/press").await, &["applications count only the value from the device"]);
}

#[tokio::test]
async fn of_two_operators_the_second_reads_what_the_first_did() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let group = |selector: &str, description: &str| PutGroup {
        selector: selector.to_owned(),
        description: Some(description.to_owned()),
        reason: None,
    };
    let made = api.put_group("nord", &group("site=nord", "the north"), None).await.unwrap();
    api.put_group("nord", &group("site=nord", "all of it"), Some(made.revision)).await.unwrap();
    let (revision, late) = (made.revision.to_string(), "site in (nord)");
    let form =
        [("revision", revision.as_str()), ("selector", late), ("description", "the hall"), ("reason", "moved over")];
    let answer = browser.post("/groups/nord", &form).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    let told = answer.text().await.unwrap();
    says(&told, &["<code>all of it</code>", "<code>the hall</code>", "<code>site=nord</code>", "value=\"moved over\""]);
    let wrong = [("revision", "2"), ("selector", "site in ("), ("description", "")];
    let told = browser.post("/groups/nord", &wrong).await.text().await.unwrap();
    assert_eq!(told.matches("expected a value").count() + told.matches("found the end").count(), 1, "{told}");

    server.create("press", ClientState::Accepted).await;
    for (revision, said) in [("1", "Client+press+is+retired."), ("1", "Somebody+else+retired+client+press")] {
        let answer = browser.post("/clients/press", &[("state", "retired"), ("revision", revision)]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        assert!(cookie.contains(said), "{cookie}");
    }
    let late = browser.post("/groups/nord", &[("action", "delete"), ("revision", "1")]).await;
    assert_eq!(late.status(), StatusCode::PRECONDITION_FAILED);
    let told = late.text().await.unwrap();
    assert!(told.contains("Somebody else changed it") && !told.contains("revision 2"), "{told}");
}

#[tokio::test]
async fn what_ends_something_for_others_asks_first_and_names_it() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    for _ in 0..2 {
        api.create_enrolment_token("press", &CreateEnrolmentToken::default()).await.unwrap();
    }
    let list = text(&browser, "/settings/invitations").await;
    assert!(
        list.contains("?withdraw=press\" data-ask") && !list.contains("<form method=\"post\" action=\"/settings/inv")
    );
    let question = text(&browser, "/settings/invitations?withdraw=press").await;
    says(&question, &["Withdraw all 2 invitations for press?", "Withdraw 2 invitations"]);
    let mut other = Browser::new(&server);
    other.sign_in(&[("token", server.admin_token().as_str())]).await;
    let sessions = api.sessions().await.unwrap().items;
    let list = text(&browser, "/settings/sessions").await;
    assert_eq!(list.matches("this session").count(), 1, "{list}");
    let theirs = sessions.iter().find(|one| list.contains(&format!("?end={}", one.id))).unwrap();
    let question = text(&browser, &format!("/settings/sessions?end={}", theirs.id)).await;
    says(&question, &["End the session of admin?", "End this session"]);
    assert_eq!(other.get("/devices").await.status(), StatusCode::OK, "asking ends nothing");
    let question = text(&browser, "/settings/registries?ask=collect").await;
    says(&question, &["Collect what nothing refers to?", "0 blobs"]);
}

#[tokio::test]
async fn open_invitations_come_first_and_others_do_not_end_any_more() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let store = &server.state().store;
    let now = server.clock.now();
    let actor = crate::support::actor();
    let end = now.plus(Duration::from_hours(1));
    store.enrolment_create(&actor, "old", &client_id("open"), end, now).await.unwrap();
    for number in 0..200 {
        let (hash, id, at) = (format!("h{number}"), format!("used-{number}"), now.plus(Duration::from_secs(number)));
        store.enrolment_create(&actor, &hash, &client_id(&id), end, at).await.unwrap();
        store.enrolment_use(&hash, "key", Duration::from_mins(10), at).await.unwrap();
    }
    server.clock.advance(Duration::from_mins(5));
    let listed = api.invitations().await.unwrap().items;
    assert_eq!((listed.len(), listed[0].client.as_str()), (200, "open"));
    let list = text(&browser, "/settings/invitations").await;
    let rows = list.split("<tbody>").nth(1).unwrap();
    assert!(rows.find("\"row\">open<") < rows.find("\"row\">used-199<"), "{rows}");
    assert_eq!(rows.matches(">in 5").count(), 1, "only an open one ends: {rows}");
    says(rows, &["there are more than these 200"]);
}

#[tokio::test]
async fn clients_are_found_by_a_piece_of_their_id_and_counted() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    for id in ["press-01", "press-02", "lathe-01"] {
        server.create(id, ClientState::Accepted).await;
    }
    server.set_state("press-02", ClientState::Retired).await;
    let found = text(&browser, "/settings/clients?q=PRESS").await;
    says(&found, &["k-press-01", "k-press-02", "2 clients: 1 accepted, 1 retired", "value=\"PRESS\""]);
    assert!(!found.contains("k-lathe-01"));
    let found = text(&browser, "/settings/clients?q=press&state=retired").await;
    says(&found, &["k-press-02", "1 client retired"]);
    assert!(!found.contains("k-press-01"));
}

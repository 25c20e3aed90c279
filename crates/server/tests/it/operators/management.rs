//! Managing devices, groups and settings on the pages: confirmations that say what happens, and nothing typed is lost.

use super::pages::Browser;
use super::*;
use crate::support::client_id;
use margrave_api::clients::CreateEnrollmentToken;
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
async fn deleting_a_gateway_counts_the_devices_behind_it() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let gateway = press(&server, "gw", &Kind::default()).await;
    let alone = text(&browser, "/devices/gw/gw?ask=delete").await;
    says(&alone, &["data-reason=\"affected\" data-count=\"1\"", "data-action=\"delete\""]);
    for child in ["gw/a", "gw/b"] {
        Kind::default().report(&gateway, child).await;
    }
    let question = text(&browser, "/devices/gw/gw?ask=delete").await;
    says(&question, &["data-reason=\"affected\" data-count=\"3\"", "data-action=\"delete\""]);
    let decommission = text(&browser, "/clients/gw?ask=decommission").await;
    says(&decommission, &["data-reason=\"affected\" data-count=\"3\"", "data-action=\"decommission\""]);
    let revision = api(&server).device("gw", "gw").await.unwrap().revision.to_string();
    browser.post("/devices/gw/gw", &[("action", "forget"), ("revision", &revision)]).await;
    assert!(api(&server).devices(None, None, &PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn explains_why_a_device_cannot_be_deleted() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let question = text(&browser, "/devices/press/press?ask=delete").await;
    says(&question, &[&format!("href=\"/deployments/{}\"", deployment.id), "class=\"ask"]);
    assert!(!question.contains("data-action=\"delete\"") && !question.contains("ask-comment"), "{question}");
    says(&text(&browser, "/clients/press?ask=decommission").await, &["1 deployment stays unchanged."]);
}

#[tokio::test]
async fn marks_deployments_of_a_decommissioned_client_and_links_no_missing_device() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    says(&text(&browser, "/settings/identities").await, &["href=\"/devices/press/press\""]);
    server.set_state("press", ClientState::Decommissioned).await;
    let page = format!("/deployments/{}", deployment.id);
    says(&text(&browser, &page).await, &["/clients/press?ask=accept", "data-reason=\"accept-client\""]);
    let device = text(&browser, "/devices/press/press").await;
    says(&device, &["data-state=\"blocked\""]);
    assert!(!device.contains("shut out") && !device.contains("Shut out"), "{device}");
    finished(&api, &api.remove_deployment(&deployment.id, None, None).await.unwrap()).await;
    server.clock.advance(Duration::from_hours(2));
    let removed = text(&browser, &page).await;
    says(&removed, &["data-reason=\"accept-client\"", "?ask=delete"]);
    assert!(!removed.contains(" is pending"), "{removed}");
    api.delete_device("press", "press", None).await.unwrap();
    says(&text(&browser, &page).await, &["The record of its device was deleted"]);
    let clients = text(&browser, "/settings/identities").await;
    assert!(!clients.contains("/devices/press/press"), "{clients}");
}

#[tokio::test]
async fn an_enrollment_token_for_an_existing_device_requires_confirmation() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let form = [("client", "press"), ("hours", "1"), ("comment", "set up anew")];
    let answer = browser.post("/devices/add", &form).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    let warned = answer.text().await.unwrap();
    says(&warned, &["role=\"alert\" tabindex=\"-1\" data-reason=\"exists\"", "value=\"set up anew\""]);
    assert!(api(&server).enrollment_tokens().await.unwrap().items.is_empty(), "nothing was created yet");
    let other = [("client", "lathe"), ("hours", "1"), ("again", "press")];
    says(&browser.post("/devices/add", &other).await.text().await.unwrap(), &["margrave-agent enroll", "lathe"]);
    let again = [form.as_slice(), &[("again", "press")]].concat();
    let made = browser.post("/devices/add", &again).await;
    assert_eq!(made.status(), StatusCode::OK);
    says(&made.text().await.unwrap(), &["margrave-agent enroll"]);
    // Pre-approved clients may always get a token.
    server.create("mill", ClientState::Accepted).await;
    let form = [("client", "mill"), ("hours", "1")];
    says(&browser.post("/devices/add", &form).await.text().await.unwrap(), &["margrave-agent enroll"]);
}

#[tokio::test]
async fn rejects_a_label_that_selectors_cannot_express_and_keeps_the_input() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "press", &Kind::default()).await;
    let labels = |name: &str, value: &str| UpdateDevice {
        labels: indexmap::IndexMap::from([(name.to_owned(), Some(value.to_owned()))]),
        comment: None,
    };
    let (code, fields) = refused(api.update_device("press", "press", &labels("bad label!", "x"), None).await);
    assert_eq!((code.as_str(), fields), ("invalid", vec!["labels.bad label!".to_owned()]));
    let form =
        [("action", "labels"), ("revision", "1"), ("name", "bad label!"), ("value", "x y z"), ("comment", "why")];
    let answer = browser.post("/devices/press/press", &form).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let told = answer.text().await.unwrap();
    says(&told, &["data-reason=\"invalid\"", "<code>bad-label</code>", "value=\"bad label!\"", "value=\"x y z\""]);
    says(&told, &["value=\"why\"", "href=\"#label-name\""]);
    let form = [("action", "labels"), ("revision", "1"), ("name", ""), ("value", "7"), ("comment", "why")];
    let answer = browser.post("/devices/press/press", &form).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    says(
        &answer.text().await.unwrap(),
        &["data-reason=\"invalid\"", "href=\"#label-name\"", "value=\"7\"", "value=\"why\""],
    );
    // A value may hold any character: a selector quotes it.
    api.update_device("press", "press", &labels("hall", "3 north"), None).await.unwrap();
    let found = api.devices(Some("hall=\"3 north\""), None, &PageQuery::default()).await.unwrap();
    assert_eq!(found.items.len(), 1);
    api.update_device("press", "press", &labels("site", "graz"), None).await.unwrap();
    says(&text(&browser, "/devices").await, &["site=graz by an operator, site=nord by the device"]);
    says(&text(&browser, "/devices/press/press").await, &["data-reason=\"label-conflict\""]);
}

#[tokio::test]
async fn shows_the_second_of_two_operators_the_change_of_the_first() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let group = |selector: &str, description: &str| PutGroup {
        selector: selector.to_owned(),
        description: Some(description.to_owned()),
        comment: None,
    };
    let made = api.put_group("nord", &group("site=nord", "the north"), None).await.unwrap();
    api.put_group("nord", &group("site=nord", "all of it"), Some(made.revision)).await.unwrap();
    let (revision, late) = (made.revision.to_string(), "site in (nord)");
    let form =
        [("revision", revision.as_str()), ("selector", late), ("description", "the hall"), ("comment", "moved over")];
    let answer = browser.post("/groups/nord", &form).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    let told = answer.text().await.unwrap();
    says(&told, &["<code>all of it</code>", "<code>the hall</code>", "<code>site=nord</code>", "value=\"moved over\""]);
    let wrong = [("revision", "2"), ("selector", "site in ("), ("description", "")];
    let told = browser.post("/groups/nord", &wrong).await.text().await.unwrap();
    assert_eq!(told.matches("expected a value").count() + told.matches("found the end").count(), 1, "{told}");

    server.create("press", ClientState::Accepted).await;
    for (revision, text_found) in [("1", "said=decommissioned+"), ("1", "said=unchanged+")] {
        let answer = browser.post("/clients/press", &[("state", "decommissioned"), ("revision", revision)]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        assert!(cookie.contains(text_found), "{cookie}");
    }
    let late = browser.post("/groups/nord", &[("action", "delete"), ("revision", "1")]).await;
    assert_eq!(late.status(), StatusCode::PRECONDITION_FAILED);
    let told = late.text().await.unwrap();
    assert!(told.contains("data-reason=\"conflict\"") && !told.contains("revision 2"), "{told}");
}

#[tokio::test]
async fn actions_that_end_sessions_or_tokens_require_confirmation() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    for _ in 0..2 {
        api.create_enrollment_token("press", &CreateEnrollmentToken::default()).await.unwrap();
    }
    let list = text(&browser, "/settings/enrollment-tokens").await;
    assert!(
        list.contains("?revoke=press\" data-ask") && !list.contains("<form method=\"post\" action=\"/settings/inv")
    );
    let question = text(&browser, "/settings/enrollment-tokens?revoke=press").await;
    says(&question, &["data-action=\"revoke\"", "2 enrollment tokens"]);
    let mut other = Browser::new(&server);
    other.sign_in(&[("token", server.admin_token().as_str())]).await;
    let sessions = api.sessions().await.unwrap().items;
    let list = text(&browser, "/settings/sessions").await;
    assert_eq!(list.matches("this session").count(), 1, "{list}");
    let theirs = sessions.iter().find(|one| list.contains(&format!("?end={}", one.id))).unwrap();
    let question = text(&browser, &format!("/settings/sessions?end={}", theirs.id)).await;
    says(&question, &["data-action=\"end-session\""]);
    assert_eq!(other.get("/devices").await.status(), StatusCode::OK, "the confirmation page ends nothing");
    let question = text(&browser, "/settings/registries?ask=gc").await;
    says(&question, &["data-action=\"collect-garbage\"", "0 blobs"]);
}

#[tokio::test]
async fn lists_active_enrollment_tokens_first_and_revokes_only_those() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let store = &server.state().store;
    let now = server.clock.now();
    let actor = crate::support::actor();
    let end = now.plus(Duration::from_hours(1));
    store.enrollment_create(&actor, "old", &client_id("open"), end, now).await.unwrap();
    for number in 0..200 {
        let (hash, id, at) = (format!("h{number}"), format!("used-{number}"), now.plus(Duration::from_secs(number)));
        store.enrollment_create(&actor, &hash, &client_id(&id), end, at).await.unwrap();
        store.enrollment_use(&hash, "key", Duration::from_mins(10), at).await.unwrap();
    }
    server.clock.advance(Duration::from_mins(5));
    let listed = api.enrollment_tokens().await.unwrap().items;
    assert_eq!((listed.len(), listed[0].client.as_str()), (200, "open"));
    let list = text(&browser, "/settings/enrollment-tokens").await;
    let rows = list.split("<tbody>").nth(1).unwrap();
    let [active, used] = ["open", "used-199"].map(|client| rows.find(&format!(">{client}</th>")));
    assert!(active.is_some() && active < used, "{rows}");
    assert_eq!(rows.matches(">in 5").count(), 1, "only an active one expires: {rows}");
    says(rows, &["only the newest 200 are shown"]);
}

#[tokio::test]
async fn finds_and_counts_clients_by_part_of_their_id() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    for id in ["press-01", "press-02", "lathe-01"] {
        server.create(id, ClientState::Accepted).await;
    }
    server.set_state("press-02", ClientState::Decommissioned).await;
    let found = text(&browser, "/settings/identities?q=PRESS").await;
    says(&found, &["k-press-01", "k-press-02", "2 device identities: 1 accepted, 1 decommissioned", "value=\"PRESS\""]);
    assert!(!found.contains("k-lathe-01"));
    let found = text(&browser, "/settings/identities?q=press&state=decommissioned").await;
    says(&found, &["k-press-02", "1 device identity decommissioned"]);
    assert!(!found.contains("k-press-01"));
}

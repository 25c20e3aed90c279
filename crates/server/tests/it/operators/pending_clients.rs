//! Clients that connect with a valid identity before an operator has accepted them.

use super::pages::Browser;
use super::{api, problem};
use crate::support::client::{Device, refused};
use crate::support::{TestServer, client_id, eventually};
use margrave_api::client::PageQuery;
use margrave_api::clients::{Client, ClientState, CreateClient};
use margrave_core::model;
use margrave_server::devices::WAITING_MAX;
use reqwest::StatusCode;
use reqwest::header::LOCATION;

const MANIFEST: &str = "/api/v1/deployments";

/// Connects, is rejected, and is pending.
async fn asked(server: &TestServer, id: &str) -> Device {
    let device = server.device(id);
    refused(device.get(MANIFEST).await, 403, Some("not-authorized")).await;
    eventually("it is recorded", async || server.state().heads.get(&client_id(id))).await;
    device
}

async fn pending(server: &TestServer) -> Vec<Client> {
    api(server).clients_in(ClientState::Pending, &PageQuery { limit: Some(1000), after: None }).await.unwrap().items
}

#[tokio::test]
async fn records_an_unknown_client_once_as_pending() {
    // WID-05
    let server = TestServer::start().await;
    let api = api(&server);
    let stranger = asked(&server, "press-09").await;
    let place = api.audit(Some("client/press-09"), &PageQuery::default()).await.unwrap().items;
    assert_eq!((place.len(), place[0].action.as_str()), (1, "client.request"));
    assert_eq!(place[0].actor, "client:press-09");
    assert!(place[0].comment.as_deref().is_some_and(|reason| reason.contains("valid identity")), "{place:?}");
    let known = pending(&server).await;
    assert_eq!((known.len(), known[0].id.as_str()), (1, "press-09"));
    for path in [MANIFEST, "/api/v1/capabilities/press-09", "/anything"] {
        refused(stranger.get(path).await, 403, Some("not-authorized")).await;
    }
    let now = pending(&server).await;
    assert_eq!((now.len(), now[0].revision), (1, known[0].revision), "connecting again writes nothing");
    assert_eq!(api.audit(Some("client/press-09"), &PageQuery::default()).await.unwrap().items.len(), 1);
    // It is still pending after a restart.
    let server = server.restart().await;
    assert_eq!(server.state().heads.get(&client_id("press-09")).unwrap().state, model::ClientState::Pending);
}

#[tokio::test]
async fn shows_accepts_and_rejects_a_pending_client_on_the_pages() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let (good, bad) = (asked(&server, "press-09").await, asked(&server, "intruder").await);
    for path in ["/devices", "/settings/identities", "/settings/identities?state=pending"] {
        let text = browser.get(path).await.text().await.unwrap();
        assert!(text.contains("data-state=\"pending\"") && text.contains("/clients/press-09?ask=accept"), "{text}");
        assert!(text.contains("/clients/intruder?ask=reject"), "{text}");
    }
    let overview = eventually("the overview has counted", async || {
        let text = browser.get("/").await.text().await.unwrap();
        text.contains("data-reason=\"pending-clients\" data-count=\"2\"").then_some(text)
    })
    .await;
    assert!(overview.contains("/settings/identities?state=pending"));
    let question = browser.get("/clients/intruder?ask=reject").await.text().await.unwrap();
    assert!(
        question.contains("data-action=\"reject\"") && question.contains("name=\"state\" value=\"rejected\""),
        "{question}"
    );
    let form = [("state", "rejected"), ("revision", "1"), ("comment", "not one of ours")];
    let answer = browser.post("/clients/intruder", &form).await;
    assert_eq!(
        (answer.status(), &answer.headers()[LOCATION]),
        (StatusCode::SEE_OTHER, &"/settings/identities".parse().unwrap())
    );
    let form = [("state", "accepted"), ("revision", "1"), ("comment", "hall 3")];
    assert_eq!(browser.post("/clients/press-09", &form).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(good.get(MANIFEST).await.status(), 200);
    refused(bad.get(MANIFEST).await, 403, Some("not-authorized")).await;
    let refused = api(&server).client("intruder").await.unwrap();
    assert_eq!(refused.state, ClientState::Rejected, "it stays rejected, however often it connects");
    assert!(pending(&server).await.is_empty());
    let records = api(&server).audit(Some("client/intruder"), &PageQuery::default()).await.unwrap().items;
    assert_eq!((records[0].action.as_str(), records[0].comment.as_deref()), ("client.reject", Some("not one of ours")));
    let listed = browser.get("/settings/identities?state=rejected").await.text().await.unwrap();
    assert!(listed.contains("data-state=\"rejected\"") && listed.contains("intruder"), "{listed}");
    assert!(!listed.contains("press-09"), "{listed}");
}

#[tokio::test]
async fn only_a_pending_client_can_be_rejected() {
    let server = TestServer::start().await;
    let api = api(&server);
    asked(&server, "intruder").await;
    server.accepted("press").await;
    let wrong = problem(api.reject_client("press", None).await);
    assert_eq!((wrong.status, wrong.errors[0].field.as_str()), (422, "state"), "{}", wrong.detail);
    assert!(wrong.detail.contains("`decommissioned`"), "the next step is named: {}", wrong.detail);
    assert_eq!(api.client("press").await.unwrap().state, ClientState::Accepted);
    assert_eq!(api.reject_client("intruder", None).await.unwrap().state, ClientState::Rejected);
    assert_eq!(
        api.reject_client("intruder", None).await.unwrap().state,
        ClientState::Rejected,
        "again changes nothing"
    );
    assert_eq!(api.accept_client("intruder", None).await.unwrap().state, ClientState::Accepted);
    assert_eq!(api.decommission_client("intruder", None).await.unwrap().state, ClientState::Decommissioned);
}

#[tokio::test]
async fn accepts_a_client_by_id_before_or_after_its_first_request() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let early = asked(&server, "early").await;
    for id in ["early", "late"] {
        let answer = browser.post("/settings/identities", &[("key", id), ("id", id), ("comment", "ordered")]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{id}");
        assert_eq!(api.client(id).await.unwrap().state, ClientState::Accepted, "{id}");
    }
    assert_eq!(early.get(MANIFEST).await.status(), 200);
    assert_eq!(server.device("late").get(MANIFEST).await.status(), 200);
    let again = browser.post("/settings/identities", &[("key", "b"), ("id", "late"), ("comment", "twice")]).await;
    assert_eq!(again.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let text = again.text().await.unwrap();
    assert!(
        text.contains("data-reason=\"invalid\"")
            && text.contains("<code>late</code>")
            && text.contains("value=\"twice\""),
        "{text}"
    );
    let odd = browser.post("/settings/identities", &[("key", "c"), ("id", "not a name!")]).await;
    assert_eq!(odd.status(), StatusCode::UNPROCESSABLE_ENTITY);
    // The same through the API, with its note.
    asked(&server, "third").await;
    let body = CreateClient { id: "third".to_owned(), state: None, note: Some("hall 3".to_owned()), comment: None };
    let made = api.create_client(&body).await.unwrap();
    assert_eq!((made.state, made.revision, made.note.as_deref()), (ClientState::Accepted, 2, Some("hall 3")));
}

#[tokio::test]
async fn limits_the_number_of_pending_clients() {
    let server = TestServer::start().await;
    for number in 0..WAITING_MAX {
        server.create(&format!("waiting-{number:04}"), model::ClientState::Pending).await;
    }
    let device = server.device("one-more");
    for _ in 0..3 {
        refused(device.get(MANIFEST).await, 403, Some("not-authorized")).await;
    }
    server.set_state("waiting-0000", model::ClientState::Decommissioned).await;
    // Checked again only after a while; until then its requests cost no database query.
    server.clock.advance(std::time::Duration::from_mins(3));
    eventually("it is recorded below the limit", async || {
        refused(device.get(MANIFEST).await, 403, Some("not-authorized")).await;
        server.state().heads.get(&client_id("one-more"))
    })
    .await;
    assert_eq!(pending(&server).await.len() as u64, WAITING_MAX);
}

#[tokio::test]
async fn accepts_pending_clients_when_all_clients_are_accepted() {
    let server = TestServer::start().await;
    let data = asked(&server, "press-09").await;
    drop(data);
    let mut config = margrave_server::config::Config::clone(&server.state().config);
    config.clients.accept_any = true;
    let (folder, clock) = server.stop().await;
    let server = TestServer::start_in(folder, clock, config).await.unwrap();
    assert_eq!(server.device("press-09").get(MANIFEST).await.status(), 200);
    assert_eq!(api(&server).client("press-09").await.unwrap().state, ClientState::Accepted);
}

#[tokio::test]
async fn shows_when_a_blocked_client_last_connected() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let waiting = asked(&server, "press-09").await;
    let blocked = super::press(&server, "lathe", &super::Kind::default()).await;
    api.decommission_client("lathe", None).await.unwrap();
    assert_eq!(api.client("lathe").await.unwrap().last_rejected_at, None, "it has not connected since");
    server.clock.advance(std::time::Duration::from_mins(1));
    for device in [&waiting, &blocked] {
        refused(device.get(MANIFEST).await, 403, Some("not-authorized")).await;
    }
    let now = server.state().now().to_string();
    for id in ["press-09", "lathe"] {
        assert_eq!(api.client(id).await.unwrap().last_rejected_at.as_deref(), Some(now.as_str()), "{id}");
    }
    let page = async |path: &str| browser.get(path).await.text().await.unwrap();
    let list = page("/devices").await;
    assert!(list.contains("first request") && list.contains(", last <time"), "{list}");
    let device = page("/devices/lathe/lathe").await;
    assert!(device.contains("data-reason=\"last-request\"") && device.contains("<time"), "{device}");
    assert!(page("/settings/identities").await.contains("last request <time"));

    // Accepted again, it is shown as not reconnected yet, until it has.
    api.accept_client("lathe", None).await.unwrap();
    let device = page("/devices/lathe/lathe").await;
    assert!(device.contains("It retries automatically, usually within half a minute"), "{device}");
    server.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(blocked.get(MANIFEST).await.status(), 200);
    assert_eq!(api.client("lathe").await.unwrap().last_rejected_at, None);
    assert!(!page("/devices/lathe/lathe").await.contains("retries automatically"));
}

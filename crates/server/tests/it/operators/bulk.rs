//! Bulk actions on devices and clients, over plain HTTP as a browser without script does it.

use super::pages::Browser;
use super::*;
use margrave_api::clients::{ClientState, CreateClient};
use margrave_server::app::bulk::BULK_MAX;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};

async fn text(answer: Response) -> String {
    // Templates contain line breaks.
    answer.text().await.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn labels(api: &ApiClient, name: &str) -> Vec<(String, String)> {
    api.device(name, name).await.unwrap().operator_labels.into_iter().collect()
}

fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn pending(api: &ApiClient, id: &str) {
    let body = CreateClient { id: id.to_owned(), state: Some(ClientState::Pending), note: None, comment: None };
    api.create_client(&body).await.unwrap();
}

#[tokio::test]
async fn labels_selected_devices_once_with_a_record_each() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    for name in ["press-1", "press-2", "press-3"] {
        press(&server, name, &Kind::default()).await;
    }
    let page = text(browser.get("/devices?site=nord").await).await;
    assert!(
        page.contains("action=\"/devices/bulk\"") && page.contains("name=\"all\" value=\"yes\" data-count=\"3\""),
        "{page}"
    );

    let asked = text(browser.get("/devices/bulk?do=label&device=press-1/press-1&device=press-2/press-2").await).await;
    assert!(
        asked.contains("data-reason=\"affected\" data-count=\"2\"") && asked.contains("data-action=\"label\""),
        "{asked}"
    );
    let form = [
        ("key", "k"),
        ("do", "label"),
        ("device", "press-1/press-1"),
        ("device", "press-2/press-2"),
        ("name", "line"),
        ("value", "7"),
        ("comment", "new line"),
    ];
    for _ in 0..2 {
        let done = browser.post("/devices/bulk", &form).await;
        assert_eq!((done.status(), done.headers()[LOCATION].to_str().unwrap()), (StatusCode::SEE_OTHER, "/devices"));
    }
    assert_eq!(labels(&api, "press-1").await, owned(&[("line", "7")]));
    assert_eq!(labels(&api, "press-3").await, owned(&[]));
    for name in ["press-1", "press-2"] {
        let records = api.audit(Some(&format!("device/{name}/{name}")), &PageQuery::default()).await.unwrap().items;
        let mine: Vec<_> = records.iter().filter(|record| record.action == "device.label").collect();
        assert_eq!((mine.len(), mine[0].comment.as_deref()), (1, Some("new line")), "{records:?}");
    }
    // Other labels stay; a missing device is named, and the rest is done.
    let form = [
        ("do", "label"),
        ("device", "gone/gone"),
        ("device", "press-1/press-1"),
        ("device", "press-3/press-3"),
        ("name", "shift"),
        ("value", "day"),
    ];
    let done = text(browser.post("/devices/bulk", &form).await).await;
    assert!(
        done.contains("data-reason=\"label-set\" data-count=\"2\"")
            && done.contains("data-reason=\"not-changed\" data-count=\"1\""),
        "{done}"
    );
    assert!(done.contains(">gone</span>"), "{done}");
    assert_eq!(labels(&api, "press-1").await, owned(&[("line", "7"), ("shift", "day")]));
    let form = [("do", "label"), ("device", "press-1/press-1"), ("name", "line"), ("value", ""), ("gone", "yes")];
    browser.post("/devices/bulk", &form).await;
    assert_eq!(labels(&api, "press-1").await, owned(&[("shift", "day")]));
}

#[tokio::test]
async fn rejects_an_invalid_label_first_and_keeps_the_input() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "press-1", &Kind::default()).await;
    let form =
        [("do", "label"), ("device", "press-1/press-1"), ("name", "bad label!"), ("value", "7"), ("comment", "r")];
    let answer = browser.post("/devices/bulk", &form).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let page = text(answer).await;
    assert!(
        page.contains("value=\"bad label!\"") && page.contains("bad-label") && page.contains("value=\"r\""),
        "{page}"
    );
    assert!(page.contains("name=\"device\" value=\"press-1/press-1\""), "{page}");
    assert!(labels(&api, "press-1").await.is_empty());
    let nothing = browser.get("/devices/bulk?do=label&q=press").await;
    assert_eq!(nothing.headers()[LOCATION].to_str().unwrap(), "/devices?q=press", "nothing was selected");
}

#[tokio::test]
async fn decommissions_all_matches_and_the_confirmation_counts_devices_behind_gateways() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let gateway = press(&server, "gate", &Kind::default()).await;
    Kind::default().report(&gateway, "gate/camera").await;
    press(&server, "press", &Kind::default()).await;
    press(&server, "elsewhere", &Kind { labels: json!({ "site": "sued" }), ..Kind::default() }).await;
    let asked = text(browser.get("/devices/bulk?do=decommission&all=yes&site=nord").await).await;
    assert!(
        asked.contains("data-action=\"decommission\"") && asked.contains("data-reason=\"affected\" data-count=\"3\""),
        "{asked}"
    );
    let form = [("do", "decommission"), ("client", "gate"), ("client", "press"), ("site", "nord"), ("comment", "sold")];
    let done = browser.post("/devices/bulk", &form).await;
    assert_eq!(done.headers()[LOCATION].to_str().unwrap(), "/devices?site=nord");
    for (name, state) in [
        ("gate", ClientState::Decommissioned),
        ("press", ClientState::Decommissioned),
        ("elsewhere", ClientState::Accepted),
    ] {
        assert_eq!(api.client(name).await.unwrap().state, state, "{name}");
    }
    let asked = text(browser.get("/devices/bulk?do=decommission&all=yes&site=nord").await).await;
    assert!(
        !asked.contains("data-action=\"decommission\"") && !asked.contains("name=\"comment\""),
        "nothing to confirm: {asked}"
    );
}

#[tokio::test]
async fn accepts_pending_clients_together_and_lists_rejected_ones_separately() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    for id in ["press-1", "press-2", "press-3", "intruder"] {
        pending(&api, id).await;
    }
    let page = text(browser.get("/devices").await).await;
    assert!(
        page.contains("data-state=\"pending\" data-count=\"4\"")
            && page.contains("do=accept&amp;all=yes")
            && page.contains("do=decommission&amp;all=yes"),
        "{page}"
    );
    let asked = text(browser.get("/settings/identities/bulk?do=decommission&client=intruder").await).await;
    assert!(
        asked.contains("data-action=\"reject\"") && asked.contains("data-reason=\"affected\" data-count=\"1\""),
        "{asked}"
    );
    browser
        .post("/settings/identities/bulk", &[("do", "decommission"), ("client", "intruder"), ("comment", "who?")])
        .await;

    let asked = text(browser.get("/settings/identities/bulk?do=accept&all=yes").await).await;
    assert!(
        asked.contains("data-action=\"approve\"") && asked.contains("data-reason=\"affected\" data-count=\"4\""),
        "{asked}"
    );
    assert!(asked.contains("Selected: 3 pending approval, 1 rejected."), "returning clients are named: {asked}");
    let form =
        [("do", "accept"), ("client", "press-1"), ("client", "press-2"), ("client", "press-3"), ("comment", "ours")];
    let done = browser.post("/settings/identities/bulk", &form).await;
    assert_eq!(
        (done.status(), done.headers()[LOCATION].to_str().unwrap()),
        (StatusCode::SEE_OTHER, "/settings/identities")
    );
    for id in ["press-1", "press-2", "press-3"] {
        assert_eq!(api.client(id).await.unwrap().state, ClientState::Accepted);
        let records = api.audit(Some(&format!("client/{id}")), &PageQuery::default()).await.unwrap().items;
        assert!(
            records.iter().any(|one| one.action == "client.accept" && one.comment.as_deref() == Some("ours")),
            "{id}"
        );
    }
    assert_eq!(api.client("intruder").await.unwrap().state, ClientState::Rejected);
}

#[tokio::test]
async fn continues_bulk_actions_beyond_one_request() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let ids: Vec<String> = (0..=BULK_MAX).map(|number| format!("press-{number:04}")).collect();
    for id in &ids {
        pending(&api, id).await;
    }
    let asked = text(browser.get("/settings/identities/bulk?do=accept&all=yes&state=pending").await).await;
    assert!(asked.contains("These are 500 of the 501 matching"), "{asked}");
    let after = asked.split("name=\"after\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let mut form = vec![("do", "accept"), ("state", "pending"), ("after", after.as_str())];
    form.extend(ids[..BULK_MAX].iter().map(|id| ("client", id.as_str())));
    let done = text(browser.post("/settings/identities/bulk", &form).await).await;
    assert!(done.contains("data-reason=\"approved\" data-count=\"500\""), "{done}");
    let next = done.split("<a class=\"button main\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let asked = text(browser.get(&next.replace("&amp;", "&").replace("&#38;", "&")).await).await;
    assert!(asked.contains("data-action=\"approve\"") && asked.contains("press-0500"), "{asked}");
    let form: Vec<_> = [("do", "accept")].into_iter().chain(ids.iter().map(|id| ("client", id.as_str()))).collect();
    let answer = browser.post("/settings/identities/bulk", &form).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "more than {BULK_MAX} at once is rejected");
}

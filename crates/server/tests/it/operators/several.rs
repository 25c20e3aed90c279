//! Several devices or clients at once, over bare HTTP as a browser without script does it.

use super::pages::Browser;
use super::*;
use margrave_api::clients::{ClientState, CreateClient};
use margrave_server::app::several::SEVERAL_MAX;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};

async fn text(answer: Response) -> String {
    // Templates break lines where it suits them.
    answer.text().await.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn labels(api: &ApiClient, name: &str) -> Vec<(String, String)> {
    api.device(name, name).await.unwrap().operator_labels.into_iter().collect()
}

fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn pending(api: &ApiClient, id: &str) {
    let body = CreateClient { id: id.to_owned(), state: Some(ClientState::Pending), note: None, reason: None };
    api.create_client(&body).await.unwrap();
}

#[tokio::test]
async fn devices_that_are_ticked_get_a_label_each_with_a_record_of_its_own_and_twice_is_once() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    for name in ["press-1", "press-2", "press-3"] {
        press(&server, name, &Kind::default()).await;
    }
    let page = text(browser.get("/devices?site=nord").await).await;
    assert!(page.contains("action=\"/devices/several\"") && page.contains("All 3 that match"), "{page}");

    let asked =
        text(browser.get("/devices/several?do=label&device=press-1/press-1&device=press-2/press-2").await).await;
    assert!(asked.contains("This touches 2 devices.") && asked.contains("Label 2 devices</button>"), "{asked}");
    let form = [
        ("key", "k"),
        ("do", "label"),
        ("device", "press-1/press-1"),
        ("device", "press-2/press-2"),
        ("name", "line"),
        ("value", "7"),
        ("reason", "new line"),
    ];
    for _ in 0..2 {
        let done = browser.post("/devices/several", &form).await;
        assert_eq!((done.status(), done.headers()[LOCATION].to_str().unwrap()), (StatusCode::SEE_OTHER, "/devices"));
    }
    assert_eq!(labels(&api, "press-1").await, owned(&[("line", "7")]));
    assert_eq!(labels(&api, "press-3").await, owned(&[]));
    for name in ["press-1", "press-2"] {
        let records = api.audit(Some(&format!("device/{name}/{name}")), &PageQuery::default()).await.unwrap().items;
        let mine: Vec<_> = records.iter().filter(|record| record.action == "device.label").collect();
        assert_eq!((mine.len(), mine[0].reason.as_deref()), (1, Some("new line")), "{records:?}");
    }
    // Another label stays; one that is gone is named, and the rest is done.
    let form = [
        ("do", "label"),
        ("device", "gone/gone"),
        ("device", "press-1/press-1"),
        ("device", "press-3/press-3"),
        ("name", "shift"),
        ("value", "day"),
    ];
    let done = text(browser.post("/devices/several", &form).await).await;
    assert!(done.contains("2 devices were labelled shift=day.") && done.contains("<h1>1 not done</h1>"), "{done}");
    assert!(done.contains(">gone</span>") && done.contains("does not exist"), "{done}");
    assert_eq!(labels(&api, "press-1").await, owned(&[("line", "7"), ("shift", "day")]));
    let form = [("do", "label"), ("device", "press-1/press-1"), ("name", "line"), ("value", ""), ("gone", "yes")];
    browser.post("/devices/several", &form).await;
    assert_eq!(labels(&api, "press-1").await, owned(&[("shift", "day")]));
}

#[tokio::test]
async fn a_label_nobody_can_use_is_refused_before_anything_is_done_and_what_was_typed_stays() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "press-1", &Kind::default()).await;
    let form =
        [("do", "label"), ("device", "press-1/press-1"), ("name", "bad label!"), ("value", "7"), ("reason", "r")];
    let answer = browser.post("/devices/several", &form).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let page = text(answer).await;
    assert!(
        page.contains("value=\"bad label!\"") && page.contains("bad-label") && page.contains("value=\"r\""),
        "{page}"
    );
    assert!(page.contains("name=\"device\" value=\"press-1/press-1\""), "{page}");
    assert!(labels(&api, "press-1").await.is_empty());
    let nothing = browser.get("/devices/several?do=label&q=press").await;
    assert_eq!(nothing.headers()[LOCATION].to_str().unwrap(), "/devices?q=press", "nothing was ticked");
}

#[tokio::test]
async fn all_that_match_are_retired_and_the_question_counts_what_is_behind_gateways() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let gateway = press(&server, "gate", &Kind::default()).await;
    Kind::default().report(&gateway, "gate/camera").await;
    press(&server, "press", &Kind::default()).await;
    press(&server, "elsewhere", &Kind { labels: json!({ "site": "sued" }), ..Kind::default() }).await;
    let asked = text(browser.get("/devices/several?do=retire&all=yes&site=nord").await).await;
    assert!(asked.contains("<h1>Retire 2 clients?</h1>") && asked.contains("This touches 3 devices."), "{asked}");
    let form = [("do", "retire"), ("client", "gate"), ("client", "press"), ("site", "nord"), ("reason", "sold")];
    let done = browser.post("/devices/several", &form).await;
    assert_eq!(done.headers()[LOCATION].to_str().unwrap(), "/devices?site=nord");
    for (name, state) in
        [("gate", ClientState::Retired), ("press", ClientState::Retired), ("elsewhere", ClientState::Accepted)]
    {
        assert_eq!(api.client(name).await.unwrap().state, state, "{name}");
    }
    let asked = text(browser.get("/devices/several?do=retire&all=yes&site=nord").await).await;
    assert!(asked.contains("2 retired already") && !asked.contains("name=\"reason\""), "nothing to ask: {asked}");
}

#[tokio::test]
async fn clients_that_wait_are_accepted_together_and_those_refused_are_told_apart() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    for id in ["press-1", "press-2", "press-3", "intruder"] {
        pending(&api, id).await;
    }
    let page = text(browser.get("/devices").await).await;
    assert!(page.contains("Accept all 4</a>") && page.contains("Refuse all 4</a>"), "{page}");
    let asked = text(browser.get("/settings/clients/several?do=retire&client=intruder").await).await;
    assert!(asked.contains("<h1>Refuse 1 client?</h1>") && asked.contains("This touches 1 device."), "{asked}");
    browser.post("/settings/clients/several", &[("do", "retire"), ("client", "intruder"), ("reason", "who?")]).await;

    let asked = text(browser.get("/settings/clients/several?do=accept&all=yes").await).await;
    assert!(asked.contains("<h1>Accept 4 clients?</h1>"), "{asked}");
    assert!(asked.contains("Of those chosen: 3 waiting to be accepted, 1 retired."), "who comes back is said: {asked}");
    let form =
        [("do", "accept"), ("client", "press-1"), ("client", "press-2"), ("client", "press-3"), ("reason", "ours")];
    let done = browser.post("/settings/clients/several", &form).await;
    assert_eq!(
        (done.status(), done.headers()[LOCATION].to_str().unwrap()),
        (StatusCode::SEE_OTHER, "/settings/clients")
    );
    for id in ["press-1", "press-2", "press-3"] {
        assert_eq!(api.client(id).await.unwrap().state, ClientState::Accepted);
        let records = api.audit(Some(&format!("client/{id}")), &PageQuery::default()).await.unwrap().items;
        assert!(
            records.iter().any(|one| one.action == "client.accept" && one.reason.as_deref() == Some("ours")),
            "{id}"
        );
    }
    assert_eq!(api.client("intruder").await.unwrap().state, ClientState::Retired);
}

#[tokio::test]
async fn more_than_one_request_does_are_told_and_gone_on_with() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let ids: Vec<String> = (0..=SEVERAL_MAX).map(|number| format!("press-{number:04}")).collect();
    for id in &ids {
        pending(&api, id).await;
    }
    let asked = text(browser.get("/settings/clients/several?do=accept&all=yes&state=pending").await).await;
    assert!(asked.contains("These are 500 of the 501 that match"), "{asked}");
    let after = asked.split("name=\"after\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let mut form = vec![("do", "accept"), ("state", "pending"), ("after", after.as_str())];
    form.extend(ids[..SEVERAL_MAX].iter().map(|id| ("client", id.as_str())));
    let done = text(browser.post("/settings/clients/several", &form).await).await;
    assert!(done.contains("500 clients were accepted."), "{done}");
    let next = done.split("<a class=\"button main\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let asked = text(browser.get(&next.replace("&amp;", "&").replace("&#38;", "&")).await).await;
    assert!(asked.contains("<h1>Accept 1 client?</h1>") && asked.contains("press-0500"), "{asked}");
    let form: Vec<_> = [("do", "accept")].into_iter().chain(ids.iter().map(|id| ("client", id.as_str()))).collect();
    let answer = browser.post("/settings/clients/several", &form).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "more than {SEVERAL_MAX} at once is refused");
}

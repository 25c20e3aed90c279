//! Devices, labels from devices and operators, groups, pages.

use super::{Kind, api, deployed, press, problem, refused};
use crate::support::TestServer;
use indexmap::IndexMap;
use margrave_api::client::{ApiClient, PageQuery};
use margrave_api::devices::{PutGroup, UpdateDevice};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

fn labels(list: &[(&str, Option<&str>)]) -> UpdateDevice {
    let labels =
        list.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect::<IndexMap<_, _>>();
    UpdateDevice { labels, comment: Some("moved".to_owned()) }
}

async fn found(api: &ApiClient, selector: &str) -> Vec<String> {
    let page = api.devices(Some(selector), None, &PageQuery::default()).await.unwrap();
    page.items.into_iter().map(|device| device.device).collect()
}

#[tokio::test]
async fn separates_reported_and_operator_labels() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    let device = api
        .update_device("press", "press", &labels(&[("line", Some("2")), ("spare", Some("no"))]), None)
        .await
        .unwrap();
    assert_eq!(device.operator_labels.get("line").map(String::as_str), Some("2"));
    assert_eq!(device.device_labels.get("site"), Some(&json!("nord")));
    Kind { labels: json!({ "site": "sued" }), ..Kind::default() }.report(&client, "press").await;
    let device = api.update_device("press", "press", &labels(&[("spare", None)]), None).await.unwrap();
    assert_eq!(
        device.operator_labels.keys().collect::<Vec<_>>(),
        ["line"],
        "the operator's stay when the device reports"
    );
    assert_eq!(device.device_labels.get("site"), Some(&json!("sued")));
    assert_eq!(found(&api, "line=2").await, ["press"]);
    assert_eq!(found(&api, "site=sued,line in (1,2),!spare").await, ["press"]);
    assert!(found(&api, "site=nord").await.is_empty());
}

#[tokio::test]
async fn shows_a_device_as_offline_when_its_client_is_not_seen() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    client.get("/api/v1/deployments").await;
    assert!(!api.device("press", "press").await.unwrap().offline);
    server.clock.advance(Duration::from_hours(1));
    let device = api.device("press", "press").await.unwrap();
    assert!(device.offline && device.last_seen_at.is_some());
    assert!(device.capabilities.is_some(), "a single device has its capabilities");
    assert!(api.devices(None, None, &PageQuery::default()).await.unwrap().items[0].capabilities.is_none());
}

#[tokio::test]
async fn pages_list_every_device_once() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = server.accepted("hall").await;
    for number in 0..25 {
        Kind::default().report(&client, &format!("d-{number}")).await;
    }
    let mut seen = Vec::new();
    let mut page = PageQuery { limit: Some(7), after: None };
    loop {
        let answer = api.devices(None, Some("hall"), &page).await.unwrap();
        assert!(answer.items.len() <= 7);
        seen.extend(answer.items.into_iter().map(|device| device.device));
        match answer.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 25);
    assert!(api.devices(None, Some("absent"), &PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_group_contains_currently_matching_devices() {
    let server = TestServer::start().await;
    let api = api(&server);
    let put = |selector: &str| PutGroup { selector: selector.to_owned(), description: None, comment: None };
    let group = api.put_group("nord", &put("site=nord"), None).await.unwrap();
    assert!(api.group_devices("nord", &PageQuery::default()).await.unwrap().items.is_empty());
    press(&server, "press", &Kind::default()).await;
    assert_eq!(api.group_devices("nord", &PageQuery::default()).await.unwrap().items[0].device, "press");

    let again = problem(api.put_group("nord", &put("site=sued"), None).await);
    assert!(again.code == "exists" && again.detail.contains("If-Match"), "{again:?}");
    let changed = api.put_group("nord", &put("site=sued"), Some(group.revision)).await.unwrap();
    assert!(api.group_devices("nord", &PageQuery::default()).await.unwrap().items.is_empty());
    assert_eq!(problem(api.put_group("nord", &put("!site"), Some(group.revision)).await).code, "conflict");
    assert_eq!(
        refused(api.put_group("x", &put("site in ("), None).await),
        ("invalid".to_owned(), vec!["selector".to_owned()])
    );
    assert_eq!(problem(api.put_group("a b", &put(""), None).await).code, "invalid");
    assert_eq!(problem(api.delete_group("nord", None, Some(group.revision)).await).code, "conflict");
    api.delete_group("nord", Some("moved"), Some(changed.revision)).await.unwrap();
    assert_eq!(problem(api.group("nord").await).code, "not-found");
    assert!(api.groups(&PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn rejects_all_invalid_labels_at_once() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let long = "x".repeat(2000);
    let body = labels(&[("", Some("a")), ("ok", Some(&long))]);
    let (code, fields) = refused(api.update_device("press", "press", &body, None).await);
    assert_eq!((code.as_str(), fields.len()), ("invalid", 2), "{fields:?}");
    assert_eq!(problem(api.update_device("press", "lathe", &labels(&[("a", None)]), None).await).code, "not-found");
    let device = api.device("press", "press").await.unwrap();
    let stale = api.update_device("press", "press", &labels(&[("a", Some("b"))]), Some(device.revision + 1)).await;
    assert_eq!(problem(stale).status, 412);
}

#[tokio::test]
async fn rejects_deleting_a_device_with_a_deployment() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    deployed(&server, "press").await;
    assert_eq!(problem(api.delete_device("press", "press", None).await).code, "in-use");
    press(&server, "lathe", &Kind::default()).await;
    api.delete_device("lathe", "lathe", Some("sold")).await.unwrap();
    assert_eq!(problem(api.device("lathe", "lathe").await).code, "not-found");
    assert_eq!(problem(api.delete_device("lathe", "lathe", None).await).code, "not-found");
}

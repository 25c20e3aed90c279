//! A change over many devices: bounded batches, others are not kept waiting, a restart goes on.

use super::packages::upload;
use super::{Kind, all_deployments, api, create, finished, on, press, selected};
use crate::support::{TestServer, actor, client_id, eventually};
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margrave_api::changes::{ChangeKind, CreateChange};
use margrave_api::client::{DeploymentQuery, PageQuery};
use margrave_core::model::{ClientState, DeviceKey};
use margrave_core::time::Clock as _;
use serde_json::json;

/// Many accepted clients with one device each, straight into the store.
async fn fleet(server: &TestServer, count: usize) {
    let state = server.state();
    for number in 0..count {
        let name = format!("d{number:05}");
        let body = Kind { labels: json!({ "site": "nord", "fleet": "yes" }), ..Kind::default() }.capabilities(&name);
        let capabilities = DeviceCapabilities::read(body.as_bytes(), UnknownTypes::Refuse).unwrap().document;
        let now = server.clock.now();
        let client = client_id(&name);
        let (_, head) = state.store.client_create(&actor(), &client, ClientState::Accepted, None, now).await.unwrap();
        state.heads.put(head);
        let key = DeviceKey { client, device: name.parse().unwrap() };
        state.store.device_put(&key, &capabilities, body.as_bytes(), now).await.unwrap();
    }
}

#[tokio::test]
async fn twelve_hundred_devices_are_published_and_a_single_one_is_not_held_back() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    fleet(&server, 1200).await;
    press(&server, "single", &Kind::default()).await;
    let large = api.create_deployments(&create("1.0.0", selected("fleet=yes"))).await.unwrap();
    assert_eq!(large.total, 1200);
    let single = api.create_deployments(&create("1.0.0", on(&["single"]))).await.unwrap();
    finished(&api, &single).await;
    let before = api.change(&large.id).await.unwrap();
    assert!(!before.finished, "the large one was still going on when the single one was done: {before:?}");
    let done = finished(&api, &large).await;
    assert_eq!((done.published, done.skipped.len()), (1200, 0));

    let mut page = PageQuery { limit: Some(500), after: None };
    let query = DeploymentQuery { change: Some(large.id.clone()), ..DeploymentQuery::default() };
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let answer = api.deployments(&query, &page).await.unwrap();
        seen.extend(answer.items.into_iter().map(|deployment| deployment.client));
        match answer.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 1200);
    let head = server.state().heads.get(&client_id("d00777")).unwrap();
    assert_eq!(head.version, 2, "devices are told from memory");
    assert!(api.verify_audit().await.unwrap().intact);
}

#[tokio::test]
async fn a_change_under_way_goes_on_after_a_restart() {
    let server = TestServer::start().await;
    upload(&api(&server), "1.0.0").await;
    fleet(&server, 450).await;
    let change = api(&server).create_deployments(&create("1.0.0", selected("fleet=yes"))).await.unwrap();
    let server = server.restart().await;
    let done = finished(&api(&server), &change).await;
    assert_eq!((done.total, done.published, done.skipped.len()), (450, 450, 0));
    let versions: Vec<u64> = (0..450)
        .map(|number| server.state().heads.get(&client_id(&format!("d{number:05}"))).unwrap().version)
        .collect();
    assert!(versions.iter().all(|version| *version == 2), "each device was published once");
}

#[tokio::test]
async fn targets_that_have_moved_on_are_skipped_with_the_reason() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "press", &Kind::default()).await;
    finished(&api, &api.create_deployments(&create("1.0.0", on(&["press"]))).await.unwrap()).await;
    let answers = indexmap::IndexMap::from([("interval".to_owned(), json!(30))]);
    let scope = || on(&["press"]);
    let first = CreateChange { kind: ChangeKind::Reconfigure, version: None, answers, ..create("1.0.0", scope()) };
    let second = CreateChange { answers: indexmap::IndexMap::from([("interval".to_owned(), json!(40))]), ..first.clone() };
    let (one, other) = (api.create_change(&first).await.unwrap(), api.create_change(&second).await.unwrap());
    let (one, other) = (finished(&api, &one).await, finished(&api, &other).await);
    assert!(one.skipped.is_empty());
    // Either the second saw the first's revision, or it says why it did nothing.
    let interval = eventually("the deployment has settled", async || {
        all_deployments(&api).await.first().map(|deployment| deployment.values["interval"].clone())
    })
    .await;
    match other.skipped.as_slice() {
        [] => assert_eq!(interval, json!(40)),
        [skipped] => {
            assert!(skipped.reason.contains("revision"), "{}", skipped.reason);
            assert_eq!(interval, json!(30));
        }
        more => panic!("{more:?}"),
    }
}

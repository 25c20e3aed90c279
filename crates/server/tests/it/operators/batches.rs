//! A rollout for many devices: bounded batches that do not block others and continue after a restart.

use super::packages::upload;
use super::{Kind, all_deployments, api, create, finished, on, press, selected};
use crate::support::fleet::status;
use crate::support::{TestServer, actor, client_id, eventually};
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::ids::DeploymentId;
use margrave_api::client::{DeploymentQuery, PageQuery};
use margrave_api::rollouts::{CreateRollout, RolloutKind};
use margrave_core::model::{ClientState, DeviceKey, Rollout, RolloutTarget};
use margrave_core::time::Clock as _;
use margrave_server::app::publisher::{self, Parts};
use margrave_server::manifest_cache::ManifestCache;
use serde_json::json;
use std::sync::Arc;
use uuid::Uuid;

/// Many accepted clients with one device each, written directly into the store.
pub(super) async fn fleet(server: &TestServer, count: usize) {
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
async fn twelve_hundred_devices_are_published() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    fleet(&server, 1200).await;
    let large = api.create_deployments(&create("1.0.0", selected("fleet=yes"))).await.unwrap();
    assert_eq!(large.total, 1200);
    let done = finished(&api, &large).await;
    assert_eq!((done.published, done.skipped.len()), (1200, 0));

    let mut page = PageQuery { limit: Some(500), after: None };
    let query = DeploymentQuery { rollout: Some(large.id.clone()), ..DeploymentQuery::default() };
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
    assert_eq!(head.version, 2, "devices are served from memory");
    assert!(api.verify_audit().await.unwrap().intact);
}

#[tokio::test]
async fn a_large_rollout_does_not_delay_a_small_one() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    fleet(&server, 600).await;
    let names: Vec<String> = (0..600).map(|number| format!("d{number:05}")).collect();
    let (large, single) = (intent(&server, &names[..599]), intent(&server, &names[599..]));
    // Both are recorded before the publisher is woken for either.
    server.state().store.rollout_create(&large).await.unwrap();
    server.state().store.rollout_create(&single).await.unwrap();
    server.state().publisher.wake();
    let done = eventually("both are published", async || {
        let (large, single) =
            (api.rollout(&large.id.to_string()).await.unwrap(), api.rollout(&single.id.to_string()).await.unwrap());
        (large.finished && single.finished).then_some((large, single))
    })
    .await;
    assert_eq!((done.0.published, done.1.published), (599, 1));
    // The order of the audit is the order of the transactions.
    let of = async |rollout: &Rollout| {
        let target = rollout.targets.last().unwrap().deployment;
        let subject = format!("deployment/{target}");
        api.audit(Some(&subject), &PageQuery::default()).await.unwrap().items[0].seq
    };
    let (last_of_large, only_of_single) = (of(&large).await, of(&single).await);
    assert!(only_of_single < last_of_large, "{only_of_single} came after {last_of_large}");
}

#[tokio::test]
async fn accepts_durable_reports_during_publishing() {
    // Invariant 5: what was answered with 200 is in the store.
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    fleet(&server, 600).await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    let path = format!("/api/v1/deployments/{id}/status");
    let rollout = api.create_deployments(&create("1.0.0", selected("fleet=yes"))).await.unwrap();
    let publishing = async || !api.rollout(&rollout.id).await.unwrap().finished;
    let mut rounds = 0;
    while publishing().await {
        // One after the other, so that each is the last report until the next.
        for state in ["installing", "installed"] {
            let answer = press.post(&path, status(id, 2, state).to_string()).await;
            assert_eq!(answer.status(), 200);
            let view = server.state().store.deployment_get(id).await.unwrap().unwrap();
            assert_eq!(view.reported.unwrap().state.as_str(), state);
        }
        rounds += 1;
    }
    assert!(rounds > 0, "the rollout was published before any device could report");
    let done = finished(&api, &rollout).await;
    assert_eq!((done.published, done.skipped.len()), (600, 0));

    let server = server.restart().await;
    let history = server.state().store.status_history(id).await.unwrap();
    assert_eq!(history.len(), (2 * rounds).min(margrave_store::STATUS_HISTORY_MAX as usize), "each is stored once");
    assert_eq!(history[0].state.as_str(), "installed");
}

/// A rollout as the API would record it.
fn intent(server: &TestServer, names: &[String]) -> Rollout {
    let targets = names.iter().map(|name| RolloutTarget {
        deployment: DeploymentId(Uuid::new_v4()),
        client: client_id(name),
        target: name.parse().unwrap(),
        profile: "small".to_owned(),
        expected_revision: None,
    });
    Rollout {
        id: Uuid::new_v4(),
        kind: margrave_core::model::RolloutKind::Create,
        application: super::packages::ID.parse().unwrap(),
        version: "1.0.0".to_owned(),
        values: indexmap::IndexMap::from([("password".to_owned(), json!("s3cret-value"))]),
        sensitive: true,
        policy: margrave_core::policy::PolicyUpdate::default(),
        targets: targets.collect(),
        done: 0,
        skipped: Vec::new(),
        actor: actor(),
        created_at: server.clock.now(),
        finished_at: None,
        rollback_to: None,
    }
}

#[tokio::test]
async fn an_unfinished_rollout_continues_after_a_restart() {
    let server = TestServer::start().await;
    upload(&api(&server), "1.0.0").await;
    fleet(&server, 450).await;
    let rollout = api(&server).create_deployments(&create("1.0.0", selected("fleet=yes"))).await.unwrap();
    let server = server.restart().await;
    let done = finished(&api(&server), &rollout).await;
    assert_eq!((done.total, done.published, done.skipped.len()), (450, 450, 0));
    let versions: Vec<u64> = (0..450)
        .map(|number| server.state().heads.get(&client_id(&format!("d{number:05}"))).unwrap().version)
        .collect();
    assert!(versions.iter().all(|version| *version == 2), "each device was published once");
}

#[tokio::test]
async fn skips_changed_targets_with_the_reason() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "press", &Kind::default()).await;
    finished(&api, &api.create_deployments(&create("1.0.0", on(&["press"]))).await.unwrap()).await;
    let answers = indexmap::IndexMap::from([("interval".to_owned(), json!(30))]);
    let scope = || on(&["press"]);
    let first =
        CreateRollout { kind: RolloutKind::Reconfigure, version: None, values: answers, ..create("1.0.0", scope()) };
    let second =
        CreateRollout { values: indexmap::IndexMap::from([("interval".to_owned(), json!(40))]), ..first.clone() };
    let (one, other) = (api.create_rollout(&first).await.unwrap(), api.create_rollout(&second).await.unwrap());
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
            assert_eq!(skipped.kind, "revision-changed");
            assert!(skipped.reason.contains("revision"), "{}", skipped.reason);
            assert_eq!(interval, json!(30));
        }
        more => panic!("{more:?}"),
    }
}

#[tokio::test]
async fn a_batch_with_a_lost_commit_response_still_reaches_the_devices() {
    let server = TestServer::start().await;
    upload(&api(&server), "1.0.0").await;
    fleet(&server, 2).await;
    let rollout = intent(&server, &["d00000".to_owned(), "d00001".to_owned()]);
    let state = server.state();
    state.store.rollout_create(&rollout).await.unwrap();
    let parts = |heads| Parts {
        store: state.store.clone(),
        heads,
        clock: server.clock.clone(),
        descriptions: state.descriptions.clone(),
        metrics: state.metrics.clone(),
    };
    // The first attempt commits, and its heads are lost with the response.
    let ours = Arc::new(ManifestCache::load(&state.store).await.unwrap());
    publisher::step(&parts(Arc::new(ManifestCache::default())), &rollout, 100).await.unwrap();
    assert_eq!(ours.get(&client_id("d00001")).unwrap().version, 1);
    assert_eq!(publisher::step(&parts(Arc::clone(&ours)), &rollout, 100).await.unwrap(), None);
    assert_eq!(ours.get(&client_id("d00001")).unwrap().version, 2);
}

#[tokio::test]
async fn a_refresh_loads_changes_of_another_server() {
    let server = TestServer::start().await;
    fleet(&server, 2).await;
    let state = server.state();
    let (id, now) = (client_id("d00001"), server.clock.now());
    state.store.client_set_state(&actor(), &id, ClientState::Decommissioned, None, now).await.unwrap();
    assert_eq!(state.heads.get(&id).unwrap().state, ClientState::Accepted);
    state.heads.refresh(&state.store).await.unwrap();
    assert_eq!(state.heads.get(&id).unwrap().state, ClientState::Decommissioned);
}

//! The server's disk is full: clear answers, nothing corrupted, devices still served, and on it goes when there is room.

use indexmap::IndexMap;
use margo::status::{DeploymentStatus, State};
use margrave_api::access::CreateToken;
use margrave_api::changes::{ChangeKind, CreateChange, Scope};
use margrave_api::client::{ApiClient, ClientError};
use margrave_api::devices::{DeviceRef, UpdateDevice};
use margrave_core::model::Actor;
use margrave_core::time::Timestamp;
use margrave_sim::chaos::agents::Agent;
use margrave_sim::chaos::device::DeviceClient;
use margrave_sim::chaos::ledger::Ledger;
use margrave_sim::chaos::site::Site;
use margrave_sim::chaos::small_disk::SmallDisk;
use margrave_sim::chaos::{verdict, wait};
use margrave_store::{Store, StoreError, StoreOptions};
use std::time::Duration;

const SMALL_MEBIBYTES: u32 = 16;

/// Writes that may still fit into pages the database has already taken before one is refused.
const WRITES_MAX: u64 = 5_000;

/// Without the right to mount one the test fails: it must not pass for work it has not done.
fn small_disk(folder: &std::path::Path) -> SmallDisk {
    SmallDisk::mount(&folder.join("small"), SMALL_MEBIBYTES).unwrap_or_else(|error| {
        panic!(
            "cannot mount a small tmpfs here ({error:#}); run this test as root:\n  \
             sudo -E cargo test -p margrave-sim --test disk_full"
        )
    })
}

fn create(device: &str, application: &str) -> CreateChange {
    let device = DeviceRef { client: device.to_owned(), device: device.to_owned() };
    CreateChange {
        kind: ChangeKind::Create,
        application: application.to_owned(),
        version: Some("1.0.0".to_owned()),
        profile: None,
        scope: Scope { devices: Some(vec![device]), ..Scope::default() },
        answers: IndexMap::new(),
        policy: margrave_api::policies::PolicyWish::default(),
        skip_unfit: false,
        reason: None,
    }
}

/// A refusal for want of room says so, and is not taken for anything else.
fn is_refused<T>(outcome: Result<T, ClientError>, what: &str) -> Option<T> {
    match outcome {
        Ok(done) => Some(done),
        Err(ClientError::Problem(problem)) => {
            assert!(matches!(problem.status, 503 | 507), "{what}: {problem:?}");
            assert!(problem.detail.contains("room") || problem.title.contains("room"), "{what}: {problem:?}");
            None
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Writes until a write is refused; what was acknowledged before goes into the ledger.
async fn write_until_refused(api: &ApiClient, client: &str, ledger: &mut Ledger) {
    for number in 0..WRITES_MAX {
        let (label, value) = (format!("full.example/n{}", number % 20), number.to_string());
        let labels = IndexMap::from([(label.clone(), Some(value.clone()))]);
        let done = api.update_device(client, client, &UpdateDevice { labels, reason: None }, None).await;
        if is_refused(done, "a label").is_none() {
            return;
        }
        ledger.labels.retain(|(_, _, other, _)| *other != label);
        ledger.labels.push((client.to_owned(), client.to_owned(), label, value));
    }
    panic!("{WRITES_MAX} writes fitted onto a full disk");
}

#[tokio::test]
async fn the_store_refuses_every_write_alike_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let disk = small_disk(folder.path());
    let url = format!("sqlite://{}", disk.path().join("store.db").display());
    let store = Store::open(&StoreOptions { url, readers: 1 }).await.unwrap();
    let actor = Actor { name: "test".to_owned(), reason: None, request_id: None };
    let put = async |number: u64| {
        store.group_put(&actor, &format!("group-{number}"), "a=b", None, None, Timestamp(number as i64)).await
    };
    disk.fill().unwrap();
    let mut kept = 0;
    while kept < WRITES_MAX && put(kept).await.is_ok() {
        kept += 1;
    }
    // Not only the first refusal names the reason: a connection that met a full disk once must not be lost for good.
    for _ in 0..5 {
        let refused = put(kept).await.unwrap_err();
        assert!(matches!(refused, StoreError::Full(_)), "{refused:?}");
    }
    disk.make_room().unwrap();
    put(kept).await.unwrap();
    assert_eq!(store.groups_page(None, u32::MAX >> 1).await.unwrap().len() as u64, kept + 1);
    assert!(store.audit_verify().await.unwrap().is_ok());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_and_survived() {
    let folder = tempfile::tempdir().unwrap();
    let disk = small_disk(folder.path());
    let mut site = Site::new(folder.path(), &disk.path().join("data")).unwrap();
    site.start().await.unwrap();
    for application in ["alpha", "beta"] {
        site.import(application, "1.0.0", 1).unwrap();
    }
    let identity = site.mint("dev-1").unwrap();
    let mut agent = Agent::new(folder.path(), "dev-1", &identity, 0).unwrap();
    agent.daemon.start().unwrap();
    let device = DeviceClient::open(&identity).unwrap();
    let api = site.api().unwrap();
    let mut ledger = Ledger::default();
    wait::until("the device reporting itself", Duration::from_mins(1), async || {
        Ok(api.device("dev-1", "dev-1").await.map(|_| ()).map_err(|error| error.to_string()))
    })
    .await
    .unwrap();
    let change = api.create_deployments(&create("dev-1", "alpha")).await.unwrap();
    ledger.changes.push((change.id, None));
    verdict::converged(&api).await.unwrap();

    disk.fill().unwrap();
    write_until_refused(&api, "dev-1", &mut ledger).await;
    let token = CreateToken { name: "no-room".to_owned(), valid_for_seconds: None, reason: None };
    if let Some(token) = is_refused(api.create_token(&token).await, "a token") {
        ledger.tokens.push((token.id, token.secret.unwrap()));
    }
    if let Some(change) = is_refused(api.create_deployments(&create("dev-1", "beta")).await, "a deployment") {
        ledger.changes.push((change.id, None));
    }

    // Polls are answered from memory and by reading: 200 without an ETag, 304 with it.
    let fetched = device.manifest(None).await.unwrap().expect("a manifest");
    assert!(device.manifest(fetched.etag.as_deref()).await.unwrap().is_none(), "304 for what is held");
    let status = DeploymentStatus {
        deployment_id: fetched.manifest.deployments[0].deployment_id,
        device_id: None,
        adopted_manifest_version: fetched.manifest.manifest_version,
        state: State::Installed,
        error: None,
        components: Vec::new(),
    };
    let code = device.post_status(&status).await.unwrap();
    assert!(matches!(code, 200 | 503 | 507), "{code} for a status on a full disk");
    site.server.must_run().unwrap();

    disk.make_room().unwrap();
    let beta = wait::until("writing when there is room", Duration::from_mins(1), async || {
        Ok(api.create_deployments(&create("dev-1", "beta")).await.map_err(|error| error.to_string()))
    });
    if ledger.changes.len() == 1 {
        ledger.changes.push((beta.await.unwrap().id, None));
    }
    verdict::converged(&api).await.unwrap();
    verdict::promises(&site, &api, &ledger).await.unwrap();
    verdict::no_orphans(&api, std::slice::from_ref(&agent)).await.unwrap();

    // What is on the disk is whole: a server killed now finds all of it again.
    site.server.kill().unwrap();
    site.start().await.unwrap();
    verdict::promises(&site, &api, &ledger).await.unwrap();
    verdict::converged(&api).await.unwrap();
    agent.daemon.must_run().unwrap();
}

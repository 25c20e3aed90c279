//! A full disk on the server: clear errors, no corruption, devices still served, and recovery when space is free again.

use indexmap::IndexMap;
use margo::status::{DeploymentStatus, State};
use margrave_api::access::CreateToken;
use margrave_api::client::{ApiClient, ClientError};
use margrave_api::devices::{DeviceRef, UpdateDevice};
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
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

/// Most writes that may still fit into already allocated database pages before one is rejected.
const WRITES_MAX: u64 = 5_000;

/// Fails without permission to mount, so that the test cannot pass without testing anything.
fn small_disk(folder: &std::path::Path) -> SmallDisk {
    SmallDisk::mount(&folder.join("small"), SMALL_MEBIBYTES).unwrap_or_else(|error| {
        panic!(
            "cannot mount a small tmpfs here ({error:#}); run this test as root:\n  \
             sudo -E cargo test -p margrave-sim --test disk_full"
        )
    })
}

fn create(device: &str, application: &str) -> CreateRollout {
    let device = DeviceRef { client: device.to_owned(), device: device.to_owned() };
    CreateRollout {
        kind: RolloutKind::Create,
        application: application.to_owned(),
        version: Some("1.0.0".to_owned()),
        profile: None,
        scope: Scope { devices: Some(vec![device]), ..Scope::default() },
        values: IndexMap::new(),
        policy: margrave_api::policies::PolicyPatch::default(),
        skip_incompatible: false,
        comment: None,
    }
}

/// Checks that a rejection because of a full disk says so.
fn is_refused<T>(outcome: Result<T, ClientError>, what: &str) -> Option<T> {
    match outcome {
        Ok(done) => Some(done),
        Err(ClientError::Problem(problem)) => {
            assert!(matches!(problem.status, 503 | 507), "{what}: {problem:?}");
            assert!(
                problem.detail.contains("disk space") || problem.title.contains("disk space"),
                "{what}: {problem:?}"
            );
            None
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Writes until a write is rejected; acknowledged writes go into the ledger.
async fn write_until_refused(api: &ApiClient, client: &str, ledger: &mut Ledger) {
    for number in 0..WRITES_MAX {
        let (label, value) = (format!("full.example/n{}", number % 20), number.to_string());
        let labels = IndexMap::from([(label.clone(), Some(value.clone()))]);
        let done = api.update_device(client, client, &UpdateDevice { labels, comment: None }, None).await;
        if is_refused(done, "a label").is_none() {
            return;
        }
        ledger.labels.retain(|(_, _, other, _)| *other != label);
        ledger.labels.push((client.to_owned(), client.to_owned(), label, value));
    }
    panic!("{WRITES_MAX} writes succeeded on a full disk");
}

#[tokio::test]
async fn the_store_rejects_writes_on_a_full_disk_and_recovers_with_free_space() {
    let folder = tempfile::tempdir().unwrap();
    let disk = small_disk(folder.path());
    let url = format!("sqlite://{}", disk.path().join("store.db").display());
    let store = Store::open(&StoreOptions { url, readers: 1 }).await.unwrap();
    let actor = Actor { name: "test".to_owned(), comment: None, request_id: None };
    let put = async |number: u64| {
        store.group_put(&actor, &format!("group-{number}"), "a=b", None, None, Timestamp(number as i64)).await
    };
    disk.fill().unwrap();
    let mut kept = 0;
    while kept < WRITES_MAX && put(kept).await.is_ok() {
        kept += 1;
    }
    // Every rejection names the reason: a connection must survive a full disk.
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
async fn reports_a_full_disk_and_recovers() {
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
    wait::until("the first report of the device", Duration::from_mins(1), async || {
        Ok(api.device("dev-1", "dev-1").await.map(|_| ()).map_err(|error| error.to_string()))
    })
    .await
    .unwrap();
    let rollout = api.create_deployments(&create("dev-1", "alpha")).await.unwrap();
    ledger.rollouts.push((rollout.id, None));
    verdict::converged(&api).await.unwrap();

    disk.fill().unwrap();
    write_until_refused(&api, "dev-1", &mut ledger).await;
    let token = CreateToken { name: "no-room".to_owned(), valid_for_seconds: None, comment: None };
    if let Some(token) = is_refused(api.create_token(&token).await, "a token") {
        ledger.tokens.push((token.id, token.secret.unwrap()));
    }
    if let Some(rollout) = is_refused(api.create_deployments(&create("dev-1", "beta")).await, "a deployment") {
        ledger.rollouts.push((rollout.id, None));
    }

    // Polls need only memory and reads: 200 without an ETag, 304 with it.
    let fetched = device.manifest(None).await.unwrap().expect("a manifest");
    assert!(device.manifest(fetched.etag.as_deref()).await.unwrap().is_none(), "304 for the current ETag");
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
    let beta = wait::until("a successful write with free space", Duration::from_mins(1), async || {
        Ok(api.create_deployments(&create("dev-1", "beta")).await.map_err(|error| error.to_string()))
    });
    if ledger.rollouts.len() == 1 {
        ledger.rollouts.push((beta.await.unwrap().id, None));
    }
    verdict::converged(&api).await.unwrap();
    verdict::promises(&site, &api, &ledger).await.unwrap();
    verdict::no_orphans(&api, std::slice::from_ref(&agent)).await.unwrap();

    // The data on disk is complete: a server killed now recovers all of it.
    site.server.kill().unwrap();
    site.start().await.unwrap();
    verdict::promises(&site, &api, &ledger).await.unwrap();
    verdict::converged(&api).await.unwrap();
    agent.daemon.must_run().unwrap();
}

//! One rollout to two thousand devices with the server killed in the middle: it resumes and completes exactly once.

use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::{ClientId, DeviceId};
use margrave_api::client::PageQuery;
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use margrave_core::model::{Actor, ClientState, DeviceKey};
use margrave_core::time::Timestamp;
use margrave_sim::chaos::site::Site;
use margrave_sim::chaos::verdict::all_deployments;
use margrave_sim::chaos::wait;
use margrave_sim::simulation::capabilities;
use margrave_store::{Store, StoreOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const DEVICES: usize = 2_000;

/// Kills that must hit the unfinished rollout, or the test proves nothing.
const KILLS_IN_PROGRESS: u32 = 3;

/// More kills mean that the rollout makes no progress between them.
const KILLS_MAX: u32 = 60;

/// Writes clients and devices to the store, as after two thousand enrollments.
async fn prepare(data: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(data)?;
    let url = format!("sqlite://{}", data.join("margrave.db").display());
    let store = Store::open(&StoreOptions { url, readers: 1 }).await?;
    let actor = Actor { name: "test".to_owned(), comment: None, request_id: None };
    let at = Timestamp(1_780_000_000_000_000);
    for index in 0..DEVICES {
        let client: ClientId = format!("dev-{index:04}").parse()?;
        store.client_create(&actor, &client, ClientState::Accepted, None, at).await?;
        let device: DeviceId = client.as_str().parse()?;
        let body = capabilities(device.as_str(), Some("compose")).to_string().into_bytes();
        let read = DeviceCapabilities::read(&body, UnknownTypes::Refuse).map_err(|all| anyhow::anyhow!("{all}"))?;
        store.device_put(&DeviceKey { client, device }, &read.document, &body, at).await?;
    }
    store.close().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_to_two_thousand_devices_survives_kills_and_completes_once() {
    // Use a file system in memory if there is one: kill -9 loses no data there either, and the setup is faster.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let data = folder.path().join("data");
    prepare(&data).await.unwrap();
    let mut site = Site::new(folder.path(), &data).unwrap();
    site.start().await.unwrap();
    site.import("alpha", "1.0.0", 1).unwrap();
    let api = site.api().unwrap();
    let body = CreateRollout {
        kind: RolloutKind::Create,
        application: "alpha".to_owned(),
        version: Some("1.0.0".to_owned()),
        profile: None,
        scope: Scope { selector: Some(String::new()), ..Scope::default() },
        values: indexmap::IndexMap::new(),
        policy: margrave_api::policies::PolicyPatch::default(),
        skip_incompatible: false,
        comment: Some("everywhere".to_owned()),
    };
    let rollout = api.create_deployments(&body).await.unwrap();
    assert_eq!(rollout.total, DEVICES as u64);

    let mut dice = StdRng::seed_from_u64(7);
    let (mut in_progress, mut published) = (0, 0);
    for _ in 0..KILLS_MAX {
        // The moment of the kill is the injected fault.
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..300))).await;
        site.server.kill().unwrap();
        site.start().await.unwrap();
        let now = api.rollout(&rollout.id).await.unwrap();
        assert!(now.published >= published, "progress went back from {published} to {}", now.published);
        published = now.published;
        if now.finished {
            break;
        }
        in_progress += 1;
    }
    assert!(in_progress >= KILLS_IN_PROGRESS, "only {in_progress} kills hit the unfinished rollout");
    let done = wait::until("completion of the rollout", Duration::from_mins(2), async || {
        let rollout = api.rollout(&rollout.id).await?;
        Ok(if rollout.finished { Ok(rollout) } else { Err(format!("{} of {}", rollout.published, rollout.total)) })
    })
    .await
    .unwrap();
    assert_eq!((done.published, done.skipped.len()), (DEVICES as u64, 0));

    // Exactly once: one deployment at its first revision per device, one manifest after the empty one per client.
    let deployments = all_deployments(&api).await.unwrap();
    assert_eq!(deployments.len(), DEVICES);
    assert!(deployments.iter().all(|one| one.revision == 1 && one.target_version == 2 && one.rollout == rollout.id));
    let devices: BTreeSet<_> = deployments.iter().map(|one| (&one.client, &one.device)).collect();
    assert_eq!(devices.len(), DEVICES);
    let mut page = PageQuery { limit: Some(1000), after: None };
    let mut clients = 0;
    loop {
        let found = api.clients(&page).await.unwrap();
        assert!(found.items.iter().all(|client| client.manifest_version == 2));
        clients += found.items.len();
        let Some(next) = found.next else { break };
        page.after = Some(next);
    }
    assert_eq!(clients, DEVICES);
    assert!(api.verify_audit().await.unwrap().intact);
}

//! What one change costs per device, by the number of devices: the real publisher on a real SQLite file.

use super::{NOW, parts, sqlite};
use crate::simulation::{capabilities, description};
use anyhow::Context as _;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::digest::Digest;
use margo::{ClientId, DeploymentId, DeviceId, DeviceTarget};
use margrave_core::model::{Actor, ApplicationVersion, Change, ChangeKind, ChangeTarget, ClientState, DeviceKey};
use margrave_server::app::publisher;
use margrave_store::Store;
use std::time::Instant;
use uuid::Uuid;

const SIZES: [usize; 3] = [100, 1_000, 5_000];

/// As many devices per transaction as the server takes.
const BATCH_TARGETS: usize = 100;

fn actor() -> Actor {
    Actor { name: "bench".to_owned(), reason: None, request_id: None }
}

/// Microseconds per device, by size.
pub async fn run() -> anyhow::Result<Vec<(usize, f64)>> {
    let mut points = Vec::new();
    for size in SIZES {
        points.push((size, device_micros(size).await?));
    }
    Ok(points)
}

async fn device_micros(size: usize) -> anyhow::Result<f64> {
    let folder = super::scratch()?;
    let store = Store::open(&sqlite(&folder.path().join("bench.db"))).await?;
    add_application(&store).await?;
    let targets = add_devices(&store, size).await?;
    let parts = parts(&store).await?;
    let change = Change {
        id: Uuid::from_u128(1),
        kind: ChangeKind::Create,
        application: "alpha".parse()?,
        version: "1.0.0".to_owned(),
        answers: indexmap::IndexMap::new(),
        targets,
        done: 0,
        skipped: Vec::new(),
        actor: actor(),
        created_at: NOW,
        finished_at: None,
    };
    let begun = Instant::now();
    store.change_create(&change).await?;
    let mut open = Some(change);
    while let Some(change) = open {
        open = publisher::step(&parts, &change, BATCH_TARGETS).await?;
    }
    let took = begun.elapsed();
    let done = store.change_get(Uuid::from_u128(1)).await?.context("the change was just made")?;
    anyhow::ensure!(done.finished_at.is_some() && done.skipped.is_empty(), "the change was not carried out");
    store.close().await;
    Ok(took.as_secs_f64() * 1e6 / size as f64)
}

pub(super) async fn add_application(store: &Store) -> anyhow::Result<()> {
    let bytes = description("alpha", "1.0.0", 2).into_bytes();
    let digest = Digest::of(&bytes);
    let version = ApplicationVersion {
        application: "alpha".parse()?,
        version: "1.0.0".to_owned(),
        name: "alpha".to_owned(),
        tagline: None,
        vendor: "bench".to_owned(),
        package_digest: digest.clone(),
        description_digest: digest.clone(),
        source: "bench".to_owned(),
        resources: Vec::new(),
        warnings: Vec::new(),
        imported_at: NOW,
    };
    store.version_add(&actor(), &version, &[(digest, bytes)]).await?;
    Ok(())
}

/// One client with one device each, and what a change over all of them would name.
pub(super) async fn add_devices(store: &Store, size: usize) -> anyhow::Result<Vec<ChangeTarget>> {
    let mut targets = Vec::with_capacity(size);
    for index in 0..size {
        let client: ClientId = format!("dev-{index:05}").parse()?;
        store.client_create(&actor(), &client, ClientState::Accepted, None, NOW).await?;
        let device: DeviceId = client.as_str().parse()?;
        let body = capabilities(device.as_str(), Some("compose")).to_string().into_bytes();
        let read = DeviceCapabilities::read(&body, UnknownTypes::Refuse).map_err(|error| anyhow::anyhow!("{error}"))?;
        let key = DeviceKey { client: client.clone(), device: device.clone() };
        store.device_put(&key, &read.document, &body, NOW).await?;
        targets.push(ChangeTarget {
            deployment: DeploymentId(Uuid::from_u128(index as u128 + 1)),
            client,
            target: DeviceTarget::from(&device),
            profile: "alpha-compose".to_owned(),
            expected_revision: None,
        });
    }
    Ok(targets)
}

//! Creates a fleet through the store and the real publisher: one device at a time, many deployments at a time.

use super::{NOW, parts};
use crate::simulation::{capabilities, description};
use anyhow::Context as _;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::digest::Digest;
use margo::{ClientId, DeploymentId, DeviceId, DeviceTarget};
use margrave_core::model::{Actor, ApplicationVersion, ClientState, DeviceKey, Rollout, RolloutKind, RolloutTarget};
use margrave_server::app::publisher;
use margrave_server::config::Config;
use margrave_store::{BATCH_TARGETS_MAX, Store, StoreOptions};
use std::path::Path;
use uuid::Uuid;

/// Clients per rollout, so that target lists do not grow with the fleet.
const CLIENTS_PER_ROLLOUT: usize = 1_000;

/// Deployment type of the fleet that gets deployments.
pub const FLEET: &str = "compose";
/// Deployment type of the probes: a selector for the fleet does not match them.
pub const PROBES: &str = "helm";

/// Clients, their deployment type, and the number of deployments per client.
pub struct Fleet<'f> {
    pub prefix: &'f str,
    pub size: usize,
    pub hosts: &'f str,
    pub deployments: usize,
    /// Number of sites of the devices, `site-0` and so on; with 0, devices have no site.
    pub sites: usize,
}

fn actor() -> Actor {
    Actor { name: "bench".to_owned(), comment: None, request_id: None }
}

/// The store a server with its state in `folder/data` will open.
pub async fn open(folder: &Path) -> anyhow::Result<Store> {
    let data_dir = folder.join("data");
    std::fs::create_dir_all(&data_dir)?;
    let config = Config { data_dir, ..Config::default() };
    Ok(Store::open(&StoreOptions { url: config.store_url(), readers: 2 }).await?)
}

/// Bytes of the database on disk, the log included.
pub fn disk_bytes(folder: &Path) -> u64 {
    let bytes = |name: &str| std::fs::metadata(folder.join("data").join(name)).map_or(0, |data| data.len());
    bytes("margrave.db") + bytes("margrave.db-wal")
}

/// Creates a fleet for a server: in memory if possible, because disk speed does not matter here, and then copied to its
/// place.
pub async fn prepare(folder: &Path, fleets: &[Fleet<'_>]) -> anyhow::Result<()> {
    let memory = Path::new("/dev/shm");
    let work = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir_in(folder)? };
    let store = open(work.path()).await?;
    for name in ["alpha", "beta"] {
        add_version(&store, name, "1.0.0").await?;
    }
    for fleet in fleets {
        fill(&store, fleet).await?;
    }
    store.close().await;
    let data = folder.join("data");
    std::fs::create_dir_all(&data)?;
    std::fs::copy(work.path().join("data/margrave.db"), data.join("margrave.db")).context("copy the store")?;
    Ok(())
}

pub async fn add_version(store: &Store, name: &str, version: &str) -> anyhow::Result<()> {
    let bytes = description(name, version, 2).into_bytes();
    let digest = Digest::of(&bytes);
    let version = ApplicationVersion {
        application: name.parse()?,
        version: version.to_owned(),
        name: name.to_owned(),
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

/// Creates clients with one device each and the requested number of `beta` deployments. All deployments of a client are
/// published together, so that its manifest is built once.
pub async fn fill(store: &Store, fleet: &Fleet<'_>) -> anyhow::Result<()> {
    let parts = parts(store).await?;
    let mut targets = Vec::new();
    for index in 0..fleet.size {
        let client: ClientId = format!("{}-{index}", fleet.prefix).parse()?;
        store.client_create(&actor(), &client, ClientState::Accepted, None, NOW).await?;
        let device: DeviceId = client.as_str().parse()?;
        let mut body = capabilities(device.as_str(), Some(fleet.hosts));
        if let Some(site) = index.checked_rem(fleet.sites) {
            body["labels"]["site"] = format!("site-{site}").into();
        }
        let body = body.to_string().into_bytes();
        let read = DeviceCapabilities::read(&body, UnknownTypes::Refuse).map_err(|error| anyhow::anyhow!("{error}"))?;
        let key = DeviceKey { client: client.clone(), device: device.clone() };
        store.device_put(&key, &read.document, &body, NOW).await?;
        targets.extend((0..fleet.deployments).map(|number| RolloutTarget {
            deployment: deployment(client.as_str(), number),
            client: client.clone(),
            target: DeviceTarget::from(&device),
            profile: format!("beta-{}", fleet.hosts),
            expected_revision: None,
        }));
        if (index + 1) % CLIENTS_PER_ROLLOUT == 0 || index + 1 == fleet.size {
            deploy(&parts, std::mem::take(&mut targets), fleet.deployments).await?;
        }
        if (index + 1) % 10_000 == 0 {
            super::print_progress(&format!("  {} devices created", index + 1));
        }
    }
    Ok(())
}

/// The deployment of this number on a client.
pub fn deployment(client: &str, number: usize) -> DeploymentId {
    let digest = Digest::of(format!("{client} {number}").as_bytes()).to_string();
    let digits = digest.rsplit(':').next().and_then(|hex| u128::from_str_radix(hex.get(..32)?, 16).ok());
    DeploymentId(Uuid::from_u128(digits.expect("a digest has more than 32 digits")))
}

async fn deploy(parts: &publisher::Parts, targets: Vec<RolloutTarget>, per_client: usize) -> anyhow::Result<()> {
    if targets.is_empty() {
        return Ok(());
    }
    let first = targets[0].deployment.to_string();
    let mut rollout = Rollout {
        id: Uuid::parse_str(&first)?,
        kind: RolloutKind::Create,
        application: "beta".parse()?,
        version: "1.0.0".to_owned(),
        values: indexmap::IndexMap::new(),
        sensitive: false,
        policy: margrave_core::policy::PolicyUpdate::default(),
        targets,
        done: 0,
        skipped: Vec::new(),
        actor: actor(),
        created_at: NOW,
        finished_at: None,
        rollback_to: None,
    };
    parts.store.rollout_create(&rollout).await?;
    // Always whole clients: the publisher skips devices that already have the application.
    let batch = BATCH_TARGETS_MAX / per_client * per_client;
    while let Some(done) = publisher::step(parts, &rollout, batch).await? {
        rollout.done = done;
    }
    let done = parts.store.rollout_get(rollout.id).await?.context("the rollout was just created")?;
    anyhow::ensure!(
        done.finished_at.is_some() && done.skipped.is_empty(),
        "the fleet was not created: {:?}",
        done.skipped
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Fleet, PROBES, deployment, disk_bytes, open, prepare};
    use crate::bench::NOW;
    use margrave_store::DeploymentFilter;

    #[tokio::test]
    async fn every_client_of_a_fleet_has_its_deployments_in_one_manifest() {
        let folder = tempfile::tempdir().expect("a folder");
        let fleet = Fleet { prefix: "dev", size: 3, hosts: PROBES, deployments: 5, sites: 2 };
        prepare(folder.path(), &[fleet]).await.expect("a fleet");
        assert!(disk_bytes(folder.path()) > 0);
        let store = open(folder.path()).await.expect("the store");
        let client = "dev-2".parse().expect("an id");
        let head = store.client_with_head(&client).await.expect("read").expect("there").1;
        assert_eq!(head.version, 2);
        let filter = DeploymentFilter { client: Some(client), ..DeploymentFilter::default() };
        let found = store.deployments_page(&filter, NOW, None, 10).await.expect("read");
        assert_eq!(found.len(), 5);
        assert!(found.iter().any(|view| view.deployment.id == deployment("dev-2", 4)));
        assert_eq!(store.label_values("site", 10).await.expect("read"), ["site-0", "site-1"]);
        store.close().await;
    }
}

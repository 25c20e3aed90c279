//! Status reports one per transaction against many per transaction: what group commit is worth.

use super::{NOW, parts, publish, sqlite};
use margo::status::{ComponentStatus, DeploymentStatus, State};
use margrave_core::model::{Actor, Change, ChangeKind, ChangeTarget};
use margrave_server::app::publisher;
use margrave_store::{StatusWrite, Store};
use std::time::Instant;
use uuid::Uuid;

const DEPLOYMENTS: usize = 256;

/// Reports per transaction, as the server groups them at most.
const BATCH: usize = 256;

const ROUNDS_SINGLE: usize = 2;
const ROUNDS_BATCHED: usize = 20;

/// Reports per second.
pub struct Rates {
    pub single: f64,
    pub batched: f64,
}

pub async fn run() -> anyhow::Result<Rates> {
    let folder = super::scratch()?;
    let store = Store::open(&sqlite(&folder.path().join("bench.db"))).await?;
    publish::add_application(&store).await?;
    let targets = publish::add_devices(&store, DEPLOYMENTS).await?;
    deploy(&store, &targets).await?;
    let single = rate(&store, &targets, 1, ROUNDS_SINGLE).await?;
    let batched = rate(&store, &targets, BATCH, ROUNDS_BATCHED).await?;
    store.close().await;
    Ok(Rates { single, batched })
}

async fn deploy(store: &Store, targets: &[ChangeTarget]) -> anyhow::Result<()> {
    let parts = parts(store).await?;
    let change = Change {
        id: Uuid::from_u128(1),
        kind: ChangeKind::Create,
        application: "alpha".parse()?,
        version: "1.0.0".to_owned(),
        answers: indexmap::IndexMap::new(),
        targets: targets.to_vec(),
        done: 0,
        skipped: Vec::new(),
        actor: Actor { name: "bench".to_owned(), reason: None, request_id: None },
        created_at: NOW,
        finished_at: None,
    };
    store.change_create(&change).await?;
    let mut open = Some(change);
    while let Some(change) = open {
        open = publisher::step(&parts, &change, BATCH).await?;
    }
    Ok(())
}

async fn rate(store: &Store, targets: &[ChangeTarget], batch: usize, rounds: usize) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut written = 0;
    for round in 0..rounds {
        let reports: Vec<_> = targets.iter().map(|target| report(target, round)).collect();
        for group in reports.chunks(batch) {
            written += store.statuses_put(group).await?.len();
        }
    }
    Ok(written as f64 / begun.elapsed().as_secs_f64())
}

/// Alternates, so that no report merely repeats the one before.
fn report(target: &ChangeTarget, round: usize) -> StatusWrite {
    let state = if round.is_multiple_of(2) { State::Installing } else { State::Installed };
    let component = |index: usize| ComponentStatus { name: format!("alpha-compose-{index}"), state, error: None };
    let status = DeploymentStatus {
        deployment_id: target.deployment,
        device_id: None,
        adopted_manifest_version: 2,
        state,
        error: None,
        components: vec![component(0), component(1)],
    };
    let body = status.to_json();
    StatusWrite { client: target.client.clone(), status, body, received_at: NOW }
}

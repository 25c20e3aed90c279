//! The outcomes of a rollout are kept when later rollouts take over.

use crate::fixtures::{accept, apply, at, deployment, put, remove, report, target};
use crate::harness::Database;
use margo::status::State;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::{RolloutKind, RolloutTarget};
use margrave_store::Store;
use std::collections::BTreeMap;
use uuid::Uuid;

async fn past(store: &Store, rollout: Uuid) -> BTreeMap<DeploymentState, u64> {
    store.rollout_get(rollout).await.unwrap().unwrap().past
}

pub(crate) async fn keeps_the_outcomes_of_a_rollout(db: Database) {
    let clients = [accept(&db.store, 1).await, accept(&db.store, 2).await, accept(&db.store, 3).await];
    let targets = |revision: Option<i64>| -> Vec<RolloutTarget> {
        (1..).zip(&clients).map(|(number, client)| target(client, deployment(number), revision)).collect()
    };
    let create: Vec<_> = targets(None).into_iter().map(|target| put(target, "one")).collect();
    let (first, _) = apply(&db.store, RolloutKind::Create, &create, at(1)).await;
    let reports = [
        report(&clients[0], deployment(1), State::Installed, 2, at(2)),
        report(&clients[1], deployment(2), State::Failed, 2, at(2)),
    ];
    db.store.statuses_put(&reports).await.unwrap();
    assert_eq!(past(&db.store, first).await, BTreeMap::new(), "no rollout took over yet");

    // One, then the others: counts add up.
    let mut rollout: Vec<_> = targets(Some(1)).into_iter().map(|target| put(target, "two")).collect();
    let alone = rollout.remove(0);
    let (second, _) = apply(&db.store, RolloutKind::Reconfigure, &[alone], at(3)).await;
    assert_eq!(past(&db.store, first).await, BTreeMap::from([(DeploymentState::UpToDate, 1)]));
    let (third, _) = apply(&db.store, RolloutKind::Reconfigure, &rollout, at(4)).await;
    let all = [(DeploymentState::UpToDate, 1), (DeploymentState::Failed, 1), (DeploymentState::Pending, 1)];
    assert_eq!(past(&db.store, first).await, BTreeMap::from(all));
    assert_eq!(past(&db.store, third).await, BTreeMap::new());

    // It never reported the second rollout.
    let (removal, _) =
        apply(&db.store, RolloutKind::Remove, &[remove(target(&clients[0], deployment(1), Some(2)))], at(5)).await;
    assert_eq!(past(&db.store, second).await, BTreeMap::from([(DeploymentState::Outdated, 1)]));
    assert_eq!(past(&db.store, removal).await, BTreeMap::new());
    let listed = db.store.rollouts_page(None, 10).await.unwrap();
    assert_eq!(listed.iter().find(|rollout| rollout.id == first).unwrap().past, BTreeMap::from(all));
}

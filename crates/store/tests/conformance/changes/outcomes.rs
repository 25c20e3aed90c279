//! What a change had come to stays known when later ones take over.

use crate::fixtures::{accept, apply, at, deployment, put, remove, report, target};
use crate::harness::Database;
use margo::status::State;
use margrave_core::convergence::Convergence;
use margrave_core::model::{ChangeKind, ChangeTarget};
use margrave_store::Store;
use std::collections::BTreeMap;
use uuid::Uuid;

async fn past(store: &Store, change: Uuid) -> BTreeMap<Convergence, u64> {
    store.change_get(change).await.unwrap().unwrap().past
}

pub(crate) async fn keeps_what_became_of_a_change(db: Database) {
    let clients = [accept(&db.store, 1).await, accept(&db.store, 2).await, accept(&db.store, 3).await];
    let targets = |revision: Option<i64>| -> Vec<ChangeTarget> {
        (1..).zip(&clients).map(|(number, client)| target(client, deployment(number), revision)).collect()
    };
    let create: Vec<_> = targets(None).into_iter().map(|target| put(target, "one")).collect();
    let (first, _) = apply(&db.store, ChangeKind::Create, &create, at(1)).await;
    let reports = [
        report(&clients[0], deployment(1), State::Installed, 2, at(2)),
        report(&clients[1], deployment(2), State::Failed, 2, at(2)),
    ];
    db.store.statuses_put(&reports).await.unwrap();
    assert_eq!(past(&db.store, first).await, BTreeMap::new(), "nobody took over yet");

    // One, then the others: counts add up.
    let mut change: Vec<_> = targets(Some(1)).into_iter().map(|target| put(target, "two")).collect();
    let alone = change.remove(0);
    let (second, _) = apply(&db.store, ChangeKind::Reconfigure, &[alone], at(3)).await;
    assert_eq!(past(&db.store, first).await, BTreeMap::from([(Convergence::Converged, 1)]));
    let (third, _) = apply(&db.store, ChangeKind::Reconfigure, &change, at(4)).await;
    let all = [(Convergence::Converged, 1), (Convergence::Failed, 1), (Convergence::Waiting, 1)];
    assert_eq!(past(&db.store, first).await, BTreeMap::from(all));
    assert_eq!(past(&db.store, third).await, BTreeMap::new());

    // It never reported the second change.
    let (removal, _) = apply(&db.store, ChangeKind::Remove, &[remove(target(&clients[0], deployment(1), Some(2)))], at(5)).await;
    assert_eq!(past(&db.store, second).await, BTreeMap::from([(Convergence::OlderRevision, 1)]));
    assert_eq!(past(&db.store, removal).await, BTreeMap::new());
    let listed = db.store.changes_page(None, 10).await.unwrap();
    assert_eq!(listed.iter().find(|change| change.id == first).unwrap().past, BTreeMap::from(all));
}

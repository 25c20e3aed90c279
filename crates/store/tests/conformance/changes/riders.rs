//! Status reports in the transaction of a batch: both are committed, or neither.

use crate::fixtures::{T0, accept, at, change, deploy, deployment, put, report, target};
use crate::harness::Database;
use margo::ids::{ClientId, DeploymentId};
use margo::status::State;
use margrave_core::model::{Change, ChangeKind};
use margrave_store::{BatchItem, StatusOutcome, Store};

/// A client with one deployment, and a change that is to give it a second one.
async fn under_way(store: &Store) -> (ClientId, DeploymentId, Change, [BatchItem; 1]) {
    let client = accept(store, 1).await;
    let running = deploy(store, &client, 1, "hello").await;
    let items = [put(target(&client, deployment(2), None), "a")];
    let intent = change(ChangeKind::Create, vec![items[0].target.clone()], T0);
    store.change_create(&intent).await.unwrap();
    (client, running, intent, items)
}

async fn newest_event(store: &Store) -> i64 {
    store.event_bounds().await.unwrap().newest
}

async fn last_word(store: &Store, id: DeploymentId) -> Option<State> {
    store.deployment_get(id).await.unwrap().unwrap().reported.map(|reported| reported.state)
}

/// Nothing of the batch is there, and nothing of the report about `running`.
async fn assert_nothing_happened(store: &Store, intent: &Change, client: &ClientId, running: DeploymentId) {
    assert_eq!(store.change_get(intent.id).await.unwrap().unwrap().done, 0);
    assert_eq!(store.deployment_get(deployment(2)).await.unwrap(), None);
    assert_eq!(store.manifest(client).await.unwrap().unwrap().0, 2);
    assert_eq!(last_word(store, running).await, None);
}

pub(crate) async fn takes_reports_along_in_a_batch(mut db: Database) {
    let (client, running, intent, items) = under_way(&db.store).await;
    let (commits, mark) = (db.store.commits(), newest_event(&db.store).await);
    let reports = [
        report(&client, running, State::Installing, 2, at(1)),
        report(&client, deployment(9), State::Installed, 2, at(1)),
        report(&client, running, State::Installed, 2, at(2)),
    ];
    let applied = db.store.change_apply_with(intent.id, 0, &items, at(3), || &reports).await.unwrap();
    assert_eq!(applied.riders, [StatusOutcome::Kept, StatusOutcome::UnknownDeployment, StatusOutcome::Kept]);
    assert_eq!((applied.heads.len(), applied.heads[0].version), (1, 3));
    assert_eq!(db.store.commits(), commits + 1, "one transaction for both");
    // Two of the reports are news, one deployment is created, one change is finished.
    assert_eq!(newest_event(&db.store).await, mark + 4);
    assert_eq!(*db.store.events_newest().borrow(), mark + 4);

    db.reopen().await;
    assert_eq!(last_word(&db.store, running).await, Some(State::Installed));
    assert_eq!(db.store.status_history(running).await.unwrap().len(), 2);
    assert_eq!(db.store.manifest(&client).await.unwrap().unwrap().0, 3);
    assert!(db.store.change_get(intent.id).await.unwrap().unwrap().finished_at.is_some());
    assert!(db.store.audit_verify().await.unwrap().is_ok());
}

pub(crate) async fn leaves_nothing_of_a_batch_whose_riders_fail(db: Database) {
    let (client, running, intent, items) = under_way(&db.store).await;
    let mark = newest_event(&db.store).await;
    let reports = [report(&client, running, State::Installed, 2, at(1))];
    db.tamper("ALTER TABLE status_history RENAME TO elsewhere").await;
    db.store.change_apply_with(intent.id, 0, &items, at(2), || &reports).await.unwrap_err();
    assert_nothing_happened(&db.store, &intent, &client, running).await;
    assert_eq!(newest_event(&db.store).await, mark);
    // Without them it goes on, and they can be written once the reason is gone.
    assert_eq!(db.store.change_apply(intent.id, 0, &items, at(3)).await.unwrap()[0].version, 3);
    db.tamper("ALTER TABLE elsewhere RENAME TO status_history").await;
    assert_eq!(db.store.statuses_put(&reports).await.unwrap(), [StatusOutcome::Kept]);
    assert_eq!(last_word(&db.store, running).await, Some(State::Installed));
}

pub(crate) async fn leaves_nothing_of_riders_whose_batch_fails(db: Database) {
    let (client, running, intent, items) = under_way(&db.store).await;
    let reports = [report(&client, running, State::Installed, 2, at(1))];
    // The audit is written after the reports.
    db.tamper("ALTER TABLE audit RENAME TO elsewhere").await;
    let mut asked = false;
    let riders = || {
        asked = true;
        &reports[..]
    };
    db.store.change_apply_with(intent.id, 0, &items, at(2), riders).await.unwrap_err();
    assert!(asked);
    db.tamper("ALTER TABLE elsewhere RENAME TO audit").await;
    assert_nothing_happened(&db.store, &intent, &client, running).await;
    let applied = db.store.change_apply_with(intent.id, 0, &items, at(3), || &reports).await.unwrap();
    assert_eq!((applied.heads[0].version, applied.riders), (3, vec![StatusOutcome::Kept]));
}

pub(crate) async fn takes_nobody_along_when_there_is_nothing_to_do(db: Database) {
    let (_, _, intent, items) = under_way(&db.store).await;
    let nobody = || panic!("nothing is written, so nobody is asked");
    let applied = db.store.change_apply_with(intent.id, 1, &items, at(1), nobody).await.unwrap();
    assert_eq!((applied.heads.len(), applied.riders.len()), (0, 0));
}

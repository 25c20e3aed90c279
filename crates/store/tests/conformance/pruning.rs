//! Histories stay within their bounds and nothing still needed goes.

use crate::fixtures::{T0, accept, actor, apply, at, deploy, put, remove, report, target};
use crate::harness::Database;
use margo::status::State;
use margrave_core::convergence::Convergence;
use margrave_core::model::ChangeKind;
use margrave_core::time::Timestamp;
use margrave_store::{EnrolmentUse, Retention, StatusOutcome, Store};
use sqlx::Row as _;
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: u64 = 60 * 60;

fn retention() -> Retention {
    Retention {
        revisions_per_deployment: 2,
        statuses_per_deployment: 3,
        replaced_artifacts: Duration::from_mins(1),
        finished_changes: Duration::from_mins(2),
        removed_deployments: Duration::from_mins(3),
        idempotency_keys: Duration::from_mins(1),
        events: 1_000,
    }
}

async fn prune_all(store: &Store, now: Timestamp) -> u64 {
    let mut gone = 0;
    loop {
        match store.prune(&retention(), now).await.unwrap() {
            0 => return gone,
            some => gone += some,
        }
    }
}

async fn count(db: &Database, statement: &'static str) -> i64 {
    sqlx::query(statement).fetch_one(&mut db.connection().await).await.unwrap().get(0)
}

pub(crate) async fn a_removal_stays_done_when_what_it_removed_is_forgotten(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "0").await;
    let (removal, _) = apply(&db.store, ChangeKind::Remove, &[remove(target(&client, id, Some(1)))], at(1)).await;
    db.store.statuses_put(&[report(&client, id, State::Removed, 3, at(2))]).await.unwrap();
    let retention = Retention { finished_changes: Duration::from_hours(1), ..retention() };
    while db.store.prune(&retention, at(300)).await.unwrap() > 0 {}
    assert_eq!(db.store.deployment_get(id).await.unwrap(), None);
    let past = db.store.change_get(removal).await.unwrap().unwrap().past;
    assert_eq!(past, BTreeMap::from([(Convergence::Converged, 1)]));
}

pub(crate) async fn bounds_every_history(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "0").await;
    for revision in 1..5 {
        let item = put(target(&client, id, Some(revision)), &revision.to_string());
        apply(&db.store, ChangeKind::Reconfigure, &[item], at(1)).await;
    }
    for adopted in 2..8 {
        db.store.statuses_put(&[report(&client, id, State::Installed, adopted, at(1))]).await.unwrap();
    }
    db.store.enrolment_create(&actor(), "secret", &crate::fixtures::client(2), at(10), T0).await.unwrap();
    assert_eq!(db.store.deployment_revisions(id).await.unwrap().len(), 5);

    assert!(prune_all(&db.store, at(2)).await > 0);
    let revisions: Vec<_> = db.store.deployment_revisions(id).await.unwrap().iter().map(|r| r.revision).collect();
    assert_eq!(revisions, [5, 4]);
    let history: Vec<_> = db.store.status_history(id).await.unwrap().iter().map(|r| r.adopted_version).collect();
    assert_eq!(history, [7, 6, 5]);
    assert_eq!(db.store.changes_page(None, 100).await.unwrap().len(), 5, "changes are kept for longer");

    prune_all(&db.store, at(200)).await;
    assert_eq!(db.store.changes_page(None, 100).await.unwrap().len(), 0);
    let used = db.store.enrolment_use("secret", "key", Duration::ZERO, at(200)).await.unwrap();
    assert_eq!(used, EnrolmentUse::Unknown);
    assert_eq!(count(&db, "SELECT COUNT(*) FROM artifacts WHERE retired_at IS NOT NULL").await, 0);
    assert!(db.store.deployment_get(id).await.unwrap().is_some());

    apply(&db.store, ChangeKind::Remove, &[remove(target(&client, id, Some(5)))], at(300)).await;
    prune_all(&db.store, at(479)).await;
    assert!(db.store.deployment_get(id).await.unwrap().is_some());
    assert_eq!(count(&db, "SELECT COUNT(*) FROM change_outcomes").await, 0, "their changes are gone");
    prune_all(&db.store, at(480)).await;
    assert_eq!(db.store.deployment_get(id).await.unwrap(), None);
    assert_eq!(db.store.status_history(id).await.unwrap(), []);
    let late = db.store.statuses_put(&[report(&client, id, State::Removed, 9, at(480))]).await.unwrap();
    assert_eq!(late, [StatusOutcome::UnknownDeployment]);

    prune_all(&db.store, at(480 + HOUR)).await;
    assert_eq!(count(&db, "SELECT COUNT(*) FROM blobs").await, 0, "nobody refers to any of them");
    assert_eq!(count(&db, "SELECT COUNT(*) FROM blob_candidates").await, 0);
    assert_eq!(prune_all(&db.store, at(480 + 2 * HOUR)).await, 0);
}

pub(crate) async fn never_collects_what_is_referred_to(db: Database) {
    // The same bytes for two clients' deployments would differ by id; the same deployment going back and forth would not.
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "a").await;
    for (revision, greeting) in [(1, "b"), (2, "a"), (3, "b"), (4, "a")] {
        apply(&db.store, ChangeKind::Reconfigure, &[put(target(&client, id, Some(revision)), greeting)], at(revision as u64)).await;
    }
    prune_all(&db.store, at(3 * HOUR)).await;
    let (_, _, body) = db.store.manifest(&client).await.unwrap().unwrap();
    let manifest = margo::manifest::StateManifest::read(&body).unwrap().document;
    let digest = &manifest.deployments[0].digest;
    assert!(db.store.deployment_yaml(&client, id, digest).await.unwrap().is_some());
    assert!(db.store.bundle(&client, &manifest.bundle.unwrap().digest).await.unwrap().is_some());
    for revision in [4, 5] {
        assert!(db.store.deployment_document(id, revision).await.unwrap().is_some(), "revision {revision}");
    }
    // Going back to bytes that lost a reference once works as before.
    apply(&db.store, ChangeKind::Reconfigure, &[put(target(&client, id, Some(5)), "b")], at(3 * HOUR)).await;
    prune_all(&db.store, at(5 * HOUR)).await;
    assert!(db.store.deployment_document(id, 6).await.unwrap().is_some());
    assert_eq!(count(&db, "SELECT COUNT(*) FROM blobs").await, 3, "two documents and the present bundle");
}

pub(crate) async fn keeps_the_audit(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "a").await;
    apply(&db.store, ChangeKind::Remove, &[remove(target(&client, id, Some(1)))], at(1)).await;
    prune_all(&db.store, at(9 * HOUR)).await;
    assert_eq!(db.store.audit_verify().await.unwrap(), Ok(5));
    assert!(db.store.client_get(&client).await.unwrap().is_some());
}

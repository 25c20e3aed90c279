//! Histories stay within their limits and nothing still needed is deleted.

use crate::fixtures::{T0, accept, actor, apply, at, deploy, put, remove, report, target};
use crate::harness::Database;
use margo::status::State;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::RolloutKind;
use margrave_core::time::Timestamp;
use margrave_store::{EnrollmentUse, Retention, StatusOutcome, Store};
use sqlx::Row as _;
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: u64 = 60 * 60;

fn retention() -> Retention {
    Retention {
        revisions_per_deployment: 2,
        statuses_per_deployment: 3,
        replaced_artifacts: Duration::from_mins(1),
        finished_rollouts: Duration::from_mins(2),
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

pub(crate) async fn a_removal_stays_completed_after_pruning(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "0").await;
    let (removal, _) = apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(1)))], at(1)).await;
    db.store.statuses_put(&[report(&client, id, State::Removed, 3, at(2))]).await.unwrap();
    let retention = Retention { finished_rollouts: Duration::from_hours(1), ..retention() };
    while db.store.prune(&retention, at(300)).await.unwrap() > 0 {}
    assert_eq!(db.store.deployment_get(id).await.unwrap(), None);
    let past = db.store.rollout_get(removal).await.unwrap().unwrap().past;
    assert_eq!(past, BTreeMap::from([(DeploymentState::Removed, 1)]));
}

pub(crate) async fn bounds_every_history(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "0").await;
    for revision in 1..5 {
        let item = put(target(&client, id, Some(revision)), &revision.to_string());
        apply(&db.store, RolloutKind::Reconfigure, &[item], at(1)).await;
    }
    for adopted in 2..8 {
        db.store.statuses_put(&[report(&client, id, State::Installed, adopted, at(1))]).await.unwrap();
    }
    db.store.enrollment_create(&actor(), "secret", &crate::fixtures::client(2), at(10), T0).await.unwrap();
    assert_eq!(db.store.deployment_revisions(id).await.unwrap().len(), 5);

    assert!(prune_all(&db.store, at(2)).await > 0);
    let revisions: Vec<_> = db.store.deployment_revisions(id).await.unwrap().iter().map(|r| r.revision).collect();
    assert_eq!(revisions, [5, 4]);
    let history: Vec<_> = db.store.status_history(id).await.unwrap().iter().map(|r| r.adopted_version).collect();
    assert_eq!(history, [7, 6, 5]);
    assert_eq!(db.store.rollouts_page(None, 100).await.unwrap().len(), 5, "rollouts are kept for longer");

    prune_all(&db.store, at(200)).await;
    assert_eq!(db.store.rollouts_page(None, 100).await.unwrap().len(), 0);
    let used = db.store.enrollment_use("secret", "key", Duration::ZERO, at(200)).await.unwrap();
    assert_eq!(used, EnrollmentUse::Unknown);
    assert_eq!(count(&db, "SELECT COUNT(*) FROM artifacts WHERE replaced_at IS NOT NULL").await, 0);
    assert!(db.store.deployment_get(id).await.unwrap().is_some());

    apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(5)))], at(300)).await;
    prune_all(&db.store, at(479)).await;
    assert!(db.store.deployment_get(id).await.unwrap().is_some());
    assert_eq!(count(&db, "SELECT COUNT(*) FROM rollout_outcomes").await, 0, "their changes are gone");
    prune_all(&db.store, at(480)).await;
    assert_eq!(db.store.deployment_get(id).await.unwrap(), None);
    assert_eq!(db.store.status_history(id).await.unwrap(), []);
    let late = db.store.statuses_put(&[report(&client, id, State::Removed, 9, at(480))]).await.unwrap();
    assert_eq!(late, [StatusOutcome::UnknownDeployment]);

    prune_all(&db.store, at(480 + HOUR)).await;
    assert_eq!(count(&db, "SELECT COUNT(*) FROM blobs").await, 0, "none of them is referenced");
    assert_eq!(count(&db, "SELECT COUNT(*) FROM blob_candidates").await, 0);
    assert_eq!(prune_all(&db.store, at(480 + 2 * HOUR)).await, 0);
}

pub(crate) async fn never_deletes_referenced_blobs(db: Database) {
    // The same bytes for two clients' deployments would differ by id; the same deployment alternating between them
    // would not.
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "a").await;
    for (revision, greeting) in [(1, "b"), (2, "a"), (3, "b"), (4, "a")] {
        apply(
            &db.store,
            RolloutKind::Reconfigure,
            &[put(target(&client, id, Some(revision)), greeting)],
            at(revision as u64),
        )
        .await;
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
    // Using bytes again that lost a reference once works as before.
    apply(&db.store, RolloutKind::Reconfigure, &[put(target(&client, id, Some(5)), "b")], at(3 * HOUR)).await;
    prune_all(&db.store, at(5 * HOUR)).await;
    assert!(db.store.deployment_document(id, 6).await.unwrap().is_some());
    assert_eq!(count(&db, "SELECT COUNT(*) FROM blobs").await, 3, "two documents and the present bundle");
}

pub(crate) async fn keeps_the_audit(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "a").await;
    apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(1)))], at(1)).await;
    prune_all(&db.store, at(9 * HOUR)).await;
    assert_eq!(db.store.audit_verify().await.unwrap(), Ok(5));
    assert!(db.store.client_get(&client).await.unwrap().is_some());
}

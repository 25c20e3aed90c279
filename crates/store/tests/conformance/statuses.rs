//! Status reports: the newer version wins, reports of other clients are rejected.

use crate::fixtures::{T0, accept, apply, at, deploy, deployment, remove, report, target};
use crate::harness::Database;
use crate::rollouts::manifest;
use margo::ids::DeploymentId;
use margo::status::State;
use margrave_core::deployment_state::{DeploymentState, state_of};
use margrave_core::model::{Failed, Reported, RolloutKind};
use margrave_core::publish::RAISE_MAX;
use margrave_store::{DeploymentFilter, Head, PublishAbove, STATUS_HISTORY_MAX, SeenAt, StatusOutcome, StatusWrite, Store};

async fn put(store: &Store, report: StatusWrite) -> StatusOutcome {
    store.statuses_put(&[report]).await.unwrap()[0]
}

async fn state_from_last_report(store: &Store, id: DeploymentId) -> Option<Reported> {
    store.deployment_get(id).await.unwrap().unwrap().reported
}

async fn word(store: &Store, id: DeploymentId) -> (State, u64) {
    let reported = state_from_last_report(store, id).await.unwrap();
    (reported.state, reported.adopted_version)
}

// ST-06
pub(crate) async fn keeps_a_failure_until_a_success(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    db.store.seen_write(&[SeenAt { client: client.clone(), at: at(1) }]).await.unwrap();
    let version = db.store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
    let seen = async || {
        let view = db.store.deployment_get(id).await.unwrap().unwrap();
        let judged = state_of(&view.deployment, view.reported.as_ref(), view.last_seen_at, T0);
        let filter =
            DeploymentFilter { deployment_state: Some(judged), with_absent: true, ..DeploymentFilter::default() };
        let found = db.store.deployments_page(&filter, T0, None, 10).await.unwrap();
        assert_eq!(found, std::slice::from_ref(&view), "found by its state");
        let in_progress = db.store.rollouts_in_progress(T0, 10).await.unwrap().contains(&view.deployment.rollout);
        (judged, in_progress, view.reported.and_then(|reported| reported.failed))
    };
    put(&db.store, report(&client, id, State::Installing, version, at(1))).await;
    assert_eq!(seen().await, (DeploymentState::Updating, true, None));
    let first = report(&client, id, State::Failed, version, at(2));
    put(&db.store, first.clone()).await;
    let failed = Failed { adopted_version: version, body: first.body, received_at: at(2), since: at(2), attempts: 1 };
    for state in [State::Failed, State::Pending, State::Installing] {
        assert_eq!(seen().await, (DeploymentState::Failed, false, Some(failed.clone())), "before {state:?}");
        if state != State::Failed {
            put(&db.store, report(&client, id, state, version, at(3))).await;
        }
    }
    assert_eq!(word(&db.store, id).await, (State::Installing, version), "its current state is known as well");
    put(&db.store, report(&client, id, State::Installing, 0, at(4))).await;
    assert_eq!(seen().await.0, DeploymentState::Failed, "a report without a manifest version clears nothing");
    put(&db.store, report(&client, id, State::Installed, version, at(5))).await;
    assert_eq!(seen().await, (DeploymentState::UpToDate, false, None));

    put(&db.store, report(&client, id, State::Failed, version, at(6))).await;
    apply(&db.store, RolloutKind::Reconfigure, &[crate::fixtures::put(target(&client, id, Some(1)), "two")], at(7))
        .await;
    let next = db.store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
    assert_eq!(seen().await.0, DeploymentState::Outdated, "another revision starts over");
    put(&db.store, report(&client, id, State::Installing, next, at(8))).await;
    assert_eq!(seen().await.0, DeploymentState::Updating);
    put(&db.store, report(&client, id, State::Failed, next, at(9))).await;
    db.store.manifest_republish(&crate::fixtures::actor(), &client, at(10)).await.unwrap().unwrap();
    assert_eq!(seen().await.0, DeploymentState::Pending, "an operator requested a retry");
    let next = db.store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
    put(&db.store, report(&client, id, State::Failed, next, at(11))).await;
    apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(2)))], at(12)).await;
    let next = db.store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
    put(&db.store, report(&client, id, State::Failed, next, at(13))).await;
    put(&db.store, report(&client, id, State::Removing, next, at(14))).await;
    assert_eq!(seen().await.0, DeploymentState::Failed);
    put(&db.store, report(&client, id, State::Removed, next, at(15))).await;
    assert_eq!(seen().await, (DeploymentState::Removed, false, None));
}

pub(crate) async fn counts_failed_attempts_since_the_last_success(db: Database) {
    use State::{Failed, Installed, Installing};
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let version = db.store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
    let failed = async |seconds: u64, states: &[State]| {
        for state in states {
            put(&db.store, report(&client, id, *state, version, at(seconds))).await;
        }
        let failed = state_from_last_report(&db.store, id).await.unwrap().failed;
        failed.map(|failed| (failed.since, failed.attempts, failed.received_at))
    };
    assert_eq!(failed(1, &[Installing]).await, None);
    assert_eq!(failed(2, &[Failed]).await, Some((at(2), 1, at(2))));
    assert_eq!(failed(3, &[Failed]).await, Some((at(2), 1, at(3))), "the same attempt, reported once more");
    assert_eq!(failed(4, &[Installing]).await, Some((at(2), 1, at(3))));
    assert_eq!(failed(5, &[Failed, Installing, Failed]).await, Some((at(2), 3, at(5))));
    assert_eq!(failed(6, &[Installing, Installed]).await, None);
    assert_eq!(failed(7, &[Failed]).await, Some((at(7), 1, at(7))), "a success starts over");
}

pub(crate) async fn counts_the_failures_of_each_revision_separately(db: Database) {
    use State::{Failed, Installing};
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let target_version = async || db.store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
    let failed = async |seconds: u64, version: u64| {
        put(&db.store, report(&client, id, Installing, version, at(seconds))).await;
        put(&db.store, report(&client, id, Failed, version, at(seconds))).await;
        let failed = state_from_last_report(&db.store, id).await.unwrap().failed.unwrap();
        let listed = db.store.failed_attempts(&[id]).await.unwrap().remove(&id).unwrap();
        assert_eq!((listed.since, listed.attempts), (failed.since, failed.attempts));
        (failed.since, failed.attempts)
    };
    let first = target_version().await;
    assert_eq!(failed(1, first).await, (at(1), 1));
    apply(&db.store, RolloutKind::Reconfigure, &[crate::fixtures::put(target(&client, id, Some(1)), "two")], at(2))
        .await;
    let second = target_version().await;
    assert!(second > first);
    assert_eq!(failed(3, first).await, (at(1), 2), "the device has not received the new revision yet");
    assert_eq!(failed(4, second).await, (at(4), 1), "a new revision starts over");
    assert_eq!(failed(5, second).await, (at(4), 2));
    db.store.manifest_republish(&crate::fixtures::actor(), &client, at(6)).await.unwrap().unwrap();
    let retried = target_version().await;
    assert!(retried > second);
    assert_eq!(failed(7, retried).await, (at(4), 3), "a retry of the same revision goes on");
}

// W-10
pub(crate) async fn keeps_the_last_report(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    assert_eq!(state_from_last_report(&db.store, id).await, None);
    let installing = report(&client, id, State::Installing, 2, at(1));
    assert_eq!(put(&db.store, installing.clone()).await, StatusOutcome::Kept);
    let reported = state_from_last_report(&db.store, id).await.unwrap();
    assert_eq!((reported.state, reported.adopted_version, reported.received_at), (State::Installing, 2, at(1)));
    assert_eq!(reported.body, installing.body, "kept as received");
    put(&db.store, report(&client, id, State::Installed, 2, at(2))).await;
    assert_eq!(word(&db.store, id).await, (State::Installed, 2));
    let history: Vec<_> =
        db.store.status_history(id).await.unwrap().into_iter().map(|r| (r.state, r.received_at)).collect();
    assert_eq!(history, [(State::Installed, at(2)), (State::Installing, at(1))]);
}

// ST-05
pub(crate) async fn lets_the_newer_version_win(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    put(&db.store, report(&client, id, State::Installed, 5, at(1))).await;
    assert_eq!(put(&db.store, report(&client, id, State::Failed, 4, at(2))).await, StatusOutcome::Kept);
    assert_eq!(word(&db.store, id).await, (State::Installed, 5), "an older report that arrives late changes nothing");
    put(&db.store, report(&client, id, State::Failed, 5, at(3))).await;
    assert_eq!(word(&db.store, id).await, (State::Failed, 5));
    assert_eq!(db.store.status_history(id).await.unwrap().len(), 2);
}

// W-12
pub(crate) async fn always_accepts_version_zero(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    put(&db.store, report(&client, id, State::Installed, 5, at(1))).await;
    put(&db.store, report(&client, id, State::Failed, 0, at(2))).await;
    assert_eq!(word(&db.store, id).await, (State::Failed, 0));
    put(&db.store, report(&client, id, State::Installed, 2, at(3))).await;
    assert_eq!(word(&db.store, id).await, (State::Installed, 2));
}

pub(crate) async fn rejects_versions_beyond_the_database(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    for version in [u64::MAX, 1 << 63] {
        let outcome = put(&db.store, report(&client, id, State::Installed, version, at(1))).await;
        assert_eq!(outcome, StatusOutcome::VersionOutOfRange);
    }
    assert_eq!(state_from_last_report(&db.store, id).await, None);
    let largest = (1 << 63) - 1;
    assert_eq!(put(&db.store, report(&client, id, State::Installed, largest, at(1))).await, StatusOutcome::Kept);
    assert_eq!(word(&db.store, id).await, (State::Installed, largest));
}

// GEN-09, ST-12, W-11
pub(crate) async fn distinguishes_unknown_from_removed_deployments(db: Database) {
    let (client, stranger) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let id = deploy(&db.store, &client, 1, "hello").await;
    assert_eq!(
        put(&db.store, report(&client, deployment(9), State::Installed, 2, T0)).await,
        StatusOutcome::UnknownDeployment
    );
    assert_eq!(put(&db.store, report(&stranger, id, State::Failed, 2, T0)).await, StatusOutcome::UnknownDeployment);
    assert_eq!(state_from_last_report(&db.store, id).await, None);
    apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(1)))], at(1)).await;
    assert_eq!(put(&db.store, report(&client, id, State::Removed, 3, at(2))).await, StatusOutcome::Kept);
    assert_eq!(word(&db.store, id).await, (State::Removed, 3));
}

pub(crate) async fn bounds_the_history(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let rounds = STATUS_HISTORY_MAX / 2 + 5;
    let reports: Vec<_> = (0..rounds)
        .flat_map(|round| [State::Installing, State::Failed].map(|state| (round, state)))
        .map(|(round, state)| report(&client, id, state, 2, at(u64::from(round))))
        .collect();
    db.store.statuses_put(&reports).await.unwrap();
    let history = db.store.status_history(id).await.unwrap();
    assert_eq!(history.len(), STATUS_HISTORY_MAX as usize);
    assert_eq!(history[0].received_at, at(u64::from(rounds) - 1));
    // A client that repeats itself updates the time, not the history.
    let again = vec![report(&client, id, State::Failed, 2, at(900)); 3];
    db.store.statuses_put(&again).await.unwrap();
    assert_eq!(state_from_last_report(&db.store, id).await.unwrap().received_at, at(900));
    assert_eq!(db.store.status_history(id).await.unwrap(), history);
}

pub(crate) async fn keeps_many_reports_in_order(db: Database) {
    use StatusOutcome::{Kept, UnknownDeployment, VersionOutOfRange};
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let mine = deploy(&db.store, &one, 2, "hello").await;
    let yours = deploy(&db.store, &two, 1, "hello").await;
    let outcomes = db
        .store
        .statuses_put(&[
            report(&one, mine, State::Pending, 2, at(1)),
            report(&two, mine, State::Failed, 2, at(1)),
            report(&two, yours, State::Installing, 2, at(1)),
            report(&one, mine, State::Installed, 2, at(1)),
            report(&two, yours, State::Installing, u64::MAX, at(1)),
        ])
        .await
        .unwrap();
    assert_eq!(outcomes, [Kept, UnknownDeployment, Kept, Kept, VersionOutOfRange]);
    assert_eq!(word(&db.store, mine).await, (State::Installed, 2));
    assert_eq!(word(&db.store, yours).await, (State::Installing, 2));
    assert_eq!(db.store.statuses_put(&[]).await.unwrap(), []);
}

fn published(outcome: PublishAbove) -> Head {
    match outcome {
        PublishAbove::Head(head) => head,
        other => panic!("{other:?}"),
    }
}

// Invariant 2, ST-06
pub(crate) async fn publishes_above_a_client_that_is_ahead(db: Database) {
    // As after a restore: the backup has version 2, the client has 50.
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let before = manifest(&db.store, &client).await;
    let head = published(db.store.manifest_publish_above(&client, id, 50, at(1)).await.unwrap());
    let after = manifest(&db.store, &client).await;
    assert!(head.version > 50 && head.version == after.manifest_version, "{head:?}");
    assert_eq!((&after.deployments, &after.bundle), (&before.deployments, &before.bundle), "the same content");
    let bundle = after.bundle.unwrap().digest;
    assert!(db.store.bundle(&client, &bundle).await.unwrap().is_some());
    put(&db.store, report(&client, id, State::Installed, 50, at(2))).await;
    let view = db.store.deployment_get(id).await.unwrap().unwrap();
    assert_eq!(view.deployment.target_version, head.version);
    let judged = state_of(&view.deployment, view.reported.as_ref(), Some(at(2)), T0);
    assert_eq!(judged, DeploymentState::Outdated, "its state before the restore is not the desired one");

    assert_eq!(
        db.store.manifest_publish_above(&client, id, 50, at(3)).await.unwrap(),
        PublishAbove::Head(head.clone()),
        "once is enough"
    );
    assert_eq!(
        db.store.manifest_publish_above(&client, id, (1 << 53) - 1, at(3)).await.unwrap(),
        PublishAbove::TooFarAhead { version: head.version },
        "nothing is above it"
    );
    let far = head.version + RAISE_MAX + 1;
    assert_eq!(
        db.store.manifest_publish_above(&client, id, far, at(3)).await.unwrap(),
        PublishAbove::TooFarAhead { version: head.version },
        "no restore explains it"
    );
    assert_eq!(
        db.store.manifest_publish_above(&client, deployment(77), head.version + 5, at(3)).await.unwrap(),
        PublishAbove::UnknownDeployment,
        "a report about no deployment of the client raises nothing"
    );
    assert_eq!(manifest(&db.store, &client).await.manifest_version, head.version);
    let records = db.store.audit_page(Some(&format!("client/{client}")), None, 10).await.unwrap();
    assert_eq!(records.iter().filter(|record| record.action == "manifest.raise").count(), 1);
    assert!(db.store.audit_verify().await.unwrap().is_ok());
}

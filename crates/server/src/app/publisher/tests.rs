use super::{Parts, apply};
use crate::catalog::Descriptions;
use crate::clock::SystemClock;
use crate::devices::{StatusQueue, Statuses};
use crate::heads::Heads;
use crate::telemetry::Metrics;
use futures_util::poll;
use margo::ids::DeploymentId;
use margo::parameters::Answers;
use margo::status::{DeploymentStatus, State};
use margrave_core::model::{Actor, Change, ChangeKind, ChangeTarget};
use margrave_core::policy::Wish;
use margrave_core::time::Timestamp;
use margrave_store::{BatchItem, BatchWrite, StatusOutcome, StatusWrite, Store, StoreOptions};
use sqlx::{Connection as _, Executor as _};
use std::pin::pin;
use std::sync::Arc;
use tempfile::TempDir;
use uuid::Uuid;

/// A row that belongs to no deployment: a report about it breaks the transaction it is written in.
const BROKEN: &str = "00000000-0000-4000-8000-000000000001";
const MAKE_BROKEN: &str = "PRAGMA foreign_keys = OFF; INSERT INTO statuses (deployment_id, client_id, reports)
                           VALUES ('00000000-0000-4000-8000-000000000001', 'press', 0)";

async fn parts() -> (Parts, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("test.db").display());
    let store = Store::open(&StoreOptions { url: url.clone(), readers: 1 }).await.unwrap();
    sqlx::SqliteConnection::connect(&url).await.unwrap().execute(MAKE_BROKEN).await.unwrap();
    let parts = Parts {
        store,
        heads: Arc::new(Heads::default()),
        clock: Arc::new(SystemClock),
        descriptions: Arc::new(Descriptions::default()),
        metrics: Arc::new(Metrics::default()),
    };
    (parts, folder)
}

/// A batch about to be written, and the queue whose reports may ride in it.
struct Scene {
    parts: Parts,
    queue: StatusQueue,
    change: Change,
    item: BatchItem,
    _folder: TempDir,
}

async fn scene() -> Scene {
    let (parts, folder) = parts().await;
    let Parts { store, heads, metrics, .. } = parts.clone();
    let queue = StatusQueue::start(Statuses { store, heads, metrics }).0;
    let (change, item) = change(&parts.store).await;
    Scene { parts, queue, change, item, _folder: folder }
}

/// A change for one target, which is skipped: a batch as good as any, without documents.
async fn change(store: &Store) -> (Change, BatchItem) {
    let target = ChangeTarget {
        deployment: DeploymentId(Uuid::new_v4()),
        client: "press".parse().unwrap(),
        target: "press".parse().unwrap(),
        profile: "small".to_owned(),
        expected_revision: None,
    };
    let change = Change {
        id: Uuid::new_v4(),
        kind: ChangeKind::Create,
        application: "greeter".parse().unwrap(),
        version: "1.0.0".to_owned(),
        answers: Answers::default(),
        policy: Wish::default(),
        targets: vec![target.clone()],
        done: 0,
        skipped: vec![],
        actor: Actor { name: "test".to_owned(), reason: None, request_id: None },
        created_at: Timestamp(1),
        finished_at: None,
    };
    store.change_create(&change).await.unwrap();
    (change, BatchItem { target, write: BatchWrite::Skip { reason: "a test".to_owned() } })
}

fn report(deployment_id: DeploymentId) -> StatusWrite {
    let (state, adopted_manifest_version) = (State::Installed, 1);
    let (device_id, error, components) = (None, None, vec![]);
    let status = DeploymentStatus { deployment_id, device_id, adopted_manifest_version, state, error, components };
    StatusWrite { client: "press".parse().unwrap(), body: status.to_json(), status, received_at: Timestamp(1) }
}

async fn done(parts: &Parts, change: &Change) -> usize {
    parts.store.change_get(change.id).await.unwrap().unwrap().done
}

#[tokio::test]
async fn reports_that_wait_while_a_batch_is_written_are_written_with_it() {
    let Scene { parts, queue, change, item, _folder } = scene().await;
    let ride = queue.riders().unwrap().ride().await;
    let mut answer = pin!(queue.write(report(DeploymentId(Uuid::new_v4()))));
    assert!(poll!(answer.as_mut()).is_pending());
    let commits = parts.store.commits();
    let applied = apply(&parts, ride, &change, &[item]).await.unwrap();
    assert_eq!(applied.riders, [StatusOutcome::UnknownDeployment]);
    assert_eq!(answer.await, Ok(StatusOutcome::UnknownDeployment));
    assert_eq!(parts.store.commits(), commits + 1);
    assert_eq!(done(&parts, &change).await, 1);
}

#[tokio::test]
async fn a_report_that_cannot_be_written_keeps_neither_the_batch_nor_other_reports() {
    let Scene { parts, queue, change, item, _folder } = scene().await;
    let ride = queue.riders().unwrap().ride().await;
    let mut good = pin!(queue.write(report(DeploymentId(Uuid::new_v4()))));
    let mut broken = pin!(queue.write(report(BROKEN.parse().unwrap())));
    assert!(poll!(good.as_mut()).is_pending());
    assert!(poll!(broken.as_mut()).is_pending());
    let applied = apply(&parts, ride, &change, &[item]).await.unwrap();
    assert_eq!(applied.riders, [], "they were left behind");
    assert_eq!(done(&parts, &change).await, 1);
    assert_eq!(good.await, Ok(StatusOutcome::UnknownDeployment));
    assert!(broken.await.is_err());
}

#[tokio::test]
async fn reports_are_answered_though_the_batch_fails() {
    let Scene { parts, queue, change, item, _folder } = scene().await;
    let ride = queue.riders().unwrap().ride().await;
    let mut answer = pin!(queue.write(report(DeploymentId(Uuid::new_v4()))));
    assert!(poll!(answer.as_mut()).is_pending());
    let unknown = Change { id: Uuid::new_v4(), ..change };
    apply(&parts, ride, &unknown, &[item]).await.unwrap_err();
    assert_eq!(answer.await, Ok(StatusOutcome::UnknownDeployment));
}

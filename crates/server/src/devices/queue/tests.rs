use super::{StatusQueue, Unwritten, Writer};
use crate::heads::Heads;
use crate::telemetry::Metrics;
use futures_util::poll;
use margo::ids::DeploymentId;
use margo::status::{DeploymentStatus, State};
use margrave_core::time::Timestamp;
use margrave_store::{StatusOutcome, StatusWrite, Store, StoreOptions};
use sqlx::Connection as _;
use std::pin::pin;
use std::sync::Arc;
use uuid::Uuid;

fn report() -> StatusWrite {
    let status = DeploymentStatus {
        deployment_id: DeploymentId(Uuid::new_v4()),
        device_id: None,
        adopted_manifest_version: 1,
        state: State::Installed,
        error: None,
        components: vec![],
    };
    let body = status.to_json();
    StatusWrite { client: "press".parse().unwrap(), status, body, received_at: Timestamp(1) }
}

fn writer(store: Store) -> Writer {
    Writer { store, heads: Arc::new(Heads::default()), metrics: Arc::new(Metrics::default()) }
}

#[tokio::test]
async fn reports_that_would_hold_too_much_memory_are_turned_away_until_others_are_written() {
    // Invariant 12
    let store = Store::open(&StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 }).await.unwrap();
    let (queue, task) = StatusQueue::start_bounded(writer(store), 100, 1000);
    let large = || StatusWrite { body: vec![b' '; 600], ..report() };
    let mut first = pin!(queue.write(large()));
    assert!(poll!(first.as_mut()).is_pending());
    assert_eq!(queue.write(large()).await, Err(Unwritten::Busy), "there is room for one only");
    assert_eq!(first.await, Ok(StatusOutcome::UnknownDeployment));
    let later = async {
        while queue.room.available_permits() < 1000 {
            tokio::task::yield_now().await;
        }
        queue.write(large()).await
    };
    assert_eq!(later.await, Ok(StatusOutcome::UnknownDeployment));
    task.abort();
}

#[tokio::test]
async fn a_full_queue_turns_reports_away_and_drains_when_the_store_is_free() {
    // RTY-01, invariant 12
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("test.db").display());
    let store = Store::open(&StoreOptions { url: url.clone(), readers: 1 }).await.unwrap();
    let mut other_writer = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other_writer).await.unwrap();

    let (queue, task) = StatusQueue::start_bounded(writer(store), 1, 1 << 20);
    // Each report is handed over when its future is polled first.
    let mut first = pin!(queue.write(report()));
    assert!(poll!(first.as_mut()).is_pending());
    // The writer takes it and waits for the store.
    while queue.sender.capacity() == 0 {
        tokio::task::yield_now().await;
    }
    let mut second = pin!(queue.write(report()));
    assert!(poll!(second.as_mut()).is_pending());
    assert_eq!(queue.write(report()).await, Err(Unwritten::Busy));

    sqlx::query("ROLLBACK").execute(&mut other_writer).await.unwrap();
    assert_eq!(first.await, Ok(StatusOutcome::UnknownDeployment));
    assert_eq!(second.await, Ok(StatusOutcome::UnknownDeployment));
    task.abort();
}

use super::{Capabilities, CapabilityQueue, StatusQueue, Statuses, WriteRefused};
use crate::manifest_cache::ManifestCache;
use crate::precedence::Precedence;
use crate::telemetry::Metrics;
use futures_util::poll;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::ids::DeploymentId;
use margo::status::{DeploymentStatus, State};
use margrave_core::model::{Actor, ClientState, DeviceKey};
use margrave_core::time::Timestamp;
use margrave_store::{DevicePut, DeviceWrite, StatusOutcome, StatusWrite, Store, StoreOptions};
use sqlx::Connection as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
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

fn writer(store: Store) -> Statuses {
    Statuses { store, heads: Arc::new(ManifestCache::default()), metrics: Arc::new(Metrics::default()) }
}

#[tokio::test]
async fn rejects_reports_beyond_the_memory_limit_until_others_are_written() {
    // Invariant 12
    let store = Store::open(&StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 }).await.unwrap();
    let (queue, task) = StatusQueue::start_bounded(writer(store), Precedence::default(), 100, 1000);
    let large = || StatusWrite { body: vec![b' '; 600], ..report() };
    let mut first = pin!(queue.write(large()));
    assert!(poll!(first.as_mut()).is_pending());
    assert_eq!(queue.write(large()).await, Err(WriteRefused::Busy), "there is space for one only");
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
async fn a_full_queue_rejects_reports_and_drains_when_the_store_is_free() {
    // RTY-01, invariant 12
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("test.db").display());
    let store = Store::open(&StoreOptions { url: url.clone(), readers: 1 }).await.unwrap();
    let mut other_writer = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other_writer).await.unwrap();

    let (queue, task) = StatusQueue::start_bounded(writer(store), Precedence::default(), 1, 1 << 20);
    // Each report is handed over when its future is polled first.
    let mut first = pin!(queue.write(report()));
    assert!(poll!(first.as_mut()).is_pending());
    // The writer takes it and waits for the store.
    while queue.sender.capacity() == 0 {
        tokio::task::yield_now().await;
    }
    let mut second = pin!(queue.write(report()));
    assert!(poll!(second.as_mut()).is_pending());
    assert_eq!(queue.write(report()).await, Err(WriteRefused::Busy));

    sqlx::query("ROLLBACK").execute(&mut other_writer).await.unwrap();
    assert_eq!(first.await, Ok(StatusOutcome::UnknownDeployment));
    assert_eq!(second.await, Ok(StatusOutcome::UnknownDeployment));
    task.abort();
}

fn capability_report(client: &str) -> DeviceWrite {
    let body = br#"{"properties":{"id":"press","vendor":"v","modelNumber":"m","serialNumber":"s"}}"#.to_vec();
    let capabilities = DeviceCapabilities::read(&body, UnknownTypes::Refuse).unwrap().document;
    let key = DeviceKey { client: client.parse().unwrap(), device: "press".parse().unwrap() };
    DeviceWrite { key, capabilities, body, received_at: Timestamp(1) }
}

#[tokio::test]
async fn writes_queued_capability_reports_together_and_isolates_a_bad_one() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("test.db").display());
    let store = Store::open(&StoreOptions { url: url.clone(), readers: 1 }).await.unwrap();
    let actor = Actor { name: "test".to_owned(), comment: None, request_id: None };
    let clients: Vec<String> = (0..20).map(|number| format!("client-{number}")).collect();
    for client in &clients {
        let id = client.parse().unwrap();
        store.client_create(&actor, &id, ClientState::Accepted, None, Timestamp(1)).await.unwrap();
    }
    let mut other_writer = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other_writer).await.unwrap();

    let metrics = Arc::new(Metrics::default());
    let group = Capabilities { store: store.clone(), metrics: Arc::clone(&metrics) };
    let (queue, task) = CapabilityQueue::start_bounded(group, Precedence::default(), 100, 1 << 20);
    let mut first = pin!(queue.write(capability_report("client-0")));
    assert!(poll!(first.as_mut()).is_pending());
    while queue.sender.capacity() < 100 {
        tokio::task::yield_now().await;
    }
    // The writer waits for the store with the first one; these wait for the writer.
    let mut others: Vec<_> = clients.iter().map(|client| Box::pin(queue.write(capability_report(client)))).collect();
    for other in &mut others {
        assert!(poll!(other.as_mut()).is_pending());
    }
    let mut stranger = pin!(queue.write(capability_report("unknown")));
    assert!(poll!(stranger.as_mut()).is_pending());

    sqlx::query("ROLLBACK").execute(&mut other_writer).await.unwrap();
    assert_eq!(first.await, Ok(DevicePut::Created));
    for (number, other) in others.into_iter().enumerate() {
        let expected = if number == 0 { DevicePut::Updated } else { DevicePut::Created };
        assert_eq!(other.await, Ok(expected));
    }
    assert_eq!(stranger.await, Err(WriteRefused::Failed), "unknown client");
    assert_eq!(store.devices_count().await.unwrap(), 20);
    assert!(metrics.encode().contains("margrave_capability_batches_total 2\n"), "{}", metrics.encode());
    task.abort();
}

#[tokio::test]
async fn writes_reports_that_arrive_during_a_batch_together_after_it() {
    let store = Store::open(&StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 }).await.unwrap();
    let (precedence, metrics) = (Precedence::default(), Arc::new(Metrics::default()));
    let group = Statuses { store, heads: Arc::new(ManifestCache::default()), metrics: Arc::clone(&metrics) };
    let (queue, task) = StatusQueue::start_bounded(group, precedence.clone(), 100, 1 << 20);
    let batch = precedence.batch(Duration::from_hours(1)).await;
    let mut first = pin!(queue.write(report()));
    assert!(poll!(first.as_mut()).is_pending());
    // The writer takes it and waits for the batch.
    while queue.sender.capacity() < 100 {
        tokio::task::yield_now().await;
    }
    let mut others: Vec<_> = (0..5).map(|_| Box::pin(queue.write(report()))).collect();
    for other in &mut others {
        assert!(poll!(other.as_mut()).is_pending());
    }
    drop(batch);
    assert_eq!(first.await, Ok(StatusOutcome::UnknownDeployment));
    for other in others {
        assert_eq!(other.await, Ok(StatusOutcome::UnknownDeployment));
    }
    assert!(metrics.encode().contains("margrave_status_batches_total 1\n"), "{}", metrics.encode());
    task.abort();
}

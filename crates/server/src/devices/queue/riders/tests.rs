use super::super::{StatusQueue, Statuses, Unwritten, tests};
use super::RIDERS_MAX;
use crate::heads::Heads;
use crate::telemetry::Metrics;
use futures_util::poll;
use margo::ids::ClientId;
use margrave_core::model::{Actor, ClientState};
use margrave_core::time::Timestamp;
use margrave_store::{StatusOutcome, StatusWrite, Store, StoreOptions};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const UNKNOWN: Result<StatusOutcome, Unwritten> = Ok(StatusOutcome::UnknownDeployment);

/// Told from the others by the time it was received.
fn report(number: i64) -> StatusWrite {
    StatusWrite { body: vec![b' '; 10], received_at: Timestamp(number), ..tests::report() }
}

fn client() -> ClientId {
    "press".parse().unwrap()
}

fn numbers(reports: &[StatusWrite]) -> Vec<i64> {
    reports.iter().map(|report| report.received_at.0).collect()
}

struct Test {
    queue: StatusQueue,
    task: JoinHandle<()>,
    heads: Arc<Heads>,
    metrics: Arc<Metrics>,
}

impl Test {
    /// A queue with room for as many reports, of ten bytes each, and one client.
    async fn start(reports_max: usize) -> Self {
        let store = Store::open(&StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 }).await.unwrap();
        let actor = Actor { name: "test".to_owned(), reason: None, request_id: None };
        store.client_create(&actor, &client(), ClientState::Accepted, None, Timestamp(1)).await.unwrap();
        let (heads, metrics) = (Arc::new(Heads::load(&store).await.unwrap()), Arc::new(Metrics::default()));
        let group = Statuses { store, heads: Arc::clone(&heads), metrics: Arc::clone(&metrics) };
        let (queue, task) = StatusQueue::start_bounded(group, reports_max, reports_max * 10);
        Self { queue, task, heads, metrics }
    }

    async fn ride(&self) -> super::Ride {
        self.queue.riders().unwrap().ride().await.unwrap()
    }

    /// Hands a report over; the answer is still to come.
    async fn hand_over(&self, report: StatusWrite) -> Pin<Box<impl Future<Output = Result<StatusOutcome, Unwritten>>>> {
        let mut answer = Box::pin(self.queue.write(report));
        assert!(poll!(answer.as_mut()).is_pending());
        answer
    }
}

#[tokio::test]
async fn riders_are_answered_when_they_arrive_and_not_before() {
    // Invariant 5
    let test = Test::start(10).await;
    let mut ride = test.ride().await;
    let mut answer = test.hand_over(report(1)).await;
    assert_eq!(numbers(ride.board()), [1]);
    assert!(poll!(answer.as_mut()).is_pending());
    ride.arrive(&[StatusOutcome::Kept]);
    assert_eq!(answer.await, Ok(StatusOutcome::Kept), "as the transaction said, and nobody wrote it again");
    let metrics = test.metrics.encode();
    assert!(metrics.contains("margrave_status_riders_total 1\n"), "{metrics}");
    assert!(metrics.contains("margrave_status_batches_total 1\n"), "{metrics}");
}

#[tokio::test]
async fn riders_of_a_transaction_that_failed_wait_where_they_were_and_are_answered_later() {
    let test = Test::start(10).await;
    let mut ride = test.ride().await;
    let mut answers = Vec::new();
    for number in [1, 2, 3] {
        answers.push(test.hand_over(report(number)).await);
    }
    assert_eq!(numbers(ride.board()), [1, 2, 3]);
    answers.push(test.hand_over(report(4)).await);
    ride.turn_back();
    assert!(ride.is_empty());
    for answer in &mut answers {
        assert!(poll!(answer.as_mut()).is_pending(), "nobody is told anything");
    }
    drop(ride);
    for answer in answers {
        assert_eq!(answer.await, UNKNOWN, "written by the queue itself");
    }
}

#[tokio::test]
async fn the_order_is_kept_however_often_a_ride_is_broken_off() {
    let test = Test::start(10).await;
    let mut ride = test.ride().await;
    let mut answers = Vec::new();
    for number in 1..=5 {
        answers.push(test.hand_over(report(number)).await);
        let so_far: Vec<i64> = (1..=number).collect();
        assert_eq!(numbers(ride.board()), so_far);
        ride.turn_back();
    }
    assert_eq!(numbers(ride.board()), [1, 2, 3, 4, 5]);
    ride.arrive(&[StatusOutcome::Kept; 5]);
    for answer in answers {
        assert_eq!(answer.await, Ok(StatusOutcome::Kept));
    }
}

#[tokio::test]
async fn only_so_many_ride_and_all_keep_their_room_until_they_are_answered() {
    // Invariant 12
    let waiting = RIDERS_MAX + 4;
    let test = Test::start(waiting).await;
    let mut ride = test.ride().await;
    let mut answers = Vec::new();
    for number in 0..waiting {
        answers.push(test.hand_over(report(number as i64)).await);
    }
    assert_eq!(ride.board().len(), RIDERS_MAX);
    assert_eq!(ride.board().len(), RIDERS_MAX, "nor are there more for asking twice");
    assert_eq!(test.queue.write(report(99)).await, Err(Unwritten::Busy), "those on board still hold memory");
    ride.turn_back();
    assert_eq!(test.queue.write(report(99)).await, Err(Unwritten::Busy));
    ride.board();
    ride.arrive(&[StatusOutcome::Kept; RIDERS_MAX]);
    for (number, answer) in answers.into_iter().enumerate() {
        let expected = if number < RIDERS_MAX { Ok(StatusOutcome::Kept) } else { UNKNOWN };
        assert_eq!(answer.await, expected);
    }
    assert_eq!(test.queue.write(report(100)).await, UNKNOWN, "there is room again");
}

#[tokio::test]
async fn a_client_ahead_of_its_manifest_does_not_ride_and_nobody_overtakes_it() {
    // Invariant 2
    let test = Test::start(10).await;
    let mut ride = test.ride().await;
    let before = test.hand_over(report(1)).await;
    let mut ahead = report(2);
    ahead.status.adopted_manifest_version = 50;
    let ahead = test.hand_over(ahead).await;
    let behind = test.hand_over(report(3)).await;
    assert_eq!(numbers(ride.board()), [1]);
    ride.arrive(&[StatusOutcome::Kept]);
    assert_eq!((before.await, ahead.await, behind.await), (Ok(StatusOutcome::Kept), UNKNOWN, UNKNOWN));
    let version = test.heads.get(&client()).unwrap().version;
    assert!(version > 50, "raised to {version} by the queue itself");
}

#[tokio::test]
async fn riders_do_not_keep_the_queue_open() {
    let Test { queue, task, .. } = Test::start(10).await;
    let riders = queue.riders().unwrap();
    drop(queue);
    tokio::time::timeout(Duration::from_secs(30), task).await.expect("the writer ends").unwrap();
    assert!(riders.ride().await.is_none());
}

#[tokio::test]
async fn a_queue_whose_writer_was_stopped_turns_reports_away() {
    let Test { queue, task, .. } = Test::start(10).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(queue.write(report(1)).await, Err(Unwritten::Busy));
}

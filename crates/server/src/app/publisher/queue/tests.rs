use super::*;
use margrave_core::model::{Actor, RolloutKind};
use margrave_core::time::Timestamp;
use uuid::Uuid;

fn rollout(number: u128) -> Rollout {
    Rollout {
        id: Uuid::from_u128(number),
        kind: RolloutKind::Create,
        application: "hello".parse().unwrap(),
        version: "1.0.0".to_owned(),
        values: indexmap::IndexMap::new(),
        sensitive: false,
        policy: margrave_core::policy::PolicyUpdate::default(),
        targets: Vec::new(),
        done: 0,
        skipped: Vec::new(),
        actor: Actor { name: "test".to_owned(), comment: None, request_id: None },
        created_at: Timestamp(0),
        finished_at: None,
        rollback_to: None,
    }
}

#[test]
fn interleaves_rollouts_so_that_a_large_one_does_not_delay_a_small_one() {
    let now = Instant::now();
    let mut queue = Queue::default();
    queue.add(rollout(1));
    queue.add(rollout(2));
    let large = queue.next_due(now).unwrap();
    queue.put_back(large.rollout);
    assert_eq!(queue.next_due(now).unwrap().rollout.id, Uuid::from_u128(2));
    assert_eq!(queue.next_due(now).unwrap().rollout.id, Uuid::from_u128(1));
}

#[test]
fn queues_a_rollout_once() {
    let mut queue = Queue::default();
    queue.add(rollout(1));
    queue.add(rollout(1));
    assert!(queue.next_due(Instant::now()).is_some());
    assert!(queue.is_empty());
}

#[test]
fn backs_off_a_failing_rollout_without_delaying_others() {
    let now = Instant::now();
    let mut queue = Queue::default();
    queue.add(rollout(1));
    queue.add(rollout(2));
    let failed = queue.next_due(now).unwrap();
    let first = queue.put_back_failed(failed, now);
    assert_eq!(queue.next_due(now).unwrap().rollout.id, Uuid::from_u128(2));
    assert!(queue.next_due(now).is_none());
    assert_eq!(queue.until_due(now), Some(first));
    let failed = queue.next_due(now + first).unwrap();
    let second = queue.put_back_failed(failed, now);
    assert!(second > first);
    assert!(second <= PAUSE_MAX);
}

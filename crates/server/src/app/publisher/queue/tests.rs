use super::*;
use margrave_core::model::{Actor, ChangeKind};
use margrave_core::time::Timestamp;
use uuid::Uuid;

fn change(number: u128) -> Change {
    Change {
        id: Uuid::from_u128(number),
        kind: ChangeKind::Create,
        application: "hello".parse().unwrap(),
        version: "1.0.0".to_owned(),
        answers: indexmap::IndexMap::new(),
        sensitive: false,
        policy: margrave_core::policy::Wish::default(),
        targets: Vec::new(),
        done: 0,
        skipped: Vec::new(),
        actor: Actor { name: "test".to_owned(), reason: None, request_id: None },
        created_at: Timestamp(0),
        finished_at: None,
    }
}

#[test]
fn changes_take_turns_so_that_a_large_one_does_not_hold_back_a_small_one() {
    let now = Instant::now();
    let mut queue = Queue::default();
    queue.add(change(1));
    queue.add(change(2));
    let large = queue.next_due(now).unwrap();
    queue.put_back(large.change);
    assert_eq!(queue.next_due(now).unwrap().change.id, Uuid::from_u128(2));
    assert_eq!(queue.next_due(now).unwrap().change.id, Uuid::from_u128(1));
}

#[test]
fn a_change_is_queued_once() {
    let mut queue = Queue::default();
    queue.add(change(1));
    queue.add(change(1));
    assert!(queue.next_due(Instant::now()).is_some());
    assert!(queue.is_empty());
}

#[test]
fn a_failing_change_rests_longer_each_time_and_the_others_go_on() {
    let now = Instant::now();
    let mut queue = Queue::default();
    queue.add(change(1));
    queue.add(change(2));
    let failed = queue.next_due(now).unwrap();
    let first = queue.put_back_failed(failed, now);
    assert_eq!(queue.next_due(now).unwrap().change.id, Uuid::from_u128(2));
    assert!(queue.next_due(now).is_none());
    assert_eq!(queue.until_due(now), Some(first));
    let failed = queue.next_due(now + first).unwrap();
    let second = queue.put_back_failed(failed, now);
    assert!(second > first);
    assert!(second <= PAUSE_MAX);
}

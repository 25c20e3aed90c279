//! Defined behavior (docs/guides/behavior.md) with a real agent.

use crate::fake::Seen;
use crate::support::{World, deployment, eventually, set, version};
use margo::status::State;
use margrave_agent::hold;
use margrave_agent::runtimes::Runtime as _;
use margrave_core::time::{Clock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

fn capability_reports(seen: &[Seen]) -> Vec<String> {
    let of = |seen: &&Seen| seen.method == "PUT" && seen.path.contains("/capabilities/");
    seen.iter().filter(of).map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).collect()
}

#[tokio::test]
async fn the_first_boot_without_desired_state_changes_nothing() {
    let world = World::new().await;
    world.fake.twist(|_| Some(crate::fake::reply(503, "")));
    let agent = World::agent(&world);
    eventually("a report", || agent.report().is_some()).await;
    let state = serde_json::to_value(agent.report().unwrap()).unwrap()["state"].clone();
    assert_eq!(state, "waiting-for-desired-state");
    assert!(agent.running().await.is_empty());
}

#[tokio::test]
async fn a_maintenance_hold_stops_changes_is_reported_and_expires() {
    let world = World::new().await;
    let one = set(1, "1.0.0");
    world.fake.publish(&version(1, &one), &one);
    let agent = World::agent(&world);
    agent.runs(&one).await;
    let now = hold::moment(&margrave_agent::SystemClock);
    // Longer than the agent needs to detect and report it.
    hold::begin(&agent.state_dir(), "changing the fan", Duration::from_secs(8), &now).unwrap();
    let announced = || capability_reports(&world.fake.seen()).iter().any(|body| body.contains("changing the fan"));
    eventually("the hold is reported", announced).await;
    let two = set(2, "2.0.0");
    world.fake.publish(&version(2, &two), &two);
    let held =
        |status: &margo::status::DeploymentStatus| status.error.as_ref().is_some_and(|error| error.code == "402");
    eventually("the report says why", || world.fake.reported(two[1].id).iter().any(held)).await;
    let waits = world.fake.reported(two[1].id).pop().unwrap();
    assert_eq!(waits.state, State::Pending);
    assert_eq!(agent.running().await.len(), 1, "nothing is begun");
    let report = agent.report().unwrap();
    assert_eq!(report.hold.unwrap().reason, "changing the fan");
    // It expires, and changes continue.
    agent.runs(&two).await;
    let last = || capability_reports(&world.fake.seen()).pop().unwrap();
    eventually("the end of the hold is reported", || !last().contains("changing the fan")).await;
}

#[tokio::test]
async fn a_hold_survives_an_agent_restart_and_ends_manually() {
    let world = World::new().await;
    let mut agent = World::agent(&world);
    eventually("it runs", || agent.accepted().is_some()).await;
    agent.stop().await;
    let now = hold::moment(&margrave_agent::SystemClock);
    assert!(now.wall > margrave_core::time::Timestamp(0) && margrave_agent::SystemClock.now() >= now.wall);
    hold::begin(&agent.state_dir(), "x", Duration::from_hours(2), &now).unwrap();
    let one = set(1, "1.0.0");
    world.fake.publish(&version(1, &one), &one);
    agent.start_again(&world);
    let held =
        |status: &margo::status::DeploymentStatus| status.error.as_ref().is_some_and(|error| error.code == "402");
    eventually("it waits", || world.fake.reported(one[0].id).iter().any(held)).await;
    assert!(agent.running().await.is_empty());
    assert!(hold::end(&agent.state_dir()).unwrap());
    agent.runs(&one).await;
}

#[tokio::test]
async fn after_a_long_absence_healthy_workloads_are_untouched() {
    let world = World::new().await;
    let one = set(1, "1.0.0");
    world.fake.publish(&version(1, &one), &one);
    let mut agent = World::agent(&world);
    agent.runs(&one).await;
    agent.stop().await;
    // While it was offline the manifest changed twice; its deployment is unchanged.
    let more = vec![one[0].clone(), deployment(2, "1.0.0")];
    world.fake.publish(&version(40, &more), &more);
    agent.start_again(&world);
    agent.runs(&more).await;
    let id = one[0].id;
    let wanted = margrave_agent::runtimes::LogsQuery { deployment: id, component: None, lines: 10 };
    assert_eq!(agent.runtime.logs(wanted).await.unwrap(), "web | simulated start 1", "started once, not again");
}

/// A clock that has lost the time until it is set.
#[derive(Debug)]
struct LostClock {
    behind: AtomicI64,
}

impl Clock for LostClock {
    fn now(&self) -> Timestamp {
        Timestamp(margrave_agent::SystemClock.now().0 - self.behind.load(Ordering::Relaxed))
    }
}

#[tokio::test]
async fn a_device_with_a_wrong_clock_runs_its_workloads_and_continues_later() {
    let world = World::new().await;
    let (old, new) = (set(2, "1.0.0"), set(2, "2.0.0"));
    world.fake.publish(&version(1, &old), &old);
    let mut agent = World::agent(&world);
    agent.runs(&old).await;
    agent.stop().await;
    let clock = Arc::new(LostClock { behind: AtomicI64::new(margrave_agent::SystemClock.now().0) });
    agent.reboot(&world, clock.clone());
    agent.runs(&old).await;
    // Certificates are not valid yet by its clock: it reports this and does not connect.
    world.fake.publish(&version(2, &new), &new);
    agent.in_trouble("702").await;
    agent.runs(&old).await;
    clock.behind.store(0, Ordering::Relaxed);
    agent.runs(&new).await;
    agent.stop().await;
}

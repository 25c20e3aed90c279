//! Long polls (RFC 7240), and servers without support.

use crate::fake::{LongPollMode, Seen};
use crate::support::{Agent, World, eventually, set, version};
use margrave_agent::AgentConfig;
use std::time::Duration;

fn hourly(config: &mut AgentConfig) {
    config.poll.period = Duration::from_hours(1);
    config.poll.start_spread = Duration::ZERO;
}

fn polls(world: &World) -> Vec<Seen> {
    world.fake.seen().into_iter().filter(|seen| seen.path.ends_with("/deployments")).collect()
}

fn waits(seen: &Seen) -> bool {
    seen.headers.contains_key("prefer")
}

#[tokio::test]
async fn a_change_reaches_an_hourly_agent_by_long_poll() {
    let world = World::new().await;
    world.fake.state().holding = LongPollMode::Held;
    let first = set(2, "1.0.0");
    world.fake.publish(&version(1, &first), &first);
    let agent = Agent::start(&world, hourly);
    agent.runs(&first).await;
    for round in 2..5_u8 {
        eventually("a poll waits", || polls(&world).last().is_some_and(waits)).await;
        let next = set(2, &format!("{round}.0.0"));
        world.fake.publish(&version(u64::from(round), &next), &next);
        agent.runs(&next).await;
        // Reports are sent during the next long poll, on their own connection.
        eventually("the end is reported", || {
            world.fake.reported(next[0].id).last().is_some_and(|last| {
                last.adopted_manifest_version == u64::from(round) + 1 && last.state == margo::status::State::Installed
            })
        })
        .await;
    }
    let requested: Vec<_> =
        polls(&world).iter().filter(|seen| waits(seen)).map(|seen| seen.headers["prefer"].clone()).collect();
    assert!(requested.iter().all(|prefer| prefer == "wait=50"), "{requested:?}");
    assert!(polls(&world).iter().filter(|seen| waits(seen)).all(|seen| seen.headers.contains_key("if-none-match")));
}

#[tokio::test]
async fn polls_a_server_that_ignores_the_preference_at_the_period() {
    let world = World::new().await;
    let agent = Agent::start(&world, |_| {});
    for round in 1..4_u8 {
        let deployments = set(1, &format!("{round}.0.0"));
        world.fake.publish(&version(u64::from(round), &deployments), &deployments);
        agent.runs(&deployments).await;
        let count = polls(&world).len();
        eventually("polls that ask to wait", || polls(&world)[count..].iter().filter(|seen| waits(seen)).count() > 2)
            .await;
    }
    assert!(agent.report().is_none_or(|report| report.troubles.is_empty()));
}

#[tokio::test]
async fn sends_no_long_polls_when_disabled() {
    let world = World::new().await;
    world.fake.state().holding = LongPollMode::Held;
    let _agent = Agent::start(&world, |config| config.poll.long_poll = Duration::ZERO);
    let conditional = || polls(&world).iter().filter(|seen| seen.headers.contains_key("if-none-match")).count();
    eventually("conditional polls", || conditional() > 3).await;
    assert!(!polls(&world).iter().any(waits));
}

#[tokio::test]
async fn detects_a_dead_connection() {
    let world = World::new().await;
    world.fake.state().holding = LongPollMode::Lost;
    let agent = Agent::start(&world, |config| {
        hourly(config);
        config.poll.long_poll = Duration::from_secs(10);
        config.http.request_timeout = Duration::from_secs(1);
    });
    eventually("a poll waits", || polls(&world).iter().any(waits)).await;
    agent.in_trouble("701").await;
    world.fake.state().holding = LongPollMode::Held;
    let deployments = set(1, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    agent.runs(&deployments).await;
}

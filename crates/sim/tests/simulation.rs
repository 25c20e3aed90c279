//! Hundreds of short simulations, each from its seed; and proof that deliberate bugs are detected.

use margrave_sim::simulation::{Bug, Outcome, Simulator};
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds in an ordinary run; `make soak` uses more.
const SEEDS_DEFAULT: u64 = 300;

/// Each simulation runs in one thread; as many at a time as small machines have cores.
const THREADS: usize = 2;

/// Seeds within which every deliberate bug must be detected.
const SEEDS_WITH_BUG: u64 = 40;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: `{text}`")))
}

fn report(outcome: &Outcome) -> String {
    let Err(violation) = &outcome.verdict else { return String::new() };
    format!(
        "\n{}\n\nseed {} violated an invariant after {} events: {violation}\nreplay it with\n  \
         MARGRAVE_SEED={} cargo test -p margrave-sim --test simulation -- --nocapture\n",
        outcome.tail.join("\n"),
        outcome.seed,
        outcome.events,
        outcome.seed,
    )
}

#[test]
fn no_seed_violates_an_invariant() {
    if let Some(seed) = number("MARGRAVE_SEED") {
        let outcome = Simulator::new().unwrap().run(seed, None, true).unwrap();
        assert!(outcome.verdict.is_ok(), "{}", report(&outcome));
        return;
    }
    let seeds = number("MARGRAVE_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let next = AtomicU64::new(0);
    let live = || {
        let simulator = Simulator::new().unwrap();
        let mut failed = Vec::new();
        let mut events = 0;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return (failed, events);
            }
            let outcome = simulator.run(seed, None, false).unwrap();
            events += outcome.events;
            if outcome.verdict.is_err() {
                failed.push(outcome);
            }
        }
    };
    let (mut failed, mut events) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(live)).collect();
        for thread in threads {
            let (some, count) = thread.join().unwrap();
            failed.extend(some);
            events += count;
        }
    });
    failed.sort_by_key(|outcome| outcome.seed);
    let one = |outcome: &Outcome| format!("\n  seed {}: {}", outcome.seed, outcome.verdict.as_ref().unwrap_err());
    let all: String = failed.iter().map(one).collect();
    assert!(failed.is_empty(), "{} of {seeds} seeds failed:{all}\n{}", failed.len(), report(&failed[0]));
    assert!(events > seeds * 50, "{seeds} simulations had only {events} events: too little was tested");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let simulator = Simulator::new().unwrap();
    let mut traces = Vec::new();
    for seed in 0..6 {
        let first = simulator.run(seed, None, false).unwrap();
        let second = simulator.run(seed, None, false).unwrap();
        assert_eq!((&first.trace, first.events), (&second.trace, second.events), "seed {seed} is not deterministic");
        traces.push(first.trace);
    }
    traces.dedup();
    assert_eq!(traces.len(), 6, "different seeds give different runs");
}

fn is_caught(bug: Bug, rule: &str) -> anyhow::Result<()> {
    let simulator = Simulator::new()?;
    let mut rules = Vec::new();
    for seed in 0..SEEDS_WITH_BUG {
        if let Err(violation) = simulator.run(seed, Some(bug), false)?.verdict {
            if violation.rule == rule {
                return Ok(());
            }
            rules.push(violation.rule);
        }
    }
    anyhow::bail!("{bug:?} was not caught by `{rule}` in {SEEDS_WITH_BUG} simulations; violated were {rules:?}");
}

#[test]
fn detects_an_agent_that_sends_the_accepted_etag() {
    is_caught(Bug::AcceptedEtag, "If-None-Match carries only a reconciled ETag").unwrap();
}

#[test]
fn detects_a_server_that_reuses_a_version() {
    is_caught(Bug::VersionReused, "manifest versions of a client only increase").unwrap();
}

#[test]
fn detects_a_server_that_loses_an_acknowledged_status() {
    is_caught(Bug::StatusForgotten, "an acknowledged status is never lost").unwrap();
}

//! Property tests: the invariants hold for any sequence of events.

use super::bench::*;
use crate::machine::io::*;
use crate::runtimes::simulated::script::Script;
use margrave_core::publish;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Debug, Clone)]
enum RandomAction {
    Wait(u64),
    Publish(Vec<(u8, u8)>),
    Crash,
    Old,
    Conflict,
    Garbage(u8),
    Offline(bool),
    DiskFull(bool),
    Fail(bool),
    Blind(bool),
    Stuck(bool),
    LoseContent,
    LoseAccepted,
    StaleAnswer,
}

fn deed() -> impl Strategy<Value = RandomAction> {
    prop_oneof![
        6 => (1..200_u64).prop_map(RandomAction::Wait),
        4 => prop::collection::btree_map(1..6_u8, 0..3_u8, 0..5).prop_map(|map| RandomAction::Publish(map.into_iter().collect())),
        2 => Just(RandomAction::Crash),
        1 => Just(RandomAction::Old),
        1 => Just(RandomAction::Conflict),
        1 => (0..3_u8).prop_map(RandomAction::Garbage),
        1 => any::<bool>().prop_map(RandomAction::Offline),
        1 => any::<bool>().prop_map(RandomAction::DiskFull),
        1 => any::<bool>().prop_map(RandomAction::Fail),
        1 => any::<bool>().prop_map(RandomAction::Blind),
        1 => any::<bool>().prop_map(RandomAction::Stuck),
        1 => Just(RandomAction::LoseContent),
        1 => Just(RandomAction::LoseAccepted),
        1 => Just(RandomAction::StaleAnswer),
    ]
}

fn perform(deed: RandomAction, bench: &mut Bench, server: &mut Server) {
    match deed {
        RandomAction::Wait(seconds) => bench.run_for(Duration::from_secs(seconds), server),
        RandomAction::Publish(set) => {
            let set = set
                .into_iter()
                .map(|(number, revision)| yaml(number, "gw", &["web"], &format!("{revision}.0.0")))
                .collect();
            server.publish(set);
        }
        RandomAction::Crash => bench.crash(),
        RandomAction::Old => override_poll(server, publish::next(0, &[]).unwrap().body),
        RandomAction::Conflict => {
            let other = publish::next(server.publication.version - 1, &[yaml(77, "gw", &["evil"], "6.6.6")]).unwrap();
            // The real manifest must be accepted first, else this would be the first manifest of this version.
            if bench.machine.accepted_version() == Some(server.publication.version) {
                override_poll(server, other.body);
            }
        }
        RandomAction::Garbage(kind) => {
            let body = [&b"<html>"[..], b"", b"\x1f\x8b\x08"][usize::from(kind)].to_vec();
            server.twist = Some(Box::new(move |_| Some(response(200, &body))));
        }
        RandomAction::Offline(true) => {
            server.twist = Some(Box::new(|_| {
                Some(Answer::Failed { code: crate::Code::ServerUnreachable, message: "no route".to_owned() })
            }));
        }
        RandomAction::Offline(false) => server.twist = None,
        RandomAction::DiskFull(full) => bench.disk_full = full,
        RandomAction::Fail(true) => bench.script = toml::from_str("rule = [{fail = \"always\"}]").unwrap(),
        RandomAction::Fail(false) => bench.script = Script::default(),
        RandomAction::Blind(blind) => bench.blind = blind,
        RandomAction::Stuck(stuck) => bench.stuck = stuck,
        RandomAction::LoseContent => {
            bench.disk.contents.clear();
            bench.crash();
        }
        RandomAction::LoseAccepted => {
            bench.disk.floor = bench.disk.accepted.take().map(|accepted| accepted.held()).or(bench.disk.floor.take());
            bench.crash();
        }
        RandomAction::StaleAnswer => {
            bench.feed(Input::Answered { request: RequestId(1), answer: response(200, b"{}") }, server);
            bench.feed(Input::WorkFinished { work: WorkId(1), outcome: WorkOutcome::Done }, server);
            bench.feed(Input::Persisted { write: WriteId(1), result: Ok(()) }, server);
        }
    }
}

fn override_poll(server: &mut Server, body: Vec<u8>) {
    server.twist = Some(Box::new(move |request| matches!(request, Request::Poll { .. }).then(|| response(200, &body))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// DS-13, DS-22, DS-23, invariants 4, 5, 6: never an older version, only the reconciled ETag, and in the end everything
    /// is as published.
    #[test]
    fn any_sequence_of_events_keeps_the_invariants_and_converges(
        deeds in prop::collection::vec(deed(), 1..25)
    ) {
        let (mut bench, mut server) = (Bench::new(), Server::new());
        // The bench checks every effect.
        for deed in deeds {
            perform(deed, &mut bench, &mut server);
        }
        server.twist = None;
        (bench.disk_full, bench.blind, bench.stuck) = (false, false, false);
        bench.script = Script::default();
        bench.run_for(Duration::from_mins(20), &mut server);
        bench.converge(&mut server);
        let mut running: Vec<_> = bench.world.deployments.iter().map(|(id, placed)| (*id, placed.components["web"].digest.clone())).collect();
        let mut desired: Vec<_> = server.deployments.iter().map(|served| (served.id, served.digest.clone())).collect();
        running.sort();
        desired.sort();
        prop_assert_eq!(running, desired);
    }
}

//! Whatever happens in whatever order, the invariants hold.

use super::bench::*;
use crate::machine::io::*;
use crate::runtimes::simulated::script::Script;
use margrave_core::publish;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Deed {
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

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (1..200_u64).prop_map(Deed::Wait),
        4 => prop::collection::btree_map(1..6_u8, 0..3_u8, 0..5).prop_map(|map| Deed::Publish(map.into_iter().collect())),
        2 => Just(Deed::Crash),
        1 => Just(Deed::Old),
        1 => Just(Deed::Conflict),
        1 => (0..3_u8).prop_map(Deed::Garbage),
        1 => any::<bool>().prop_map(Deed::Offline),
        1 => any::<bool>().prop_map(Deed::DiskFull),
        1 => any::<bool>().prop_map(Deed::Fail),
        1 => any::<bool>().prop_map(Deed::Blind),
        1 => any::<bool>().prop_map(Deed::Stuck),
        1 => Just(Deed::LoseContent),
        1 => Just(Deed::LoseAccepted),
        1 => Just(Deed::StaleAnswer),
    ]
}

fn perform(deed: Deed, bench: &mut Bench, server: &mut Server) {
    match deed {
        Deed::Wait(seconds) => bench.run_for(Duration::from_secs(seconds), server),
        Deed::Publish(set) => {
            let set = set
                .into_iter()
                .map(|(number, revision)| yaml(number, "gw", &["web"], &format!("{revision}.0.0")))
                .collect();
            server.publish(set);
        }
        Deed::Crash => bench.crash(),
        Deed::Old => twist_poll(server, publish::next(0, &[]).unwrap().body),
        Deed::Conflict => {
            let other = publish::next(server.publication.version - 1, &[yaml(77, "gw", &["evil"], "6.6.6")]).unwrap();
            // The real one must be known first, else it would be this client's first sight of the version.
            if bench.machine.accepted_version() == Some(server.publication.version) {
                twist_poll(server, other.body);
            }
        }
        Deed::Garbage(kind) => {
            let body = [&b"<html>"[..], b"", b"\x1f\x8b\x08"][usize::from(kind)].to_vec();
            server.twist = Some(Box::new(move |_| Some(response(200, &body))));
        }
        Deed::Offline(true) => {
            server.twist = Some(Box::new(|_| {
                Some(Answer::Failed { code: crate::Code::ServerUnreachable, message: "no route".to_owned() })
            }));
        }
        Deed::Offline(false) => server.twist = None,
        Deed::DiskFull(full) => bench.disk_full = full,
        Deed::Fail(true) => bench.script = toml::from_str("rule = [{fail = \"always\"}]").unwrap(),
        Deed::Fail(false) => bench.script = Script::default(),
        Deed::Blind(blind) => bench.blind = blind,
        Deed::Stuck(stuck) => bench.stuck = stuck,
        Deed::LoseContent => {
            bench.disk.contents.clear();
            bench.crash();
        }
        Deed::LoseAccepted => {
            bench.disk.floor = bench.disk.accepted.take().map(|accepted| accepted.held()).or(bench.disk.floor.take());
            bench.crash();
        }
        Deed::StaleAnswer => {
            bench.feed(Input::Answered { request: RequestId(1), answer: response(200, b"{}") }, server);
            bench.feed(Input::WorkFinished { work: WorkId(1), outcome: WorkOutcome::Done }, server);
            bench.feed(Input::Persisted { write: WriteId(1), result: Ok(()) }, server);
        }
    }
}

fn twist_poll(server: &mut Server, body: Vec<u8>) {
    server.twist = Some(Box::new(move |request| matches!(request, Request::Poll { .. }).then(|| response(200, &body))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// DS-13, DS-22, DS-23, invariants 4, 5, 6: never an older version, only the reconciled ETag, and in the end everything
    /// is as published.
    #[test]
    fn any_sequence_of_events_keeps_the_invariants_and_converges_when_the_trouble_ends(
        deeds in prop::collection::vec(deed(), 1..25)
    ) {
        let (mut bench, mut server) = (Bench::new(), Server::new());
        // The bench checks every single effect on the way.
        for deed in deeds {
            perform(deed, &mut bench, &mut server);
        }
        server.twist = None;
        (bench.disk_full, bench.blind, bench.stuck) = (false, false, false);
        bench.script = Script::default();
        bench.run_for(Duration::from_mins(20), &mut server);
        bench.converge(&mut server);
        let mut running: Vec<_> = bench.world.deployments.iter().map(|(id, placed)| (*id, placed.components["web"].digest.clone())).collect();
        let mut wanted: Vec<_> = server.deployments.iter().map(|served| (served.id, served.digest.clone())).collect();
        running.sort();
        wanted.sort();
        prop_assert_eq!(running, wanted);
    }
}

//! Preloaded desired states.

use super::bench::*;
use crate::machine::io::*;
use margrave_core::publish::{self, Publication, ServedDeployment};
use std::time::Duration;

fn preloaded(publication: &Publication, deployments: &[ServedDeployment]) -> Input {
    Input::Preload(Ok(Preloaded {
        body: String::from_utf8(publication.body.clone()).unwrap(),
        etag: publication.digest.etag(),
        documents: deployments.iter().map(|served| (served.digest.clone(), served.yaml.as_slice().into())).collect(),
    }))
}

fn prepared(after: u64) -> (Publication, Vec<ServedDeployment>) {
    let deployments = vec![yaml(1, "gw", &["web"], "1.0.0")];
    (publish::next(after, &deployments).unwrap(), deployments)
}

/// A server that cannot be reached.
fn away() -> Server {
    let mut server = Server::new();
    server.twist = Some(Box::new(|_| Some(response(503, b""))));
    server
}

#[test]
fn a_preload_is_durable_before_it_is_applied_and_survives_a_crash() {
    // DS-22, invariant 4
    let (mut bench, mut server) = (Bench::new(), away());
    let (publication, deployments) = prepared(6);
    bench.disk_full = true;
    bench.feed(preloaded(&publication, &deployments), &mut server);
    bench.run_for(Duration::from_mins(2), &mut server);
    assert!(bench.running().is_empty() && bench.machine.is_blank(), "work does not start before it is durable");
    bench.disk_full = false;
    // The driver offers it again while there is no desired state.
    for _ in 0..100 {
        bench.run_for(Duration::from_secs(2), &mut server);
        bench.feed(preloaded(&publication, &deployments), &mut server);
    }
    bench.run_for(Duration::from_mins(1), &mut server);
    assert_eq!(bench.machine.accepted_version(), Some(7));
    bench.crash();
    assert_eq!(bench.machine.accepted_version(), Some(7));
    bench.run_for(Duration::from_mins(1), &mut server);
    assert_eq!(bench.running().len(), 1);
    assert_eq!(bench.world.deployments[&id(1)].components["web"].starts, 1);
}

#[test]
fn ignores_a_preload_with_an_accepted_manifest() {
    // DS-23
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(2, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    let held = bench.machine.accepted_version();
    // Newer or older: it is only for a first boot.
    for after in [0, 50] {
        let (publication, deployments) = prepared(after);
        bench.feed(preloaded(&publication, &deployments), &mut server);
        bench.run_for(Duration::from_mins(1), &mut server);
        assert_eq!(bench.machine.accepted_version(), held);
    }
    assert!(!bench.world.deployments.contains_key(&id(1)));
}

#[test]
fn rejects_an_incomplete_preload_as_security_event() {
    let (mut bench, mut server) = (Bench::new(), away());
    let (publication, _) = prepared(6);
    bench.feed(preloaded(&publication, &[]), &mut server);
    bench.feed(Input::Preload(Err("its signature does not match".to_owned())), &mut server);
    bench.run_for(Duration::from_mins(1), &mut server);
    assert!(bench.codes().contains(&"611"));
    assert!(bench.machine.is_blank() && bench.running().is_empty());
}

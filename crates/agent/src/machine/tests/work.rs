//! Applying, retrying, removing, reporting.

use super::bench::*;
use crate::machine::Settled;
use crate::machine::io::*;
use margo::status::State;
use std::time::Duration;

fn minutes(count: u64) -> Duration {
    Duration::from_mins(count)
}

fn starts(bench: &Bench, number: u8, component: &str) -> u32 {
    bench.world.deployments[&id(number)].components[component].starts
}

#[test]
fn components_are_applied_in_order_and_every_state_is_reported() {
    // AD-01, AD-02, ST-02, ST-03, ST-10
    let (mut bench, mut server) = (Bench::new(), Server::new());
    let version = server.publish(vec![yaml(1, "gw", &["db", "web"], "1.0.0")]);
    bench.converge(&mut server);
    let applied = bench.trace.iter().filter_map(|effect| match effect {
        Effect::Apply(work) => Some(work.component),
        _ => None,
    });
    assert_eq!(applied.collect::<Vec<_>>(), [0, 1]);
    let status = server.last_status(1);
    assert_eq!(
        (status.state, status.adopted_manifest_version, status.components.len()),
        (State::Installed, version, 2)
    );
    assert!(server.statuses.iter().all(|status| status.components.len() == 2));
}

#[test]
fn a_component_without_wait_is_installed_only_once_observed_running() {
    // AD-02 with `wait: false`, ST-03
    let (mut bench, mut server) = (Bench::new(), Server::new());
    let mut loose = yaml(1, "gw", &["db", "web"], "1.0.0");
    let text = String::from_utf8(loose.yaml).unwrap();
    loose.yaml = text.replacen("revision: 1.0.0\n", "revision: 1.0.0\n          wait: false\n", 1).into_bytes();
    loose.digest = margo::Digest::of(&loose.yaml);
    server.publish(vec![loose]);
    bench.starting = vec!["db"];
    bench.run_for(minutes(2), &mut server);
    // The next component does not wait for it, and the deployment is not installed yet.
    let states = |server: &Server| {
        let status = server.last_status(1);
        (status.state, status.components.iter().map(|component| component.state).collect::<Vec<_>>())
    };
    assert_eq!(states(&server), (State::Installing, vec![State::Installing, State::Installed]));
    assert_eq!(bench.machine.reconciled_version(), None);
    bench.starting.clear();
    bench.converge(&mut server);
    assert_eq!(states(&server), (State::Installed, vec![State::Installed; 2]));
    assert_eq!((starts(&bench, 1, "db"), starts(&bench, 1, "web")), (1, 1));
}

#[test]
fn reports_pending_installing_and_installed_in_order() {
    // ST-10; a newer report only replaces an unsent one
    let (mut bench, mut server) = (Bench::new(), Server::new());
    bench.converge(&mut server);
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.stuck = true;
    bench.run_for(minutes(2), &mut server);
    let states = |server: &Server| server.statuses.iter().map(|status| status.state).collect::<Vec<_>>();
    assert_eq!(states(&server), [State::Pending, State::Installing]);
    bench.stuck = false;
    let work = bench.trace.iter().rev().find_map(|effect| match effect {
        Effect::Apply(work) => Some(work.clone()),
        _ => None,
    });
    let work = work.expect("it is being applied");
    bench.world.apply(&work, &bench.script).unwrap();
    bench.inputs.push_back(Input::WorkFinished { work: work.work, outcome: WorkOutcome::Done });
    bench.converge(&mut server);
    assert_eq!(states(&server), [State::Pending, State::Installing, State::Installed]);
}

#[test]
fn reports_carry_the_version_being_applied_not_the_one_being_fetched() {
    // ST-05
    let (mut bench, mut server) = (Bench::new(), Server::new());
    let second = server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.statuses.clear();
    server.requests.clear();
    let third = server.publish(vec![yaml(1, "gw", &["web"], "2.0.0")]);
    assert_eq!((second, third), (2, 3));
    server.twist = Some(Box::new(|request| {
        matches!(request, Request::FetchBundle { .. } | Request::FetchYaml { .. }).then(|| response(500, b""))
    }));
    bench.world.deployments[&id(1)].components.shift_remove("web");
    bench.run_for(minutes(5), &mut server);
    let fetches = |request: &Request| matches!(request, Request::FetchBundle { .. } | Request::FetchYaml { .. });
    assert!(server.requests.iter().any(fetches), "the newer manifest has arrived, its content has not");
    assert_eq!(starts(&bench, 1, "web"), 1, "the drift was repaired");
    let of_repair: Vec<_> =
        server.statuses.iter().map(|status| (status.state, status.adopted_manifest_version)).collect();
    assert_eq!(of_repair, [(State::Installing, 2), (State::Installed, 2)]);
    server.statuses.clear();
    server.twist = None;
    bench.converge(&mut server);
    let of_update: Vec<_> =
        server.statuses.iter().map(|status| (status.state, status.adopted_manifest_version)).collect();
    assert_eq!(of_update, [(State::Installing, 3), (State::Installed, 3)]);
}

#[test]
fn retries_a_failed_deployment_without_restarting_healthy_ones() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["db", "web", "ui"], "1.0.0"), yaml(2, "gw", &["db"], "1.0.0")]);
    bench.script = toml::from_str(
        "rule = [{application = \"app-1\", component = \"web\", fail = 3, message = \"image not found\"}]",
    )
    .unwrap();
    bench.run_for(Duration::from_secs(15), &mut server);
    let status = server.last_status(1).clone();
    assert_eq!(status.state, State::Failed);
    assert_eq!(server.last_status(2).state, State::Installed);
    // ST-07
    let error = status.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.source.as_str(), error.message.as_str()),
        (
            "301",
            "app-1",
            "image not found; running parts are kept, the rest is retried (failure policy `keep-partial`)"
        )
    );
    assert_eq!(status.components[1].error.as_ref().unwrap().source, "web");
    assert_eq!([status.components[0].state, status.components[2].state], [State::Installed, State::Pending]);
    bench.converge(&mut server);
    assert_eq!((starts(&bench, 1, "db"), starts(&bench, 2, "db")), (1, 1));
    assert_eq!(server.last_status(1).state, State::Installed);
}

#[test]
fn settles_as_failed_when_only_failures_are_left() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.script = toml::from_str("rule = [{fail = \"always\"}]").unwrap();
    bench.run_for(Duration::from_secs(14), &mut server);
    assert_eq!(bench.machine.settled(), Settled::Failed);
    assert_eq!(bench.machine.reconciled_version(), None);
}

#[test]
fn a_component_over_its_timeout_fails() {
    // AD-03
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![timed(1, "0m30s")]);
    bench.stuck = true;
    bench.run_for(Duration::from_secs(50), &mut server);
    let failed = server.statuses.iter().find(|status| status.state == State::Failed).expect("it failed");
    assert_eq!(failed.error.as_ref().unwrap().code, "302");
    bench.stuck = false;
    bench.converge(&mut server);
}

fn timed(number: u8, timeout: &str) -> margrave_core::publish::ServedDeployment {
    let plain = yaml(number, "gw", &["web"], "1.0.0");
    let text = String::from_utf8(plain.yaml).unwrap();
    let yaml =
        text.replace("revision: 1.0.0\n", &format!("revision: 1.0.0\n          timeout: {timeout}\n")).into_bytes();
    margrave_core::publish::ServedDeployment { id: plain.id, digest: margo::Digest::of(&yaml), yaml }
}

#[test]
fn a_clock_that_jumps_forward_does_not_make_running_work_late() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![timed(1, "0m30s")]);
    bench.stuck = true;
    bench.run_for(Duration::from_secs(12), &mut server);
    bench.now = bench.now.plus(Duration::from_hours(24 * 365));
    bench.feed(Input::Tick, &mut server);
    bench.run_for(Duration::from_secs(5), &mut server);
    assert_ne!(server.last_status(1).state, State::Failed);
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_the_polls() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    bench.converge(&mut server);
    bench.now = margrave_core::time::Timestamp(0);
    bench.feed(Input::Tick, &mut server);
    let before = server.polls().len();
    bench.run_for(minutes(5), &mut server);
    assert!(server.polls().len() >= before + 3);
}

#[test]
fn removes_absent_deployments_and_reports_the_version() {
    // DS-24 step 6, ST-11
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0"), yaml(2, "gw", &["db"], "1.0.0")]);
    bench.converge(&mut server);
    let version = server.publish(vec![yaml(2, "gw", &["db"], "1.0.0")]);
    bench.converge(&mut server);
    assert_eq!(bench.running(), [id(2)]);
    let of_one: Vec<_> = server.statuses.iter().filter(|status| status.deployment_id == id(1)).collect();
    let (last, before) = (of_one[of_one.len() - 1], of_one[of_one.len() - 2]);
    assert_eq!((last.state, last.adopted_manifest_version), (State::Removed, version));
    assert_eq!((before.state, before.adopted_manifest_version), (State::Removing, version));
    assert_eq!(last.components[0].state, State::Removed);
}

#[test]
fn repairs_drift_without_touching_the_rest() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["db", "web"], "1.0.0")]);
    bench.converge(&mut server);
    bench.world.deployments[&id(1)].components.shift_remove("web");
    bench.run_for(minutes(2), &mut server);
    assert_eq!((starts(&bench, 1, "db"), starts(&bench, 1, "web")), (1, 1));
    assert_eq!(server.last_status(1).state, State::Installed);
}

#[test]
fn removes_a_component_that_left_the_document() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["db", "web"], "1.0.0")]);
    bench.converge(&mut server);
    server.publish(vec![yaml(1, "gw", &["db"], "2.0.0")]);
    bench.converge(&mut server);
    assert_eq!(bench.world.deployments[&id(1)].components.keys().collect::<Vec<_>>(), ["db"]);
}

#[test]
fn stops_work_that_a_newer_manifest_does_not_contain() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.stuck = true;
    bench.run_for(Duration::from_secs(30), &mut server);
    server.publish(vec![yaml(1, "gw", &["web"], "2.0.0")]);
    bench.run_for(minutes(2), &mut server);
    assert!(bench.trace.iter().any(|effect| matches!(effect, Effect::Cancel(_))));
    bench.stuck = false;
    bench.run_for(minutes(11), &mut server);
    bench.converge(&mut server);
    assert_eq!(bench.world.deployments[&id(1)].components["web"].digest, server.deployments[0].digest);
}

#[test]
fn an_ineligible_device_fails_the_deployment_without_applying_it() {
    // CON-04
    let rules = "    deviceConstraints:\n      eligibilityRules:\n        - labelSelector:\n            matchExpressions:\n              - key: line\n                operator: In\n                values: [b]\n";
    let too_big = "    deviceConstraints:\n      capacityRequirements:\n        memory: 64Gi\n";
    for (extra, code) in [(rules, "205"), (too_big, "204")] {
        let (mut bench, mut server) = (Bench::new(), Server::new());
        server.publish(vec![yaml_with(1, "gw", &["web"], "1.0.0", extra), yaml(2, "gw", &["db"], "1.0.0")]);
        bench.run_for(minutes(1), &mut server);
        let status = server.last_status(1);
        assert_eq!((status.state, status.error.as_ref().unwrap().code.as_str()), (State::Failed, code));
        assert_eq!(bench.running(), [id(2)]);
        let first = server.statuses.len();
        bench.run_for(minutes(30), &mut server);
        assert_eq!(server.statuses.len(), first, "the same refusal is reported once");
    }
}

#[test]
fn an_unusable_document_fails_only_its_deployment() {
    // W-22, DS-04
    let mut odd = yaml(1, "gw", &["web"], "1.0.0");
    odd.yaml = b"just: text\n".to_vec();
    odd.digest = margo::Digest::of(&odd.yaml);
    let mut other = yaml(3, "gw", &["web"], "1.0.0");
    other.id = id(2);
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![odd, other, yaml(4, "gw", &["web"], "1.0.0")]);
    bench.run_for(minutes(1), &mut server);
    assert_eq!(server.last_status(1).error.as_ref().unwrap().code, "201");
    assert_eq!(server.last_status(2).error.as_ref().unwrap().code, "202");
    assert_eq!(server.last_status(4).state, State::Installed);
}

#[test]
fn starts_accepted_workloads_after_a_cold_boot_without_server() {
    // invariant 6
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    bench.world = crate::runtimes::simulated::world::World::default();
    bench.crash();
    server.twist = Some(Box::new(|_| {
        Some(Answer::Failed { code: crate::Code::ServerUnreachable, message: "no route".to_owned() })
    }));
    bench.run_for(minutes(1), &mut server);
    assert_eq!(bench.running(), [id(1)]);
}

#[test]
fn an_unobservable_runtime_changes_nothing() {
    // invariant 9
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.publish(vec![]);
    bench.blind = true;
    bench.run_for(minutes(5), &mut server);
    assert_eq!(bench.machine.accepted_version(), Some(server.publication.version));
    assert_eq!(bench.running(), [id(1)], "nothing is removed while the runtime cannot be observed");
    assert!(bench.machine.report(bench.now).troubles.iter().any(|trouble| trouble.code.number() == "305"));
    assert_eq!(server.last_status(1).error.as_ref().unwrap().code, "305", "the report says what it waits for");
    bench.blind = false;
    bench.converge(&mut server);
    assert!(bench.running().is_empty());
}

#[test]
fn reports_waiting_for_the_runtime_until_it_answers() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    bench.blind = true;
    bench.run_for(minutes(2), &mut server);
    assert!(server.last_status(1).error.is_none(), "nothing waits");
    let before = server.last_status(1).adopted_manifest_version;
    server.publish(vec![yaml(1, "gw", &["web"], "2.0.0"), yaml(2, "gw", &["web"], "1.0.0")]);
    bench.run_for(minutes(2), &mut server);
    let (changed, new) = (server.last_status(1), server.last_status(2));
    assert_eq!(
        (changed.state, changed.adopted_manifest_version),
        (State::Installed, before),
        "the running state is unchanged"
    );
    assert_eq!((changed.error.as_ref().unwrap().code.as_str(), new.state), ("305", State::Pending));
    assert_eq!(new.error.as_ref().unwrap().code, "305");
    let last_reported = server.statuses.len();
    bench.run_for(minutes(5), &mut server);
    assert_eq!(server.statuses.len(), last_reported, "reported once");
    bench.blind = false;
    bench.converge(&mut server);
    for number in [1, 2] {
        assert_eq!(
            (server.last_status(number).state, server.last_status(number).error.clone()),
            (State::Installed, None)
        );
    }
}

//! Policies of deployments: drift, failure, reboot.

use super::bench::*;
use crate::machine::Settled;
use crate::machine::io::*;
use margo::status::{DeploymentStatus, State};
use margrave_core::publish::ServedDeployment;
use std::time::Duration;

/// A deployment of `db` and `web` with this policy.
fn with(revision: &str, policy: &str) -> ServedDeployment {
    let plain = yaml(1, "gw", &["db", "web"], revision);
    let text = String::from_utf8(plain.yaml).unwrap();
    let extension = format!("spec:\n  x-margrave-extensions:\n    policy: {{{policy}}}\n");
    let yaml = text.replacen("spec:\n", &extension, 1).into_bytes();
    ServedDeployment { id: plain.id, digest: margo::Digest::of(&yaml), yaml }
}

fn minutes(count: u64) -> Duration {
    Duration::from_mins(count)
}

fn starts(bench: &Bench, component: &str) -> u32 {
    bench.world.deployments[&id(1)].components[component].starts
}

fn digest(bench: &Bench, component: &str) -> margo::Digest {
    bench.world.deployments[&id(1)].components[component].digest.clone()
}

fn stop(bench: &mut Bench, component: &str) {
    let components = &mut bench.world.deployments.get_mut(&id(1)).unwrap().components;
    components.get_mut(component).unwrap().stopped = Some("stopped by hand".to_owned());
}

fn message(status: &DeploymentStatus) -> &str {
    status.error.as_ref().map_or("", |error| error.message.as_str())
}

fn running(policy: &str) -> (Bench, Server) {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    bench.disk.boot = Some("boot-1".to_owned());
    bench.crash();
    server.publish(vec![with("1.0.0", policy)]);
    bench.converge(&mut server);
    server.statuses.clear();
    (bench, server)
}

#[test]
fn repairs_drift_and_reports_the_differences() {
    let (mut bench, mut server) = running("");
    stop(&mut bench, "web");
    bench.run_for(minutes(1), &mut server);
    assert_eq!((starts(&bench, "db"), starts(&bench, "web")), (1, 2), "only drifted components are touched");
    let repair =
        server.statuses.iter().find(|status| status.state == State::Installing).expect("the repair is reported");
    assert_eq!(repair.error.as_ref().unwrap().code, "401");
    assert_eq!(message(repair), "`web` is not running: stopped by hand; repairing");
    assert_eq!(repair.components[1].error.as_ref().unwrap().source, "web");
    let last = server.last_status(1);
    assert_eq!((last.state, last.error.as_ref()), (State::Installed, None));
    assert!(bench.codes().contains(&"401"));
}

#[test]
fn detects_manual_changes_at_once_after_an_event() {
    let (mut bench, mut server) = running("");
    let components = &mut bench.world.deployments.get_mut(&id(1)).unwrap().components;
    components.get_mut("db").unwrap().differs = vec!["replicas 1 instead of 3".to_owned()];
    bench.feed(Input::RuntimeChanged, &mut server);
    bench.run_for(Duration::from_secs(1), &mut server);
    assert_eq!((starts(&bench, "db"), starts(&bench, "web")), (2, 1));
    let repair = server.statuses.iter().find(|status| status.state == State::Installing).unwrap();
    assert_eq!(message(repair), "`db` replicas 1 instead of 3; repairing");
}

#[test]
fn drift_report_reports_without_correcting() {
    let (mut bench, mut server) = running("drift: report");
    stop(&mut bench, "web");
    bench.run_for(minutes(10), &mut server);
    assert_eq!((starts(&bench, "db"), starts(&bench, "web")), (1, 1));
    let last_reported = server.last_status(1).clone();
    assert_eq!((last_reported.state, last_reported.error.as_ref().unwrap().code.as_str()), (State::Failed, "401"));
    assert_eq!(message(&last_reported), "`web` is not running: stopped by hand; not corrected (drift policy `report`)");
    assert_eq!(
        [last_reported.components[0].state, last_reported.components[1].state],
        [State::Installed, State::Failed]
    );
    assert_eq!(server.statuses.len(), 1, "the same drift is reported once");
    // A restart of the agent changes nothing.
    bench.crash();
    bench.run_for(minutes(2), &mut server);
    assert_eq!(starts(&bench, "web"), 1);
    // It is started again manually.
    bench.world.deployments.get_mut(&id(1)).unwrap().components.get_mut("web").unwrap().stopped = None;
    bench.run_for(minutes(2), &mut server);
    assert_eq!((server.last_status(1).state, starts(&bench, "web")), (State::Installed, 1));
}

#[test]
fn drift_report_does_not_restore_missing_components() {
    let (mut bench, mut server) = running("drift: report");
    bench.world.deployments.clear();
    bench.run_for(minutes(5), &mut server);
    assert!(bench.running().is_empty());
    assert_eq!(
        message(server.last_status(1)),
        "`db` is missing, `web` is missing; not corrected (drift policy `report`)"
    );
}

#[test]
fn drift_ignore_neither_corrects_nor_reports() {
    let (mut bench, mut server) = running("drift: ignore");
    stop(&mut bench, "web");
    bench.run_for(minutes(10), &mut server);
    assert_eq!(starts(&bench, "web"), 1);
    assert!(server.statuses.is_empty());
    assert_eq!(bench.machine.settled(), Settled::UpToDate);
}

#[test]
fn restarts_workloads_after_reboot_with_every_drift_policy() {
    for policy in ["", "drift: report", "drift: ignore"] {
        let (mut bench, mut server) = running(policy);
        bench.disk.boot = Some("boot-2".to_owned());
        stop(&mut bench, "web");
        bench.crash();
        bench.run_for(minutes(2), &mut server);
        assert_eq!((starts(&bench, "db"), starts(&bench, "web")), (1, 2), "{policy}");
        assert!(!bench.codes().contains(&"401"), "stopped workloads after a reboot are not drift");
        assert_eq!(bench.disk.revisions.boot.as_deref(), Some("boot-2"));
    }
}

#[test]
fn keeps_manually_stopped_containers_stopped_after_reboot_with_drift_report() {
    let (mut bench, mut server) = running("drift: report");
    stop(&mut bench, "web");
    bench.run_for(minutes(2), &mut server);
    bench.disk.boot = Some("boot-2".to_owned());
    bench.crash();
    bench.run_for(minutes(5), &mut server);
    assert_eq!(starts(&bench, "web"), 1);
}

fn fails(bench: &mut Bench, rule: &str) {
    bench.script =
        toml::from_str(&format!("rule = [{{component = \"web\", {rule}, message = \"image not found\"}}]")).unwrap();
}

#[test]
fn keep_partial_keeps_running_parts_and_retries_the_rest() {
    let (mut bench, mut server) = running("");
    fails(&mut bench, "fail = 3");
    server.publish(vec![with("2.0.0", "")]);
    bench.run_for(minutes(2), &mut server);
    let failed = server.statuses.iter().find(|status| status.state == State::Failed).unwrap();
    assert_eq!(
        message(failed),
        "image not found; running parts are kept, the rest is retried (failure policy `keep-partial`)"
    );
    assert_eq!([failed.components[0].state, failed.components[1].state], [State::Installed, State::Failed]);
    bench.converge(&mut server);
    assert_eq!(starts(&bench, "db"), 2, "once for the update, never for a retry");
}

#[test]
fn rolls_back_to_the_last_good_revision_and_stays_there() {
    let (mut bench, mut server) = running("onFailure: rollback");
    let good = server.deployments[0].digest.clone();
    fails(&mut bench, "fail = 1");
    let version = server.publish(vec![with("2.0.0", "onFailure: rollback")]);
    bench.run_for(minutes(30), &mut server);
    assert_eq!((digest(&bench, "db"), digest(&bench, "web")), (good.clone(), good.clone()));
    let last = server.last_status(1).clone();
    assert_eq!((last.state, last.adopted_manifest_version), (State::Failed, version));
    assert_eq!(
        message(&last),
        format!(
            "image not found; rolled back to revision {}, which is running (failure policy `rollback`)",
            &good.hex()[..12]
        )
    );
    let codes: Vec<_> =
        last.components.iter().map(|component| component.error.as_ref().unwrap().code.clone()).collect();
    assert_eq!(codes, ["403", "301"]);
    assert_eq!(bench.machine.settled(), Settled::Failed);
    assert_ne!(bench.machine.reconciled_version(), Some(version));
    // It does not flap: not over time, not after a crash, and not when another deployment changes.
    let before = starts(&bench, "web");
    bench.crash();
    bench.run_for(minutes(30), &mut server);
    server.publish(vec![with("2.0.0", "onFailure: rollback"), yaml(2, "gw", &["db"], "1.0.0")]);
    bench.run_for(minutes(30), &mut server);
    assert_eq!((starts(&bench, "web"), digest(&bench, "web")), (before, good));
    assert_eq!(server.last_status(2).state, State::Installed);
    // The next revision is applied.
    bench.script = toml::from_str("").unwrap();
    server.publish(vec![with("3.0.0", "onFailure: rollback")]);
    bench.converge(&mut server);
    assert_eq!(digest(&bench, "web"), server.deployments[0].digest);
    assert_eq!(server.last_status(1).state, State::Installed);
}

#[test]
fn rollback_survives_a_crash_at_every_step() {
    for cut in 1..40 {
        let (mut bench, mut server) = running("onFailure: rollback");
        let good = server.deployments[0].digest.clone();
        fails(&mut bench, "fail = \"always\"");
        server.publish(vec![with("2.0.0", "onFailure: rollback")]);
        let started = bench.trace.len();
        // Executes only this many effects, then crashes.
        while bench.trace.len() < started + cut * 3 {
            bench.step(&mut server);
        }
        bench.crash();
        // The previous revision is not the failing one.
        bench.script = toml::from_str("").unwrap();
        let failing = server.deployments[0].digest.clone();
        if bench.disk.revisions.deployments[&id(1)].abandoned.is_none() {
            continue;
        }
        bench.run_for(minutes(5), &mut server);
        assert_eq!(digest(&bench, "web"), good, "cut {cut}, not {failing}");
    }
}

#[test]
fn retries_a_failed_first_install_without_rollback() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    fails(&mut bench, "fail = 2");
    server.publish(vec![with("1.0.0", "onFailure: rollback")]);
    bench.converge(&mut server);
    let failed = server.statuses.iter().find(|status| status.state == State::Failed).unwrap();
    assert!(message(failed).contains("there is no earlier revision to roll back to"), "{}", message(failed));
    assert_eq!(starts(&bench, "db"), 1);
}

#[test]
fn stop_waits_until_the_deployment_changes() {
    let (mut bench, mut server) = running("onFailure: stop");
    fails(&mut bench, "fail = 1");
    server.publish(vec![with("2.0.0", "onFailure: stop")]);
    bench.run_for(minutes(60), &mut server);
    let last = server.last_status(1).clone();
    assert_eq!(
        message(&last),
        "image not found; stopped until an operator changes the deployment (failure policy `stop`)"
    );
    assert_eq!([last.components[0].state, last.components[1].state], [State::Installed, State::Failed]);
    assert_eq!(bench.machine.settled(), Settled::Failed);
    let before = starts(&bench, "web");
    bench.crash();
    bench.run_for(minutes(60), &mut server);
    assert_eq!(starts(&bench, "web"), before, "not retried, not even after a restart");
    bench.script = toml::from_str("").unwrap();
    server.publish(vec![with("2.0.1", "onFailure: stop")]);
    bench.converge(&mut server);
    assert_eq!(server.last_status(1).state, State::Installed);
}

#[test]
fn waits_for_an_unavailable_engine_with_every_policy() {
    for policy in ["onFailure: stop", "onFailure: rollback", ""] {
        let (mut bench, mut server) = running(policy);
        bench.blind = true;
        server.publish(vec![with("2.0.0", policy)]);
        bench.run_for(minutes(60), &mut server);
        assert_eq!(starts(&bench, "web"), 1, "{policy}");
        bench.blind = false;
        bench.converge(&mut server);
        assert_eq!(digest(&bench, "web"), server.deployments[0].digest, "{policy}");
    }
}

#[test]
fn a_maintenance_hold_stops_changes_and_reports_the_reason() {
    let (mut bench, mut server) = running("");
    let version = bench.machine.accepted_version().unwrap();
    let hold = Hold { reason: "changing the fan".to_owned(), until: bench.now.plus(minutes(120)) };
    bench.feed(Input::Hold(Some(hold.clone())), &mut server);
    server.publish(vec![with("2.0.0", ""), yaml(2, "gw", &["db"], "1.0.0")]);
    stop(&mut bench, "web");
    bench.run_for(minutes(60), &mut server);
    assert_eq!((starts(&bench, "db"), starts(&bench, "web")), (1, 1));
    assert_eq!(bench.running(), [id(1)]);
    let waits = format!("waiting: maintenance hold on the device until {}: changing the fan", hold.until);
    let (one, two) = (server.last_status(1), server.last_status(2));
    // ST-05: the version changes when the apply starts.
    assert_eq!((message(one), one.adopted_manifest_version), (waits.as_str(), version));
    assert_eq!((two.state, message(two)), (State::Pending, waits.as_str()));
    assert_eq!(bench.machine.settled(), Settled::Working);
    bench.feed(Input::Hold(None), &mut server);
    bench.converge(&mut server);
    assert_eq!(server.last_status(1).error, None);
    assert_eq!(server.last_status(2).state, State::Installed);
}

#[test]
fn a_hold_without_pending_changes_leaves_no_report() {
    let (mut bench, mut server) = running("");
    let first = server.deployments.clone();
    bench.feed(Input::Hold(Some(Hold { reason: "x".to_owned(), until: bench.now })), &mut server);
    server.publish(vec![with("2.0.0", "")]);
    bench.run_for(minutes(5), &mut server);
    assert_eq!(server.last_status(1).error.as_ref().unwrap().code, "402");
    server.publish(first);
    bench.run_for(minutes(5), &mut server);
    bench.feed(Input::Hold(None), &mut server);
    bench.converge(&mut server);
    assert_eq!((server.last_status(1).state, server.last_status(1).error.as_ref()), (State::Installed, None));
    assert_eq!((starts(&bench, "db"), starts(&bench, "web")), (1, 1));
}

#[test]
fn reconnecting_leaves_healthy_workloads_untouched() {
    let (mut bench, mut server) = running("");
    server.twist = Some(Box::new(|_| {
        Some(Answer::Failed { code: crate::Code::ServerUnreachable, message: "no route".to_owned() })
    }));
    for _day in 0..14 {
        bench.run_for(Duration::from_hours(24), &mut server);
    }
    bench.crash();
    bench.run_for(Duration::from_hours(24), &mut server);
    server.twist = None;
    server.publish(vec![server.deployments[0].clone(), yaml(2, "gw", &["db"], "1.0.0")]);
    bench.converge(&mut server);
    assert_eq!((starts(&bench, "db"), starts(&bench, "web")), (1, 1));
    assert_eq!(server.last_status(2).state, State::Installed);
}

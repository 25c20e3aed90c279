//! Destructive commands need a confirmation.

use crate::support::{Device, Server, until};
use serde_json::json;

#[test]
fn deleting_requires_yes_without_a_terminal() {
    let server = Server::with_samples();
    server.run(&["app", "delete", "line-monitor", "1.0.0"]).check(
        2,
        "",
        "error: Remove line-monitor 1.0.0 from the catalog? Cannot ask for confirmation: not a terminal.\nnext: add --yes\n",
    );
    assert_eq!(server.run(&["app", "delete", "line-monitor", "1.0.0", "--yes"]).code, 0);
    let seen = server.run(&["app", "show", "line-monitor"]);
    assert!(!seen.stdout.contains("1.0.0"), "{}", seen.stdout);
}

#[test]
fn a_removal_shows_its_scope_and_requires_confirmation() {
    let server = Server::with_samples();
    let _one = Device::start(&server, "one", "8Gi", "");
    let _two = Device::start(&server, "two", "8Gi", "");
    let deploy = ["deploy", "vibration-analytics", "--all", "--set", "machineClass=class-2", "--wait"];
    assert_eq!(server.run(&deploy).code, 0);
    let remove = ["deployment", "remove", "--app", "vibration-analytics", "--all"];
    server.run(&remove).check(
        2,
        "",
        "error: Remove vibration-analytics from 2 devices? Cannot ask for confirmation: not a terminal.\nnext: add --yes\n",
    );
    // A dry run needs no confirmation.
    assert_eq!(server.run(&[&remove[..], &["--dry-run"]].concat()).code, 0);
    assert_eq!(server.json(&["rollout", "list"]).as_array().unwrap().len(), 1);
    assert_eq!(server.run(&[&remove[..], &["--yes", "--wait"]].concat()).code, 0);
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
}

#[test]
fn every_destructive_command_requires_confirmation() {
    let server = Server::start();
    let _press = Device::start(&server, "press", "8Gi", "");
    assert_eq!(server.run(&["group", "put", "all", "--selector", "!spare"]).code, 0);
    let token = server.json(&["token", "create", "ci"])["id"].as_str().unwrap().to_owned();
    for (command, question) in [
        (["device", "delete", "press"], "Delete device press?"),
        (["group", "delete", "all"], "Delete group all? It has 1 device; devices are not deleted."),
        (["token", "revoke", token.as_str()], "Revoke token <uuid> of `ci`?"),
        (["client", "decommission", "press"], "Decommission client press?"),
    ] {
        let stderr = format!("error: {question} Cannot ask for confirmation: not a terminal.\nnext: add --yes\n");
        server.run(&command).check(2, "", &stderr);
    }
    assert_eq!(server.json(&["client", "show", "press"])["state"], "accepted");
}

#[test]
fn waits_for_a_single_deployment() {
    let server = Server::with_samples();
    let _here = Device::start(&server, "here", "8Gi", "");
    drop(Device::start(&server, "gone", "8Gi", ""));
    assert_eq!(server.run(&["deploy", "vibration-analytics", "--all", "--set", "machineClass=class-2"]).code, 0);
    let id = |device: &str| {
        until("deployment", || {
            let all = server.json(&["deployment", "list", "--device", device]);
            all[0]["id"].as_str().map(str::to_owned)
        })
    };
    let waited = server.json(&["deployment", "wait", &id("here")[..13], "-q"]);
    assert_eq!((&waited[0]["device"], &waited[0]["state"]), (&json!("here"), &json!("up-to-date")));
    let seen = server.run(&["deployment", "wait", &id("here"), &id("gone"), "--timeout", "0s", "-q"]);
    assert_eq!((seen.code, &*seen.stdout), (7, ""), "{}", seen.stderr);
    assert!(
        seen.stderr.starts_with("error: 1 of 2 deployments not up to date after 0 s\n  - gone: "),
        "{}",
        seen.stderr
    );
    assert!(
        seen.stderr.ends_with("next: `margrave deployment wait <uuid> <uuid>` resumes waiting\n"),
        "{}",
        seen.stderr
    );
}

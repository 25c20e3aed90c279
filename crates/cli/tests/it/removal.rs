//! Taking something away needs a yes.

use crate::support::{Device, Server, until};
use serde_json::json;

#[test]
fn taking_away_needs_a_yes_where_nobody_can_be_asked() {
    let server = Server::with_samples();
    server.run(&["app", "delete", "line-monitor", "1.0.0"]).check(
        2,
        "",
        "error: Remove line-monitor 1.0.0 from the catalog? Nobody can be asked here.\nnext: add --yes\n",
    );
    assert_eq!(server.run(&["app", "delete", "line-monitor", "1.0.0", "--yes"]).code, 0);
    let seen = server.run(&["app", "show", "line-monitor"]);
    assert!(!seen.stdout.contains("1.0.0"), "{}", seen.stdout);
}

#[test]
fn a_removal_names_what_and_how_many_and_does_nothing_without_a_yes() {
    let server = Server::with_samples();
    let _one = Device::start(&server, "one", "8Gi", "");
    let _two = Device::start(&server, "two", "8Gi", "");
    let deploy = ["deploy", "vibration-analytics", "--all", "--set", "machineClass=class-2", "--wait"];
    assert_eq!(server.run(&deploy).code, 0);
    let remove = ["deployment", "remove", "--app", "vibration-analytics", "--all"];
    server.run(&remove).check(
        2,
        "",
        "error: Remove vibration-analytics from 2 device(s)? Nobody can be asked here.\nnext: add --yes\n",
    );
    // Looking needs no yes.
    assert_eq!(server.run(&[&remove[..], &["--dry-run"]].concat()).code, 0);
    assert_eq!(server.json(&["change", "list"]).as_array().unwrap().len(), 1);
    assert_eq!(server.run(&[&remove[..], &["--yes", "--wait"]].concat()).code, 0);
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
}

#[test]
fn every_command_that_takes_away_needs_a_yes() {
    let server = Server::start();
    let _press = Device::start(&server, "press", "8Gi", "");
    assert_eq!(server.run(&["group", "put", "all", "--selector", "!spare"]).code, 0);
    let token = server.json(&["token", "create", "ci"])["id"].as_str().unwrap().to_owned();
    for (command, question) in [
        (["device", "delete", "press"], "Forget device press and the 0 device(s) behind it?"),
        (["group", "delete", "all"], "Remove group all? Its 1 device(s) stay."),
        (["token", "revoke", token.as_str()], "Revoke token <uuid> of `ci`?"),
        (["client", "retire", "press"], "Shut client press out?"),
    ] {
        let stderr = format!("error: {question} Nobody can be asked here.\nnext: add --yes\n");
        server.run(&command).check(2, "", &stderr);
    }
    assert_eq!(server.json(&["client", "show", "press"])["state"], "accepted");
}

#[test]
fn a_deployment_is_waited_for_alone() {
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
    assert_eq!((&waited[0]["device"], &waited[0]["convergence"]), (&json!("here"), &json!("converged")));
    let seen = server.run(&["deployment", "wait", &id("here"), &id("gone"), "--timeout", "0s", "-q"]);
    assert_eq!((seen.code, &*seen.stdout), (7, ""), "{}", seen.stderr);
    assert!(seen.stderr.starts_with("error: 1 of 2 deployment(s) not there after 0 s\n  - gone: "), "{}", seen.stderr);
    assert!(
        seen.stderr.ends_with("next: `margrave deployment wait <uuid> <uuid>` goes on waiting\n"),
        "{}",
        seen.stderr
    );
}

//! From an intent to a device and back.

use crate::support::{Device, Server, margrave, until};
use serde_json::json;

const FAILING: &str = "[[rule]]\ncomponent = \"analyser\"\nfail = \"always\"\nmessage = \"no sensor\"\n";

#[test]
fn missing_answers_are_named_where_nobody_can_be_asked() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    server.run(&["deploy", "line-monitor", "--device", "press"]).check(
        2,
        "",
        "error: line-monitor needs answers that nobody gave
  - lineName: Production line, Line name (2 to 40 characters)
next: add --set lineName=…, or a file with --values FILE
",
    );
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
}

#[test]
fn a_wrong_answer_is_refused_with_its_rule() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let seen = server.run(&[
        "deploy",
        "line-monitor",
        "--device",
        "press",
        "--set",
        "lineName=A line",
        "--set",
        "sampleSeconds=99",
    ]);
    assert_eq!((seen.code, &*seen.stdout), (6, ""));
    assert!(seen.stderr.contains("  - answers.sampleSeconds: "), "{}", seen.stderr);
    assert!(seen.stderr.contains("at most 60, is 99"), "{}", seen.stderr);
}

#[test]
fn a_dry_run_shows_the_difference_and_changes_nothing() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let deploy = ["deploy", "line-monitor@1.0.0", "--device", "press", "--set", "lineName=Press 7", "--dry-run"];
    let seen = server.run(&deploy);
    assert_eq!((seen.code, &*seen.stderr), (0, ""));
    assert!(seen.stdout.starts_with("press: new, profile line-monitor-compose\n  + id: "), "{}", seen.stdout);
    assert!(seen.stdout.contains("\n  +       value: Press 7\n"), "{}", seen.stdout);
    let end = "\nInstalls line-monitor 1.0.0 on 1 device(s). Nothing was changed (dry run).\n";
    assert!(seen.stdout.ends_with(end), "{}", seen.stdout);
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
    assert_eq!(server.json(&["change", "list"]), json!([]));
}

#[test]
fn an_answer_file_and_a_flag_reach_the_device_and_wait_says_so() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let values = server.folder.path().join("values.yaml");
    std::fs::write(&values, "lineName: From a file\nsampleSeconds: 10\n").unwrap();
    let seen = server.run(&[
        "deploy",
        "line-monitor@1.0.0",
        "--device",
        "press",
        "--values",
        values.to_str().unwrap(),
        "--set",
        "sampleSeconds=20",
        "--reason",
        "a test",
        "--wait",
    ]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stderr.starts_with("Change <uuid> covers 1 device(s).\n"), "{}", seen.stderr);
    assert!(seen.stderr.ends_with("press: installed\nDone on 1 device(s).\n"), "{}", seen.stderr);
    let deployments = server.json(&["deployment", "list"]);
    assert_eq!(deployments[0]["convergence"], "converged");
    assert_eq!(deployments[0]["values"]["lineName"], "From a file");
    assert_eq!(deployments[0]["values"]["sampleSeconds"], 20);
    let id = deployments[0]["id"].as_str().unwrap();
    let document = server.command(&["deployment", "document", id]).output().unwrap();
    let document = String::from_utf8(document.stdout).unwrap();
    assert!(document.contains("value: From a file\n"), "{document}");
    assert_eq!(server.json(&["deployment", "document", id]), json!({ "yaml": document }));

    let seen = server.run(&["deployment", "upgrade", &id[..8], "--to", "1.1.0", "--dry-run"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(
        seen.stdout.contains("  -           revision: \"1.0.0\"\n  +           revision: \"1.1.0\"\n"),
        "{}",
        seen.stdout
    );
    let seen = server.run(&["deployment", "upgrade", "--app", "line-monitor", "--all", "--to", "1.1.0", "--wait"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    let seen = server.run(&["deployment", "remove", id, "--wait", "--yes"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stderr.ends_with("press: removed\nDone on 1 device(s).\n"), "{}", seen.stderr);
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
    let history = server.json(&["deployment", "history", id]);
    let actions: Vec<_> =
        history["revisions"].as_array().unwrap().iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["remove", "upgrade", "create"]);
    let seen = server.run(&["audit", "verify"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
}

#[test]
fn a_component_that_fails_is_named_and_the_exit_code_says_so() {
    let server = Server::with_samples();
    let _good = Device::start(&server, "good", "8Gi", "");
    let _bad = Device::start(&server, "bad", "8Gi", FAILING);
    let seen = server.run(&["deploy", "vibration-analytics", "--all", "--set", "machineClass=class-2", "--wait", "-q"]);
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert!(seen.stdout.contains("Published      2 of 2\n"), "{}", seen.stdout);
    assert!(
        seen.stderr.starts_with(
            "error: change <uuid>: 1 of 2 device(s) did not get there\n  - bad: component analyser failed: no sensor (code 301)\n"
        ),
        "{}",
        seen.stderr
    );
    assert!(seen.stderr.contains("next: `margrave deployment show <uuid>` tells more"), "{}", seen.stderr);
}

#[test]
fn waiting_for_a_device_that_is_not_there_ends_with_its_own_code() {
    let server = Server::with_samples();
    drop(Device::start(&server, "gone", "8Gi", ""));
    let change = server.json(&["deploy", "vibration-analytics", "--device", "gone", "--set", "machineClass=class-2"]);
    let id = change["id"].as_str().unwrap();
    until("deployment", || (server.json(&["deployment", "list"]) != json!([])).then_some(()));
    let seen = server.run(&["change", "wait", id, "--timeout", "0s", "-q"]);
    assert_eq!((seen.code, &*seen.stdout), (7, ""), "{}", seen.stderr);
    assert!(seen.stderr.contains("1 of 1 device(s) not there after 0 s\n  - gone: "), "{}", seen.stderr);
    assert!(seen.stderr.contains("next: the change goes on; `margrave change wait <uuid>`"), "{}", seen.stderr);
}

#[test]
fn devices_that_do_not_fit_are_refused_or_left_out_as_asked() {
    let server = Server::with_samples();
    let _large = Device::start(&server, "large", "8Gi", "");
    let _small = Device::start(&server, "small", "512Mi", "");
    let deploy = ["deploy", "vibration-analytics", "--all", "--set", "machineClass=class-2"];
    let seen = server.run(&deploy);
    assert_eq!((seen.code, &*seen.stdout), (6, ""));
    assert!(seen.stderr.contains("  - small/small: "), "{}", seen.stderr);
    assert!(seen.stderr.contains("next: `--skip-unfit` leaves these devices out"), "{}", seen.stderr);
    let plan = server.json(&[&deploy[..], &["--skip-unfit", "--dry-run"]].concat());
    assert_eq!(plan["targets"].as_array().unwrap().len(), 1);
    assert_eq!(plan["leftOut"][0]["device"], "small");
    // One device by name: the same flag, by the name it has here.
    let seen = server.run(&["deploy", "vibration-analytics", "--device", "small", "--set", "machineClass=class-2"]);
    assert_eq!(seen.code, 6);
    assert!(seen.stderr.contains("`--skip-unfit`") && !seen.stderr.contains("skipUnfit"), "{}", seen.stderr);
}

#[test]
fn a_selector_that_matches_nothing_points_to_the_labels() {
    let server = Server::with_samples();
    let _press = Device::start(&server, "press", "8Gi", "");
    let deploy = ["deploy", "vibration-analytics", "--set", "machineClass=class-2"];
    let seen = server.run(&[&deploy[..], &["--selector", "site=nowhere"]].concat());
    seen.check(
        6,
        "",
        "error: the selector matches no device; check the labels
next: `margrave device list --selector 'site=nowhere'` shows whom it matches, `margrave device list` all labels
",
    );
}

#[test]
fn json_and_yaml_hold_the_same_and_talk_stays_out() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let json = server.json(&["device", "show", "press"]);
    assert_eq!(json["device"], "press");
    let yaml = server.run(&["device", "show", "press", "-o", "yaml"]);
    assert!(yaml.stdout.starts_with("client: press\ndevice: press\n"), "{}", yaml.stdout);
    assert_eq!(yaml.stderr, "");
    let colourful = server.run(&["device", "list"]);
    assert!(!colourful.stdout.contains('\u{1b}'), "a pipe gets no colours");
}

#[test]
fn labels_and_groups_say_where_to_deploy() {
    let server = Server::with_samples();
    let _press = Device::start(&server, "press", "8Gi", "");
    let _pump = Device::start(&server, "pump", "8Gi", "");
    server.run(&["device", "label", "press", "site=graz", "line=1"]).check(
        0,
        "Device             press\nOperator's labels  line=1,site=graz\n",
        "",
    );
    assert_eq!(server.run(&["group", "put", "graz", "--selector", "site=graz", "--description", "All of it"]).code, 0);
    let devices = server.json(&["group", "devices", "graz"]);
    assert_eq!(devices.as_array().unwrap().len(), 1);
    assert_eq!(devices[0]["device"], "press");
    // A second put changes the group instead of refusing it.
    assert_eq!(server.run(&["group", "put", "graz", "--selector", "site in (graz)"]).code, 0);
    let group = server.json(&["group", "show", "graz"]);
    assert_eq!((&group["selector"], &group["description"]), (&json!("site in (graz)"), &json!("All of it")));
    let plan = server.json(&["deploy", "line-monitor", "--group", "graz", "--set", "lineName=One", "--dry-run"]);
    assert_eq!(plan["targets"].as_array().unwrap().len(), 1);
    assert_eq!(server.run(&["device", "label", "press", "line-"]).code, 0);
    assert_eq!(server.json(&["device", "show", "press"])["operatorLabels"], json!({ "site": "graz" }));
}

#[test]
fn a_device_nobody_has_is_not_found() {
    let server = Server::start();
    server.run(&["device", "show", "none"]).check(
        5,
        "",
        "error: no device `none`\nnext: `margrave device list` shows all; write client/device or the device's id\n",
    );
    let home = tempfile::tempdir().unwrap();
    assert!(margrave(home.path()).arg("--version").status().unwrap().success());
}

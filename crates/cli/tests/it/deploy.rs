//! Deploying to devices and removing again.

use crate::support::{Device, Server, margrave, until};
use serde_json::json;

const FAILING: &str = "[[rule]]\ncomponent = \"analyser\"\nfail = \"always\"\nmessage = \"no sensor\"\n";

#[test]
fn lists_missing_values_without_a_terminal() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    server.run(&["deploy", "line-monitor", "--device", "press"]).check(
        2,
        "",
        "error: line-monitor is missing required values
  - lineName: Production line, Line name (2 to 40 characters)
next: add --set lineName=…, or use --values FILE
",
    );
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
}

#[test]
fn rejects_an_invalid_value_with_its_rule() {
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
    assert!(seen.stderr.contains("  - values.sampleSeconds: "), "{}", seen.stderr);
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
    let end = "\nInstalls line-monitor 1.0.0 on 1 device. Nothing was changed (dry run).\n";
    assert!(seen.stdout.ends_with(end), "{}", seen.stdout);
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
    assert_eq!(server.json(&["rollout", "list"]), json!([]));
}

#[test]
fn deploys_values_from_a_file_and_flags_and_waits_for_the_device() {
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
        "--comment",
        "a test",
        "--wait",
    ]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stderr.starts_with("Rollout <uuid> affects 1 device.\n"), "{}", seen.stderr);
    assert!(seen.stderr.ends_with("press: installed\nCompleted on 1 device.\n"), "{}", seen.stderr);
    let deployments = server.json(&["deployment", "list"]);
    assert_eq!(deployments[0]["state"], "up-to-date");
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
    assert!(seen.stderr.ends_with("press: removed\nCompleted on 1 device.\n"), "{}", seen.stderr);
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
    let history = server.json(&["deployment", "history", id]);
    let actions: Vec<_> =
        history["revisions"].as_array().unwrap().iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["remove", "upgrade", "create"]);
    let seen = server.run(&["audit", "verify"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
}

#[test]
fn names_the_failed_component_and_sets_the_exit_code() {
    let server = Server::with_samples();
    let _good = Device::start(&server, "good", "8Gi", "");
    let _bad = Device::start(&server, "bad", "8Gi", FAILING);
    let seen = server.run(&["deploy", "vibration-analytics", "--all", "--set", "machineClass=class-2", "--wait", "-q"]);
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert!(seen.stdout.contains("Published      2 of 2\n"), "{}", seen.stdout);
    assert!(
        seen.stderr.starts_with(
            "error: rollout <uuid> did not complete on 1 of 2 devices\n  - bad: component analyser failed: no sensor (code 301)\n"
        ),
        "{}",
        seen.stderr
    );
    assert!(seen.stderr.contains("next: `margrave deployment show <uuid>` shows details"), "{}", seen.stderr);
}

#[test]
fn waiting_for_an_offline_device_times_out_with_its_own_exit_code() {
    let server = Server::with_samples();
    drop(Device::start(&server, "gone", "8Gi", ""));
    let rollout = server.json(&["deploy", "vibration-analytics", "--device", "gone", "--set", "machineClass=class-2"]);
    let id = rollout["id"].as_str().unwrap();
    until("deployment", || (server.json(&["deployment", "list"]) != json!([])).then_some(()));
    let seen = server.run(&["rollout", "wait", id, "--timeout", "0s", "-q"]);
    assert_eq!((seen.code, &*seen.stdout), (7, ""), "{}", seen.stderr);
    assert!(seen.stderr.contains("1 of 1 device not up to date after 0 s\n  - gone: "), "{}", seen.stderr);
    assert!(seen.stderr.contains("next: the rollout continues; `margrave rollout wait <uuid>`"), "{}", seen.stderr);
}

#[test]
fn rejects_or_skips_incompatible_devices_as_requested() {
    let server = Server::with_samples();
    let _large = Device::start(&server, "large", "8Gi", "");
    let _small = Device::start(&server, "small", "512Mi", "");
    let deploy = ["deploy", "vibration-analytics", "--all", "--set", "machineClass=class-2"];
    let seen = server.run(&deploy);
    assert_eq!((seen.code, &*seen.stdout), (6, ""));
    assert!(seen.stderr.contains("  - small/small: "), "{}", seen.stderr);
    assert!(seen.stderr.contains("next: `--skip-incompatible` skips these devices"), "{}", seen.stderr);
    let plan = server.json(&[&deploy[..], &["--skip-incompatible", "--dry-run"]].concat());
    assert_eq!(plan["targets"].as_array().unwrap().len(), 1);
    assert_eq!(plan["skipped"][0]["device"], "small");
    // A single device: the message names the flag, not the API field.
    let seen = server.run(&["deploy", "vibration-analytics", "--device", "small", "--set", "machineClass=class-2"]);
    assert_eq!(seen.code, 6);
    assert!(
        seen.stderr.contains("`--skip-incompatible`") && !seen.stderr.contains("skipIncompatible"),
        "{}",
        seen.stderr
    );
}

#[test]
fn a_selector_without_matches_suggests_listing_labels() {
    let server = Server::with_samples();
    let _press = Device::start(&server, "press", "8Gi", "");
    let deploy = ["deploy", "vibration-analytics", "--set", "machineClass=class-2"];
    let seen = server.run(&[&deploy[..], &["--selector", "site=nowhere"]].concat());
    seen.check(
        6,
        "",
        "error: the selector matches no device; check the labels
next: `margrave device list --selector 'site=nowhere'` lists the matching devices, `margrave device list` lists all labels
",
    );
}

#[test]
fn json_and_yaml_have_the_same_data_without_messages() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let json = server.json(&["device", "show", "press"]);
    assert_eq!(json["device"], "press");
    let yaml = server.run(&["device", "show", "press", "-o", "yaml"]);
    assert!(yaml.stdout.starts_with("client: press\ndevice: press\n"), "{}", yaml.stdout);
    assert_eq!(yaml.stderr, "");
    let colorful = server.run(&["device", "list"]);
    assert!(!colorful.stdout.contains('\u{1b}'), "no colors in a pipe");
}

#[test]
fn selects_target_devices_by_labels_and_groups() {
    let server = Server::with_samples();
    let _press = Device::start(&server, "press", "8Gi", "");
    let _pump = Device::start(&server, "pump", "8Gi", "");
    server.run(&["device", "label", "press", "site=graz", "line=1"]).check(
        0,
        "Device           press\nOperator labels  line=1,site=graz\n",
        "",
    );
    assert_eq!(server.run(&["group", "put", "graz", "--selector", "site=graz", "--description", "All of it"]).code, 0);
    let devices = server.json(&["group", "devices", "graz"]);
    assert_eq!(devices.as_array().unwrap().len(), 1);
    assert_eq!(devices[0]["device"], "press");
    // A second put updates the group.
    assert_eq!(server.run(&["group", "put", "graz", "--selector", "site in (graz)"]).code, 0);
    let group = server.json(&["group", "show", "graz"]);
    assert_eq!((&group["selector"], &group["description"]), (&json!("site in (graz)"), &json!("All of it")));
    let plan = server.json(&["deploy", "line-monitor", "--group", "graz", "--set", "lineName=One", "--dry-run"]);
    assert_eq!(plan["targets"].as_array().unwrap().len(), 1);
    assert_eq!(server.run(&["device", "label", "press", "line-"]).code, 0);
    assert_eq!(server.json(&["device", "show", "press"])["operatorLabels"], json!({ "site": "graz" }));
}

#[test]
fn reports_an_unknown_device_as_not_found() {
    let server = Server::start();
    server.run(&["device", "show", "none"]).check(
        5,
        "",
        "error: no device `none`\nnext: `margrave device list` lists all; use client/device or the device id\n",
    );
    let home = tempfile::tempdir().unwrap();
    assert!(margrave(home.path()).arg("--version").status().unwrap().success());
}

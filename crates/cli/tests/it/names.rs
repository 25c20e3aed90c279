//! What operators type: beginnings of ids, mistyped names, units, several applications at once.

use crate::support::{Device, Server};
use serde_json::json;

#[test]
fn names_what_was_probably_meant() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press-01", "8Gi", "");
    server.run(&["deploy", "line-monitor", "--device", "prss-01", "--set", "lineName=Press"]).check(
        5,
        "",
        "error: no device `prss-01`; did you mean `press-01`?
next: `margrave device list` lists all; use client/device or the device id
",
    );
    server.run(&["deploy", "lin-monitor", "--device", "press-01"]).check(
        5,
        "",
        "error: application `lin-monitor` does not exist; did you mean `line-monitor`?
next: `margrave app list` lists applications, `margrave app import FOLDER` adds a package
",
    );
    server.run(&["deploy", "line-monitor", "--device", "press-01", "--set", "lineNme=Press"]).check(
        2,
        "",
        "error: line-monitor is missing required values
  - lineName: Production line, Line name (2 to 40 characters)
  - lineNme: not among the parameters of line-monitor; did you mean `lineName`?
next: add --set lineName=…, or use --values FILE
",
    );
    let set = ["--set", "lineName=Press", "--set", "sampleSecond=3"];
    let seen = server.run(&[&["deploy", "line-monitor", "--device", "press-01"][..], &set].concat());
    assert_eq!(seen.code, 6, "{}", seen.stderr);
    let expected = "values.sampleSecond: is not a parameter of this application; did you mean `sampleSeconds`?";
    assert!(seen.stderr.contains(expected), "{}", seen.stderr);
    // Looked up before the question.
    server.run(&["client", "decommission", "press-1"]).check(
        5,
        "",
        "error: client `press-1` does not exist; did you mean `press-01`?\n",
    );
    let seen = server.run(&["token", "create", "ci", "--valid-for", "30"]);
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("the unit is missing; write 30s, 30m, 30h or 30d"), "{}", seen.stderr);
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
}

#[test]
fn removes_deployments_of_several_applications_at_once() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    for application in ["line-monitor@1.0.0", "vibration-analytics"] {
        let value = if application.starts_with("line") { "lineName=Press" } else { "machineClass=class-2" };
        let seen = server.run(&["deploy", application, "--device", "press", "--wait", "--set", value]);
        assert_eq!(seen.code, 0, "{}", seen.stderr);
    }
    let deployments = server.json(&["deployment", "list"]);
    let ids: Vec<&str> = deployments.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    // Nothing is removed unless all of them exist.
    let seen = server.run(&["deployment", "remove", ids[0], "00000000", "--yes"]);
    assert_eq!((seen.code, seen.stderr.lines().next()), (5, Some("error: no deployment `00000000`")));
    let seen = server.run(&["deployment", "remove", &ids[0][..13], ids[1], "--dry-run"]);
    assert_eq!((seen.code, seen.stdout.matches("Nothing was changed (dry run).").count()), (0, 2), "{}", seen.stderr);
    assert_eq!(server.json(&["deployment", "list"]).as_array().unwrap().len(), 2);
    let seen = server.run(&["deployment", "remove", &ids[0][..13], ids[1], "--yes", "--wait"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert_eq!(server.json(&["deployment", "list"]), json!([]));
    let seen = server.run(&["app", "delete", "line-monitor@1.0.0", "--yes"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    let seen = server.run(&["app", "delete", "line-monitor", "--yes"]);
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.starts_with("error: the version is missing\n"), "{}", seen.stderr);
}

#[test]
fn explains_a_connection_with_the_wrong_protocol() {
    let server = Server::start();
    let addresses = std::fs::read(server.data().join("addresses.json")).unwrap();
    let addresses: serde_json::Value = serde_json::from_slice(&addresses).unwrap();
    let url = format!("https://{}", addresses["operators"].as_str().unwrap());
    let seen = server.run(&["status", "--url", &url]);
    assert_eq!(seen.code, 3, "{}", seen.stderr);
    assert!(seen.stderr.contains("  - the server does not use TLS at this address\n"), "{}", seen.stderr);
    assert!(seen.stderr.ends_with("next: write http:// instead of https:// in the address\n"), "{}", seen.stderr);
}

//! `explain` and `diff` against a real server and a real agent.

use crate::support::{Device, Server, until};
use serde_json::Value;

fn deploy(server: &Server) -> String {
    let seen = server.run(&[
        "deploy",
        "line-monitor@1.0.0",
        "--device",
        "press",
        "--set",
        "lineName=Press 7",
        "--yes",
        "--wait",
    ]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    server.json(&["deployment", "list"])[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_deployment_a_device_and_an_application_are_explained() {
    let server = Server::with_samples();
    let device = Device::start(&server, "press", "8Gi", "");
    let id = deploy(&server);
    let seen = server.run(&["deployment", "explain", &id]);
    assert_eq!((seen.code, &*seen.stderr), (0, ""));
    let part = |text: &str| assert!(seen.stdout.contains(text), "{text}\n{}", seen.stdout);
    part("deployment/<uuid>: up-to-date\nrevision 1 (1.0.0) is installed\n\nDesired\n");
    part("  `line-monitor` 1.0.0 with profile `line-monitor-compose` should run on `press/press`; that is revision 1");
    part("\nObserved\n  the device reports `installed` for revision 1 (manifest 2)");
    part("\nWaiting for\n  nothing\n");
    part("\nNext steps\n  upgrade, reconfigure or remove it\n");
    let json = server.json(&["deployment", "explain", &id]);
    let sentence = json["nextSteps"][0]["sentence"].as_str().unwrap();
    assert!(seen.stdout.contains(sentence), "the same sentence: {sentence}");

    let seen = server.run(&["device", "explain", "press"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(
        seen.stdout.starts_with("device/press/press: online\nthe one deployment is as desired\n"),
        "{}",
        seen.stdout
    );
    let seen = server.run(&["app", "explain", "vibration-analytics"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stdout.starts_with("application/vibration-analytics: "), "{}", seen.stdout);
    assert!(seen.stdout.contains("the catalog has 1 version, the newest is 2.3.0"), "{}", seen.stdout);
    let json = server.json(&["app", "explain", "vibration-analytics"]);
    let (sentence, command) = (&json["nextSteps"][0]["sentence"], &json["nextSteps"][0]["command"]);
    let line = format!("  {}: `{}`\n", sentence.as_str().unwrap(), command.as_str().unwrap());
    assert!(seen.stdout.contains(&line), "the sentence, then the command: {line}\n{}", seen.stdout);
    drop(device);
}

#[test]
fn revisions_reports_and_versions_are_compared() {
    let server = Server::with_samples();
    let device = Device::start(&server, "press", "8Gi", "");
    let id = deploy(&server);
    let same = server.run(&["deployment", "diff", &id, "--reported"]);
    let words = "no differences between reported: revision 1 (1.0.0) and revision 1 (1.0.0)\n";
    same.check(0, words, "");
    let rollout = ["deployment", "reconfigure", &id, "--set", "sampleSeconds=10", "--yes", "--wait"];
    assert_eq!(server.run(&rollout).code, 0);
    let seen = server.run(&["deployment", "diff", &id]);
    assert_eq!((seen.code, &*seen.stderr), (0, ""));
    assert!(seen.stdout.starts_with("--- revision 1 (1.0.0)\n+++ revision 2 (1.0.0)\n@@ "), "{}", seen.stdout);
    assert!(seen.stdout.contains("\n+      value: 10\n"), "{}", seen.stdout);
    assert!(!seen.stdout.contains('\u{1b}'), "no colors in a pipe");
    let json = server.json(&["deployment", "diff", &id, "--from", "2", "--to", "1"]);
    assert_eq!(json["fields"][0]["field"], "parameters.sampleSeconds");
    let reported = until("report", || {
        let diff = server.json(&["deployment", "diff", &id, "--reported"]);
        (diff["same"] == true).then_some(diff)
    });
    assert_eq!((&reported["from"]["revision"], &reported["status"]["state"]), (&Value::from(2), &"installed".into()));
    let gone = server.run(&["deployment", "diff", &id, "--from", "7"]);
    assert_eq!(gone.code, 5, "{}", gone.stderr);
    let seen = server.run(&["app", "diff", "line-monitor", "1.0.0", "1.1.0"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stdout.starts_with("--- line-monitor 1.0.0\n+++ line-monitor 1.1.0\n@@ "), "{}", seen.stdout);
    drop(device);
}

#[test]
fn shows_a_maintenance_hold_to_the_operator_until_it_is_released() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let state = server.folder.path().join("devices/press/state");
    let now = margrave_agent::hold::moment(&margrave_agent::SystemClock);
    margrave_agent::hold::begin(&state, "changing the fan", std::time::Duration::from_hours(2), &now).unwrap();
    let explained = || server.run(&["device", "explain", "press"]).stdout;
    until("the operator to see the hold", || explained().contains("on maintenance hold until").then_some(()));
    assert!(explained().contains("changing the fan"), "{}", explained());
    let deploy = ["deploy", "line-monitor@1.0.0", "--device", "press", "--set", "lineName=Press 7", "--yes"];
    assert_eq!(server.run(&deploy).code, 0);
    let id = until("publication", || {
        let deployments = server.json(&["deployment", "list"]);
        deployments[0]["id"].as_str().map(ToOwned::to_owned)
    });
    let explained_deployment = || server.run(&["deployment", "explain", &id]).stdout;
    until("reason for waiting in the explanation", || {
        explained_deployment().contains("changing the fan").then_some(())
    });
    assert!(margrave_agent::hold::end(&state).unwrap());
    until("installation after the hold", || explained_deployment().contains("is installed").then_some(()));
    until("end of the hold in the explanation", || (!explained().contains("changing the fan")).then_some(()));
}

#[test]
fn marks_simulated_devices_in_lists_details_and_explanations() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let id = deploy(&server);
    let seen = server.run(&["device", "list"]);
    assert!(seen.stdout.contains("press   online  compose (simulated)  amd64"), "{}", seen.stdout);
    let seen = server.run(&["device", "show", "press"]);
    let words = "
Vendor and model  Example, model One, serial 1
Hosts             compose (simulated)
Runtime           simulated: applications are not really installed on this device
                  (configure `[compose]` or `[kubernetes]` for its agent to run real workloads)
";
    assert!(seen.stdout.contains(words), "{}", seen.stdout);
    let seen = server.run(&["deployment", "list"]);
    assert!(seen.stdout.contains("1.0.0    press (simulated)  up-to-date"), "{}", seen.stdout);
    let seen = server.run(&["deployment", "show", &id]);
    let words = "
State        up-to-date
Explanation  revision 1 (1.0.0) is installed
Runtime      simulated: applications are not really installed on this device
             (configure `[compose]` or `[kubernetes]` for its agent to run real workloads)
";
    assert!(seen.stdout.contains(words), "{}", seen.stdout);
    for explain in [["device", "explain", "press"], ["deployment", "explain", &id]] {
        let seen = server.run(&explain);
        let sentence = "\n  nothing is really installed on this device: its agent runs with the simulated runtime\n";
        assert!(seen.stdout.contains(sentence), "{}", seen.stdout);
    }
    let json = server.json(&["device", "show", "press"]);
    assert_eq!(
        (&json["simulated"], &json["capabilities"]["x-margrave-extensions"]["runtime"]),
        (&true.into(), &"simulated".into())
    );
    assert_eq!(server.json(&["deployment", "show", &id])["simulated"], true);
}

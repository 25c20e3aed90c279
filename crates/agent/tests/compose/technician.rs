//! `status`, `explain`, `logs` and `hold` with real containers.

use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use margo::status::State;
use std::process::Command;

/// The output of `margrave-agent` while an agent runs.
fn agent(device: &Device, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_margrave-agent"));
    let output = command.arg("--config").arg(device.path("agent.toml")).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

async fn shows(device: &Device, arguments: &[&str], part: &str) {
    device.until(&format!("{arguments:?} says {part}"), || agent(device, arguments).contains(part)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_explain_and_logs_show_real_containers() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let broken = format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"echo no such press; exit 7\"]\n"
    );
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.registry.push_compose("components/panel", "1.0.0", &[("compose.yaml", &broken)]).await;
    let panel = format!(
        "      - name: panel\n        properties:\n          repository: {}\n          revision: 1.0.0\n",
        device.registry.repository("components/panel")
    );
    let parameters = [("MODE", "loud")];
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        properties: &panel,
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    device.start();
    device.reaches(State::Failed).await;
    shows(&device, &["status"], "component web is installed").await;
    // Between two retries; during one it shows the current step.
    let parts = [
        "component web is installed",
        "exited with code 7",
        "no such press",
        "next steps: ",
        "on failure keep-partial",
    ];
    let explains = || {
        let explained = agent(&device, &["explain", "app"]);
        parts.iter().all(|part| explained.contains(part))
    };
    device.until("all of it is explained", explains).await;
    let reports = device.fake.reported(device.id);
    assert!(reports.iter().all(|status| status.components[1].state != State::Installed), "never: {reports:?}");
    let logs = agent(&device, &["logs", "app"]);
    assert!(
        logs.contains("| mode is loud\n") && logs.contains("| no such press\n"),
        "of both, including the exited one: {logs}"
    );
    let logs = agent(&device, &["logs", "app", "--component", "web", "--lines", "1"]);
    assert_eq!(logs.lines().count(), 1, "{logs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_defers_changes_until_its_end() {
    let mut device = Device::new().await;
    device.install(&[("MODE", "first")]).await;
    let held = device.containers();
    agent(&device, &["hold", "--for", "2h", "--comment", "changing the fan"]);
    shows(&device, &["status"], "maintenance hold").await;
    // A change of the manager waits, and a manual stop is not repaired.
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &[("MODE", "second")],
        ..DocumentOptions::default()
    });
    let waits = |device: &Device| {
        // The report still has the running revision, with the reason to wait.
        let reports = device.fake.reported(device.id).pop().and_then(|status| status.error);
        reports.is_some_and(|error| error.code == "402" && error.message.contains("changing the fan"))
    };
    device.until("the hold is reported", || waits(&device)).await;
    device.docker.docker(&["stop", &held[0]]);
    // Neither a restart of the agent nor time ends the hold.
    device.kill();
    device.start();
    let polls = device.fake.seen().len();
    device.until("time has passed", || device.fake.seen().len() > polls + 30).await;
    assert_eq!(device.all_containers(), held);
    assert!(device.containers().is_empty());
    agent(&device, &["hold", "--end"]);
    device.reaches(State::Installed).await;
    assert_eq!(device.read("/data/mode"), "second");
    // A hold expires automatically.
    agent(&device, &["hold", "--for", "5s", "--comment", "a look"]);
    shows(&device, &["status"], "maintenance hold").await;
    let stopped = device.containers();
    device.docker.docker(&["stop", &stopped[0]]);
    device.until("it runs again", || device.containers() == stopped).await;
}

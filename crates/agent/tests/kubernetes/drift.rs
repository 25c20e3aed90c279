//! Drift of objects is detected, reported and, by policy, repaired.

use crate::bench::{Device, DocumentOptions, name_of};
use margo::status::State;

const REPORT: &str = "  x-margrave-extensions:\n    policy:\n      drift: report\n";
const IGNORE: &str = "  x-margrave-extensions:\n    policy:\n      drift: ignore\n";

/// Waits until the deployment is repaired; one of these differences was reported.
async fn heals(device: &Device, what: &str, expected_texts: &[&str], mut healed: impl FnMut() -> bool) {
    device.until(what, &mut healed).await;
    device.reaches(State::Installed).await;
    let reports = device.fake.reported(device.id);
    let messages: Vec<String> =
        reports.into_iter().filter_map(|status| status.error).map(|error| error.message).collect();
    let named = |message: &String| expected_texts.iter().any(|text| message.contains(text));
    assert!(messages.iter().any(named), "{expected_texts:?}: {messages:?}");
    device.fake.state().seen.clear();
}

/// Edits, scales and deletes; each is repaired and reported.
async fn is_repaired(device: &mut Device) {
    // Only events can be this quick.
    device.observe_period = "10m";
    device.install(&DocumentOptions::default()).await;
    let name = name_of(&device.workload());
    let uid = device.workload()["metadata"]["uid"].clone();

    device.kubectl(&["scale", "deployment", &name, "--replicas=3"]);
    heals(device, "scaled back", &["replicas is 3, expected 1"], || device.workload()["spec"]["replicas"] == 1).await;

    device.kubectl(&["set", "env", &format!("deployment/{name}"), "MODE=sabotaged"]);
    let mode = |device: &Device| {
        device.workload()["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"].as_str().unwrap().to_owned()
    };
    heals(device, "edited back", &["MODE"], || mode(device) == "none").await;
    assert_eq!(device.workload()["metadata"]["uid"], uid, "patched, not made anew");

    device.kubectl(&["delete", "deployment", &name]);
    heals(device, "made again", &["is missing"], || {
        device.ours("apps/deployments").iter().any(|object| object["status"]["readyReplicas"] == 1)
    })
    .await;
    assert_ne!(device.workload()["metadata"]["uid"], uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_edited_scaled_and_deleted_objects() {
    let mut device = Device::manifests().await;
    is_repaired(&mut device).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_an_edited_scaled_or_deleted_release() {
    a_release_is_repaired("helm3").await;
}

// Not left to `make soak`: Helm 4 alone applies on the server side and has to take back fields that others hold.
#[tokio::test(flavor = "multi_thread")]
async fn repairs_an_edited_scaled_or_deleted_release_with_helm_4() {
    a_release_is_repaired("helm4").await;
}

async fn a_release_is_repaired(helm: &'static str) {
    let mut device = Device::helm().await;
    device.helm = helm;
    is_repaired(&mut device).await;
    // The agent may repair before Helm has purged its record of the release, and then Helm fails to find it.
    let uninstall = device.helm_command(&["uninstall", &device.instance()]).output().unwrap();
    let said = String::from_utf8_lossy(&uninstall.stderr);
    assert!(uninstall.status.success() || said.contains("Failed to purge the release: release: not found"), "{said}");
    // The agent sees the release either while Helm removes it or after that.
    // A repair during the removal can lose its objects or its record to Helm; an event leads to the next repair.
    let is_deployed = || {
        let status = device.helm_command(&["status", &device.instance()]).output().unwrap();
        status.status.success() && String::from_utf8_lossy(&status.stdout).contains("STATUS: deployed")
    };
    heals(&device, "installed again", &["is missing", "is uninstalling"], || {
        device.ours("apps/deployments").iter().any(|object| object["status"]["readyReplicas"] == 1) && is_deployed()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_report_and_ignore_do_not_correct_objects() {
    let mut device = Device::manifests().await;
    is_not_corrected(&mut device).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_report_and_ignore_do_not_correct_a_release() {
    let mut device = Device::helm().await;
    is_not_corrected(&mut device).await;
    let latest = device.run_helm(&["list", "-o", "json"]);
    // The second revision came with the other policy.
    assert!(latest.contains("\"revision\":\"2\""), "{latest}");
}

async fn is_not_corrected(device: &mut Device) {
    device.install(&DocumentOptions { spec: REPORT, ..DocumentOptions::default() }).await;
    let name = name_of(&device.workload());
    device.kubectl(&["scale", "deployment", &name, "--replicas=2"]);
    device.reaches(State::Failed).await;
    let status = device.status().unwrap();
    assert_eq!(status.error.as_ref().unwrap().code, "401");
    assert!(device.message().contains("replicas is 2, expected 1"), "{}", device.message());
    assert_eq!(device.workload()["spec"]["replicas"], 2);
    // The manual change is reverted.
    device.kubectl(&["scale", "deployment", &name, "--replicas=1"]);
    device.reaches(State::Installed).await;

    device.publish_document(&DocumentOptions { revision: "1.0.0", spec: IGNORE, ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    device.kubectl(&["scale", "deployment", &name, "--replicas=2"]);
    device.until("the second pod runs", || device.pods().len() == 2).await;
    let polls = device.fake.seen().len();
    // Longer than `observe_period`.
    device.until("it polls on", || device.fake.seen().len() > polls + 15).await;
    assert_eq!(device.workload()["spec"]["replicas"], 2);
    assert_eq!(device.status().unwrap().state, State::Installed);
}

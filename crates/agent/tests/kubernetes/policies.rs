//! Failed upgrades with each failure policy.

use crate::bench::{Device, DocumentOptions, IMAGE};
use crate::charts;
use margo::status::State;

fn policy(word: &str) -> String {
    format!("  x-margrave-extensions:\n    policy:\n      onFailure: {word}\n")
}

/// Fails at once: an image that does not exist and may not be pulled.
async fn push_broken(device: &Device, component: &str, version: &str) {
    if device.deployment_type == "helm" {
        let chart = charts::with_values(version, "image: margrave.test/nowhere:1\npull: Never\n");
        device.push_chart(component, &chart).await;
    } else {
        let objects = charts::objects("margrave.test/nowhere:1").replace("IfNotPresent", "Never");
        device.push_manifests(component, version, &objects).await;
    }
}

async fn rolls_back(device: &mut Device) {
    device.install(&DocumentOptions { spec: &policy("rollback"), ..DocumentOptions::default() }).await;
    let kept = device.pods();
    push_broken(device, "web", "2.0.0").await;
    device.publish_document(&DocumentOptions {
        revision: "2.0.0",
        spec: &policy("rollback"),
        ..DocumentOptions::default()
    });
    device.reaches(State::Failed).await;
    let image = |device: &Device| device.workload()["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    device.until("the last good revision is back", || image(device) == IMAGE && device.ours("pods").len() == 1).await;
    assert_eq!(device.pods(), kept, "running pods were never stopped");
    device
        .until("the rollback is reported", || {
            device.message().contains("rolled back") || device.message().contains("rollback")
        })
        .await;
    let status = device.status().unwrap();
    assert_eq!(status.state, State::Failed, "the desired revision does not run");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_failed_upgrade_of_a_release_and_rolls_back() {
    a_release_rolls_back("helm3").await;
}

#[cfg(feature = "soak")]
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_upgrade_of_a_release_is_rolled_back_with_helm_4() {
    a_release_rolls_back("helm4").await;
}

async fn a_release_rolls_back(helm: &'static str) {
    let mut device = Device::helm().await;
    device.helm = helm;
    rolls_back(&mut device).await;
    let reports = device.fake.reported(device.id);
    let reasons: Vec<_> =
        reports.iter().flat_map(|status| &status.components).filter_map(|it| it.error.as_ref()).collect();
    assert!(reasons.iter().any(|error| error.message.contains("ErrImageNeverPull")), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_upgrade_of_manifests_is_rolled_back() {
    let mut device = Device::manifests().await;
    rolls_back(&mut device).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_waits_after_the_first_failure_for_a_change() {
    let mut device = Device::helm().await;
    push_broken(&device, "web", "1.0.0").await;
    let hold = policy("stop");
    device.publish_document(&DocumentOptions { revision: "1.0.0", spec: &hold, ..DocumentOptions::default() });
    device.start();
    device.reaches(State::Failed).await;
    let generation = device.workload()["metadata"]["generation"].clone();
    let releases = || device.kubectl(&["get", "secret", "-l", "owner=helm", "-o", "name"]);
    let before = releases();
    let polls = device.fake.seen().len();
    // Several pauses of `retry` long.
    device.until("it polls on", || device.fake.seen().len() > polls + 25).await;
    assert_eq!((device.workload()["metadata"]["generation"].clone(), releases()), (generation, before), "not retried");
    device.push("1.0.1", IMAGE).await;
    device.publish_document(&DocumentOptions { revision: "1.0.1", spec: &hold, ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keep_partial_keeps_healthy_components_and_retries_the_failed_one() {
    let mut device = Device::helm().await;
    device.push("1.0.0", IMAGE).await;
    device.push_chart("panel", &charts::with_values("1.0.0", "image: margrave.test/later:1\npull: Never\n")).await;
    let components = device.component("web", "1.0.0") + &device.component("panel", "1.0.0");
    let served = device.document_of(&components, &DocumentOptions::default());
    device.publish(&[served]);
    device.start();
    let status = device.reaches(State::Failed).await;
    assert_eq!([status.components[0].state, status.components[1].state], [State::Installed, State::Failed]);
    let web = format!("{}-", device.instance());
    let healthy: Vec<String> = device.pods();
    assert!(healthy.len() == 1 && healthy[0].starts_with(&web), "{healthy:?}");
    // The missing image is loaded, and the next retry succeeds.
    device.cluster.load("margrave.test/later:1", &margrave_testbed::images::busybox("later"));
    device.reaches(State::Installed).await;
    let pods = device.pods();
    assert!(pods.len() == 2 && pods.contains(&healthy[0]), "{pods:?}");
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    assert_eq!(device.kubectl(&["get", "pod", &healthy[0], "-o", restarts]), "0");
}

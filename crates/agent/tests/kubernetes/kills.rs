//! The agent is killed during each step, started again, and finishes.

use crate::agent::kill_when;
use crate::bench::{Device, IMAGE, OTHER_IMAGE};
use crate::charts;
use margo::status::State;

fn has_part(device: &Device) -> bool {
    let files = std::fs::read_dir(device.state_dir.join("artifacts/blobs")).into_iter().flatten().flatten();
    let mut names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.any(|name| name.contains(".part"))
}

fn in_ledger(device: &Device) -> bool {
    let ledger = std::fs::read_to_string(device.state_dir.join("ledger.json")).unwrap_or_default();
    ledger.contains(&device.instance())
}

fn has_namespace(device: &Device) -> bool {
    device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace)).is_some()
}

fn has_workload(device: &Device) -> bool {
    !device.ours("apps/deployments").is_empty()
}

/// Something of an archive that is slow to fetch.
fn noise() -> String {
    let line = |at: u32| format!("# {}", margo::Digest::of(format!("noise{at}").as_bytes()));
    (0..4000).map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// Install, upgrade and removal, with a kill during each step.
async fn survives(device: &mut Device) {
    if device.deployment_type == "helm" {
        let mut chart = charts::web("1.0.0", IMAGE);
        chart.push(("noise.txt", noise()));
        device.push_chart("web", &chart).await;
    } else {
        device.push_manifests("web", "1.0.0", &format!("{}{}", noise(), charts::objects(IMAGE))).await;
    }
    device.publish_revision("1.0.0");
    "[artifacts]\nbytes_per_second = 50000\n".clone_into(&mut device.tables);
    device.start();
    kill_when(device, "the pull has begun", has_part).await;
    device.tables = String::new();
    device.start();
    kill_when(device, "it is in the ledger", in_ledger).await;
    device.start();
    kill_when(device, "the namespace is there", has_namespace).await;
    device.start();
    kill_when(device, "the workload is there", has_workload).await;
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.ours("apps/deployments").len(), 1, "nothing is there twice");
    let kept = device.pods();
    assert_eq!(kept.len(), 1);
    // A healthy component is not restarted by an agent that comes back.
    device.kill();
    device.start();
    let polls = device.fake.seen().len();
    device.until("it polls again", || device.fake.seen().len() > polls + 10).await;
    assert_eq!(device.pods(), kept);

    device.push("2.0.0", OTHER_IMAGE).await;
    device.publish_revision("2.0.0");
    let changed =
        |device: &Device| device.workload()["spec"]["template"]["spec"]["containers"][0]["image"] == OTHER_IMAGE;
    kill_when(device, "the upgrade has begun", changed).await;
    device.start();
    device.reaches(State::Installed).await;
    device.until("only the new pod is left", || device.pods().len() == 1 && device.pods() != kept).await;
    assert_eq!(device.exec(&["cat", "/mark"]), "2");

    device.publish(&[]);
    kill_when(device, "the removal has begun", |device| {
        let workloads = device.ours("apps/deployments");
        workloads.is_empty() || workloads.iter().any(|object| !object["metadata"]["deletionTimestamp"].is_null())
    })
    .await;
    device.start();
    device.reaches(State::Removed).await;
    assert!(
        device.ours("pods").is_empty() && device.ours("configmaps").is_empty() && device.ours("secrets").is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_kill_during_any_step_of_manifests() {
    let mut device = Device::manifests().await;
    survives(&mut device).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_kill_during_any_step_of_a_release() {
    a_release_survives("helm3").await;
}

#[cfg(feature = "soak")]
#[tokio::test(flavor = "multi_thread")]
async fn survives_a_kill_during_any_step_of_a_release_with_helm_4() {
    a_release_survives("helm4").await;
}

async fn a_release_survives(helm: &'static str) {
    let mut device = Device::helm().await;
    device.helm = helm;
    survives(&mut device).await;
    let releases = format!("/api/v1/namespaces/{}/secrets?labelSelector=owner%3Dhelm", device.namespace);
    let left = device.cluster.object(&releases).unwrap_or_default();
    assert_eq!(left["items"].as_array().map_or(0, Vec::len), 0, "{left}");
}

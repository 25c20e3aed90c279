//! Engine stops and restarts, and reboots without network.

use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use margo::status::State;
use margrave_agent::machine::records::StatusEntries;
use margrave_testbed::images;

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_an_unavailable_engine() {
    let mut device = Device::alone().await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.docker.stop();
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    let last_error = |device: &Device| device.fake.reported(device.id).pop().and_then(|status| status.error);
    let waits = |device: &Device| last_error(device).is_some_and(|error| error.message.contains("does not answer"));
    device.until("the missing engine is reported", || waits(&device)).await;
    device.docker.begin().await;
    device.reaches(State::Installed).await;

    // Restarted under a running component, which has no restart policy of its own.
    device.docker.stop();
    device.docker.begin().await;
    device.until("the component runs again", || device.containers().len() == 1).await;
    device.reaches(State::Installed).await;
}

/// All reported error codes.
fn codes(device: &Device) -> Vec<String> {
    device.fake.reported(device.id).into_iter().filter_map(|status| status.error).map(|error| error.code).collect()
}

fn policy(text: &str) -> String {
    format!("  x-margrave-extensions:\n    policy: {{ {text} }}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_stop_during_a_step_is_not_a_deployment_failure() {
    let mut device = Device::alone().await;
    let image = device.registry.push_image("images/web", "1", &images::large("1", 24_000_000)).await;
    let slow = format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"sleep 8; touch /ready; sleep 1000000\"]\n    \
         healthcheck: {{ test: [\"CMD\", \"/bin/test\", \"-e\", \"/ready\"], interval: 1s, retries: 100 }}\n"
    );
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &slow)]).await;
    // A failure would stop it here: no retry until the deployment changes.
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        spec: &policy("onFailure: stop"),
        ..DocumentOptions::default()
    });
    device.start();
    device.until("the engine pulls the image", || device.docker.is_pulling()).await;
    device.docker.stop();
    device.docker.begin().await;
    device.until("the container runs and is not healthy yet", || !device.containers().is_empty()).await;
    device.docker.stop();
    device.docker.begin().await;
    device.reaches(State::Installed).await;
    assert!(codes(&device).iter().all(|code| code == "305"), "{:?}", codes(&device));

    // The container ignores the stop signal, so that stopping takes long.
    device.publish(&[]);
    device.until("it is being stopped", || device.log().contains("removing: ")).await;
    device.docker.stop();
    device.docker.begin().await;
    device.reaches(State::Removed).await;
    assert!(device.all_containers().is_empty());
    assert!(codes(&device).iter().all(|code| code == "305"), "{:?}", codes(&device));
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_workloads_after_an_engine_restart_with_every_drift_policy() {
    let mut device = Device::alone().await;
    device.install(&[]).await;
    for drift in ["drift: report", "drift: ignore"] {
        device.publish_document(&DocumentOptions {
            revision: "1.0.0",
            spec: &policy(drift),
            ..DocumentOptions::default()
        });
        device.reaches(State::Installed).await;
        device.docker.stop();
        device.docker.begin().await;
        device.until(drift, || device.containers().len() == 1).await;
        device.reaches(State::Installed).await;
    }
    assert!(!codes(&device).contains(&"401".to_owned()), "no manual change: {:?}", codes(&device));
    // A manual change is different: it survives an engine restart.
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        spec: &policy("drift: report"),
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    device.docker.docker(&["stop", &device.containers()[0]]);
    device.reaches(State::Failed).await;
    device.docker.stop();
    device.docker.begin().await;
    let polls = device.fake.seen().len();
    device.until("time has passed", || device.fake.seen().len() > polls + 40).await;
    assert!(device.containers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_workloads_after_reboot_except_manually_stopped_ones() {
    let mut device = Device::alone().await;
    device.install(&[]).await;
    for drift in ["drift: report", "drift: ignore"] {
        device.publish_document(&DocumentOptions {
            revision: "1.0.0",
            spec: &policy(drift),
            ..DocumentOptions::default()
        });
        device.reaches(State::Installed).await;
        reboot(&mut device).await;
        device.until(drift, || device.containers().len() == 1).await;
        device.reaches(State::Installed).await;
    }
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        spec: &policy("drift: report"),
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    device.docker.docker(&["stop", &device.containers()[0]]);
    device.reaches(State::Failed).await;
    reboot(&mut device).await;
    let polls = device.fake.seen().len();
    device.until("time has passed", || device.fake.seen().len() > polls + 40).await;
    assert!(device.containers().is_empty());
}

/// Stops everything at once and starts it again as if in another boot of the machine.
async fn reboot(device: &mut Device) {
    let other = "00000000-0000-4000-8000-000000000000";
    let now = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let record = device.state_dir.join("revisions.json");
    let is_known = |text: &str| text.contains(now.trim());
    device.until("this boot is known", || is_known(&std::fs::read_to_string(&record).unwrap_or_default())).await;
    // A report is sent while it is written: wait until it is durable.
    device
        .until("the report is durable", || {
            last_status_on_disk(device) == device.status().map(|last_error| last_error.state)
        })
        .await;
    device.kill();
    device.docker.stop();
    // Rewrites the record with an earlier boot; the head of a record is the digest of the rest.
    let text = std::fs::read_to_string(&record).unwrap();
    let (head, rest) = text.split_once('\n').unwrap();
    let rest = rest.trim_end().replace(now.trim(), other);
    let (magic, _) = head.rsplit_once(' ').unwrap();
    std::fs::write(&record, format!("{magic} {}\n{rest}\n", margo::Digest::of(rest.as_bytes()))).unwrap();
    device.docker.begin().await;
    device.start();
}

fn last_status_on_disk(device: &Device) -> Option<State> {
    let text = std::fs::read_to_string(device.state_dir.join("statuses.json")).ok()?;
    let (_, rest) = text.split_once('\n')?;
    let book: StatusEntries = serde_json::from_str(rest).ok()?;
    book.entries.get(&device.id).map(|entry| entry.status.state)
}

#[tokio::test(flavor = "multi_thread")]
async fn adopts_running_workloads_after_loss_of_its_state() {
    let mut device = Device::new().await;
    device.install(&[("MODE", "kept")]).await;
    let started = |device: &Device| {
        device.docker.docker(&["inspect", "--format", "{{.Id}} {{.State.StartedAt}}", &device.containers()[0]])
    };
    let before = started(&device);
    device.kill();
    std::fs::remove_dir_all(&device.state_dir).unwrap();
    device.fake.twist(|_| Some(crate::fake::reply(503, "")));
    device.start();
    let polls = device.fake.seen().len();
    device.until("it asks in vain", || device.fake.seen().len() > polls + 2).await;
    assert_eq!(started(&device), before, "without a desired state nothing is removed");
    device.fake.state().twist = None;
    device.fake.state().seen.clear();
    device.reaches(State::Installed).await;
    assert_eq!(started(&device), before, "running workloads are adopted unchanged");
    device.publish(&[]);
    device.reaches(State::Removed).await;
    assert!(device.all_containers().is_empty());
    assert_eq!(device.volumes().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_everything_after_a_reboot_without_network() {
    let mut device = Device::alone().await;
    device.install(&[("MODE", "alone")]).await;
    device.kill();
    device.registry.stop();
    device.fake.twist(|_| Some(crate::fake::reply(503, "")));
    for container in device.all_containers() {
        device.docker.docker(&["rm", "--force", &container]);
    }
    device.docker.stop();
    device.docker.begin().await;
    device.start();
    device.until("it runs again", || device.containers().len() == 1).await;
    device.until("it has started", || device.read("/data/starts") == "x\nx").await;
    assert_eq!(device.read("/data/mode"), "alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_healthy_containers_after_a_long_absence() {
    let mut device = Device::new().await;
    device.install(&[]).await;
    let held = device.containers();
    let started = |device: &Device| {
        device.docker.docker(&["inspect", "--format", "{{.State.StartedAt}} {{.RestartCount}}", &held[0]])
    };
    let before = started(&device);
    device.kill();
    // The fleet changed meanwhile; its own deployment is unchanged, and another one was added.
    let own = device.document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    let mut other = own.clone();
    other.id = "0b5e55ed-0000-4000-8000-000000000001".parse().unwrap();
    let text = String::from_utf8(other.yaml).unwrap().replace(&device.id.to_string(), &other.id.to_string());
    other.yaml = text.replace("components/web", "components/none").into_bytes();
    other.digest = margo::Digest::of(&other.yaml);
    device.version = 4711;
    device.publish(&[own, other.clone()]);
    device.start();
    device.reaches(State::Installed).await;
    device
        .until("the other one is tried", || {
            device.fake.reported(other.id).last().is_some_and(|last| last.state == State::Failed)
        })
        .await;
    assert_eq!(device.containers(), held);
    assert_eq!(started(&device), before, "neither the absence nor a failure of another deployment restarts it");
}

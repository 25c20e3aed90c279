//! The engine goes away and comes back; the device comes up without any network.

use crate::bench::{Device, REPOSITORY, Wish, web};
use margo::status::State;
use margrave_agent::machine::records::StatusBook;
use margrave_testbed::images;

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_away_for_a_while_is_waited_for() {
    let mut device = Device::alone().await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.docker.stop();
    device.publish_wish(&Wish { revision: "1.0.0", ..Wish::default() });
    device.start();
    let told = |device: &Device| device.fake.reported(device.id).pop().and_then(|status| status.error);
    let waits = |device: &Device| told(device).is_some_and(|error| error.message.contains("does not answer"));
    device.until("the manager is told of the missing engine", || waits(&device)).await;
    device.docker.begin().await;
    device.reaches(State::Installed).await;

    // Restarted under a running component, which has no restart policy of its own.
    device.docker.stop();
    device.docker.begin().await;
    device.until("the component runs again", || device.containers().len() == 1).await;
    device.reaches(State::Installed).await;
}

/// Codes of everything that was told to be wrong.
fn codes(device: &Device) -> Vec<String> {
    device.fake.reported(device.id).into_iter().filter_map(|status| status.error).map(|error| error.code).collect()
}

fn policy(text: &str) -> String {
    format!("  x-margrave-extensions:\n    policy: {{ {text} }}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_ends_in_the_middle_of_a_step_is_no_failure_of_the_deployment() {
    let mut device = Device::alone().await;
    let image = device.registry.push_image("images/web", "1", &images::large("1", 24_000_000)).await;
    let slow = format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"sleep 8; touch /ready; sleep 1000000\"]\n    \
         healthcheck: {{ test: [\"CMD\", \"/bin/test\", \"-e\", \"/ready\"], interval: 1s, retries: 100 }}\n"
    );
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &slow)]).await;
    // A failure would end it here: nothing is tried again until the manager changes something.
    device.publish_wish(&Wish { revision: "1.0.0", spec: &policy("onFailure: hold"), ..Wish::default() });
    device.start();
    device.until("the engine pulls the image", || device.docker.is_pulling()).await;
    device.docker.stop();
    device.docker.begin().await;
    device.until("the container runs and is not healthy yet", || !device.containers().is_empty()).await;
    device.docker.stop();
    device.docker.begin().await;
    device.reaches(State::Installed).await;
    assert!(codes(&device).iter().all(|code| code == "305"), "{:?}", codes(&device));

    // The container does not listen to being asked, so that stopping takes its time.
    device.publish(&[]);
    device.until("it is being stopped", || device.log().contains("removing: ")).await;
    device.docker.stop();
    device.docker.begin().await;
    device.reaches(State::Removed).await;
    assert!(device.all_containers().is_empty());
    assert!(codes(&device).iter().all(|code| code == "305"), "{:?}", codes(&device));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_down_with_the_engine_comes_up_with_it_whatever_the_drift_policy() {
    let mut device = Device::alone().await;
    device.install(&[]).await;
    for drift in ["drift: report", "drift: ignore"] {
        device.publish_wish(&Wish { revision: "1.0.0", spec: &policy(drift), ..Wish::default() });
        device.reaches(State::Installed).await;
        device.docker.stop();
        device.docker.begin().await;
        device.until(drift, || device.containers().len() == 1).await;
        device.reaches(State::Installed).await;
    }
    assert!(!codes(&device).contains(&"401".to_owned()), "nobody's hand was on it: {:?}", codes(&device));
    // A hand on it is another matter, and what it did outlives the engine.
    device.publish_wish(&Wish { revision: "1.0.0", spec: &policy("drift: report"), ..Wish::default() });
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
async fn after_a_reboot_what_ran_runs_again_and_what_a_hand_stopped_stays_so() {
    let mut device = Device::alone().await;
    device.install(&[]).await;
    for drift in ["drift: report", "drift: ignore"] {
        device.publish_wish(&Wish { revision: "1.0.0", spec: &policy(drift), ..Wish::default() });
        device.reaches(State::Installed).await;
        reboot(&mut device).await;
        device.until(drift, || device.containers().len() == 1).await;
        device.reaches(State::Installed).await;
    }
    device.publish_wish(&Wish { revision: "1.0.0", spec: &policy("drift: report"), ..Wish::default() });
    device.reaches(State::Installed).await;
    device.docker.docker(&["stop", &device.containers()[0]]);
    device.reaches(State::Failed).await;
    reboot(&mut device).await;
    let polls = device.fake.seen().len();
    device.until("time has passed", || device.fake.seen().len() > polls + 40).await;
    assert!(device.containers().is_empty());
}

/// Everything ends at once and begins anew, in what the agent takes for another boot of the machine.
async fn reboot(device: &mut Device) {
    let other = "00000000-0000-4000-8000-000000000000";
    let now = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let record = device.state_dir.join("revisions.json");
    let is_known = |text: &str| text.contains(now.trim());
    device.until("this boot is known", || is_known(&std::fs::read_to_string(&record).unwrap_or_default())).await;
    // A report is on its way while it is written down: of what was told a moment before the power went nobody knows.
    device.until("what was told is kept", || last_word_on_disk(device) == device.status().map(|told| told.state)).await;
    device.kill();
    device.docker.stop();
    // As if all of it had been written in an earlier one; the head of a record is the digest of the rest.
    let text = std::fs::read_to_string(&record).unwrap();
    let (head, rest) = text.split_once('\n').unwrap();
    let rest = rest.trim_end().replace(now.trim(), other);
    let (magic, _) = head.rsplit_once(' ').unwrap();
    std::fs::write(&record, format!("{magic} {}\n{rest}\n", margo::Digest::of(rest.as_bytes()))).unwrap();
    device.docker.begin().await;
    device.start();
}

fn last_word_on_disk(device: &Device) -> Option<State> {
    let text = std::fs::read_to_string(device.state_dir.join("statuses.json")).ok()?;
    let (_, rest) = text.split_once('\n')?;
    let book: StatusBook = serde_json::from_str(rest).ok()?;
    book.entries.get(&device.id).map(|entry| entry.status.state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_lost_its_memory_touches_nothing_until_it_is_told_and_takes_over_what_runs() {
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
    assert_eq!(started(&device), before, "what runs as wanted is taken over as it is");
    device.publish(&[]);
    device.reaches(State::Removed).await;
    assert!(device.all_containers().is_empty());
    assert_eq!(device.volumes().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reboot_without_network_everything_runs_again_from_what_the_device_holds() {
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
async fn after_a_long_absence_a_healthy_container_is_the_same_one() {
    let mut device = Device::new().await;
    device.install(&[]).await;
    let held = device.containers();
    let started = |device: &Device| {
        device.docker.docker(&["inspect", "--format", "{{.State.StartedAt}} {{.RestartCount}}", &held[0]])
    };
    let before = started(&device);
    device.kill();
    // The fleet went on without it for a long time; its own deployment is as it was, and another one came to it.
    let own = device.document(&Wish { revision: "1.0.0", ..Wish::default() });
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
    assert_eq!(started(&device), before, "neither the absence nor a neighbour's trouble restarts it");
}

//! The engine goes away and comes back; the device comes up without any network.

use crate::bench::{Device, Wish};
use margo::status::State;

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_away_for_a_while_is_waited_for() {
    let mut device = Device::alone().await;
    let image = device.push_image("1").await;
    device
        .registry
        .push_compose(crate::bench::REPOSITORY, "1.0.0", &[("compose.yaml", &crate::bench::web(&image))])
        .await;
    device.docker.stop();
    device.publish_wish(&Wish { revision: "1.0.0", ..Wish::default() });
    device.start();
    device.until("the missing engine is named", || device.log().contains("does not answer")).await;
    device.docker.begin().await;
    device.reaches(State::Installed).await;

    // Restarted under a running component, which has no restart policy of its own.
    device.docker.stop();
    device.docker.begin().await;
    device.until("the component runs again", || device.containers().len() == 1).await;
    device.reaches(State::Installed).await;
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

//! What people and accidents do to containers is seen, told and repaired; what is not ours is left alone.

use crate::bench::{Device, USER, Wish};
use margo::status::State;

/// The deployment is as it was applied again, and says so.
async fn heals(device: &Device, what: &str, mut healed: impl FnMut() -> bool) {
    device.until(what, &mut healed).await;
    device.reaches(State::Installed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_stopped_paused_or_removed_by_hand_are_repaired() {
    let mut device = Device::new().await;
    // Only events can be this quick.
    device.observe_period = "10m";
    device.install(&[]).await;
    let first = device.containers();

    device.docker.docker(&["stop", &first[0]]);
    heals(&device, "the stopped container runs again", || device.containers() == first).await;

    device.docker.docker(&["pause", &first[0]]);
    let running = |device: &Device| device.docker.docker(&["inspect", "--format", "{{.State.Status}}", &first[0]]);
    heals(&device, "the paused container runs again", || running(&device) == "running").await;

    device.docker.docker(&["rm", "--force", &first[0]]);
    heals(&device, "the removed container is made again", || device.containers().len() == 1).await;
    assert_ne!(device.containers(), first);
    assert_eq!(device.read("/data/starts").lines().count(), 3, "the volume lived through all of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_of_others_are_never_touched() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    // Somebody else's, even under a name much like ours.
    let certificates = device.docker.certificates().join(device.registry.host());
    std::fs::create_dir_all(&certificates).unwrap();
    std::fs::copy(device.registry.ca_file(), certificates.join("ca.crt")).unwrap();
    device.docker.docker(&["login", "--username", USER.name, "--password", USER.password, device.registry.host()]);
    let name = format!("{}-web-9", device.project());
    let foreign =
        device.docker.docker(&["run", "--detach", "--name", &name, "--volume", &format!("{name}:/data"), &image]);
    let born = |device: &Device| {
        device.docker.docker(&["inspect", "--format", "{{.State.StartedAt}} {{.RestartCount}}", &foreign])
    };
    let before = born(&device);
    device.install(&[]).await;
    device.publish_wish(&Wish { revision: "1.0.0", parameters: &[("COUNT", "2")], ..Wish::default() });
    device.reaches(State::Installed).await;
    device.publish(&[]);
    device.reaches(State::Removed).await;
    assert_eq!(born(&device), before);
    assert!(device.docker.docker(&["volume", "ls", "--quiet"]).contains(&name));
    device.docker.docker(&["rm", "--force", "--volumes", &foreign]);
}

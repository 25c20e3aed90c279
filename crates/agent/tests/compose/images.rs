//! Unused images are removed; images of others stay.

use crate::bench::{Device, DocumentOptions, REPOSITORY, USER, web};
use margo::status::State;

fn has(device: &Device, image: &str) -> bool {
    device.docker.try_docker(&["image", "inspect", image]).0
}

/// Upgrades to a revision with an image of its own.
async fn upgrade(device: &mut Device, image: &str, revision: &str) {
    device.registry.push_compose(REPOSITORY, revision, &[("compose.yaml", &web(image))]).await;
    device.publish_document(&DocumentOptions { revision, ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_images_of_older_revisions_but_never_those_of_others() {
    let mut device = Device::new().await;
    let mut images = Vec::new();
    for tag in ["0", "1", "2", "3", "4"] {
        // Unique to this test: an image is kept while any container uses it, and other tests share this engine.
        let own = margrave_testbed::images::busybox(&format!("{tag} of {}", device.id));
        images.push(device.registry.push_image("images/web", tag, &own).await);
    }
    let certificates = device.docker.certificates().join(device.registry.host());
    std::fs::create_dir_all(&certificates).unwrap();
    std::fs::copy(device.registry.ca_file(), certificates.join("ca.crt")).unwrap();
    device.docker.docker(&["login", "--username", USER.name, "--password", USER.password, device.registry.host()]);
    // Exists before the agent needs it.
    device.docker.docker(&["pull", &images[0]]);
    device.start();
    upgrade(&mut device, &images[0], "1.0.0").await;
    upgrade(&mut device, &images[1], "1.0.1").await;
    // Another container uses an image that this agent pulled.
    let foreign = device.docker.docker(&["create", &images[1]]);
    upgrade(&mut device, &images[2], "1.0.2").await;
    assert!(has(&device, &images[1]) && has(&device, &images[2]), "running and previous");
    upgrade(&mut device, &images[3], "1.0.3").await;
    assert!(has(&device, &images[1]), "in use by others");
    device.docker.docker(&["rm", &foreign]);
    upgrade(&mut device, &images[4], "1.0.4").await;
    device.until("older ones go", || !has(&device, &images[1]) && !has(&device, &images[2])).await;
    assert!(has(&device, &images[3]) && has(&device, &images[4]), "running and previous");

    // A rollback by one revision needs no registry.
    device.registry.stop();
    device.publish_document(&DocumentOptions { revision: "1.0.3", ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    assert!(device.read("/mark").starts_with("3 of "));
    device.publish(&[]);
    device.reaches(State::Removed).await;
    device.until("what it needed is gone", || !has(&device, &images[3]) && !has(&device, &images[4])).await;
    assert!(has(&device, &images[0]), "it was there before");
}

//! Right, wrong and rotated credentials against a registry with TLS.

use crate::bench::{Device, DocumentOptions, REPOSITORY, USER, web};
use margo::status::State;
use margrave_testbed::{Registry, images};

#[tokio::test(flavor = "multi_thread")]
async fn reports_wrong_credentials_and_applies_right_ones_at_once() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    std::fs::write(device.path("password"), "wrong").unwrap();
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    assert!(message.contains("refused the username and password"), "{message}");
    assert!(!device.log().contains("wrong"), "secrets are never logged");
    std::fs::write(device.path("password"), USER.password).unwrap();
    device.reaches(State::Installed).await;

    // Rotated at the registry: running workloads stay, the next pull needs the new one.
    device.registry.set_password(USER.name, "second secret");
    let held = device.containers();
    std::fs::write(device.path("password"), "second secret\n").unwrap();
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &[("COUNT", "2")],
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    assert!(device.containers().contains(&held[0]));
    let next = device.push_image("2").await;
    device.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &web(&next))]).await;
    std::fs::write(device.path("password"), USER.password).unwrap();
    device.publish_document(&DocumentOptions { revision: "2.0.0", ..DocumentOptions::default() });
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    assert!(message.contains("refused the username and password"), "the old one: {message}");
    std::fs::write(device.path("password"), "second secret").unwrap();
    device.reaches(State::Installed).await;
    assert_eq!(device.read("/mark"), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_registry_with_an_untrusted_certificate() {
    let mut device = Device::new().await;
    let other = Registry::start(device.docker.address(), None).await;
    let image = device.push_image("1").await;
    other.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    let source = format!("          repository: {}\n          revision: 1.0.0\n", other.repository(REPOSITORY));
    let served = device.document_from(&source, &DocumentOptions::default());
    device.publish(&[served]);
    device.start();
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    assert!(message.contains("cannot be reached") && message.to_lowercase().contains("certificate"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_replaces_an_unreachable_registry() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    // The same artifacts with the naming of a mirror; the registry in the references does not exist.
    let name = |path: &str| margrave_oci::mirror::repository("gone.example:5000", path).unwrap();
    device.registry.push_image(&name("images/web"), "1", &margrave_testbed::images::busybox("1")).await;
    let image = image.replace(device.registry.host(), "gone.example:5000");
    device.registry.push_compose(&name(REPOSITORY), "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.tables = format!("[[registry]]\nhost = \"gone.example:5000\"\nmirror = \"{}\"\n", device.registry.host());
    let source = format!("          repository: oci://gone.example:5000/{REPOSITORY}\n          revision: 1.0.0\n");
    let served = device.document_from(&source, &DocumentOptions::default());
    device.publish(&[served]);
    device.start();
    device.reaches(State::Installed).await;
    let named = device.docker.docker(&["ps", "--format", "{{.Image}}", "--filter", &device.label()]);
    assert_eq!(named, "gone.example:5000/images/web:1");
}

#[tokio::test(flavor = "multi_thread")]
async fn pulls_an_image_by_digest_from_a_mirror() {
    let mut device = Device::new().await;
    let right = images::busybox("right");
    let name = |path: &str| margrave_oci::mirror::repository("gone.example:5000", path).unwrap();
    device.registry.push_image(&name("images/web"), "any", &right).await;
    let image = format!("gone.example:5000/images/web@{}", right.digest());
    device.registry.push_compose(&name(REPOSITORY), "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.tables = format!("[[registry]]\nhost = \"gone.example:5000\"\nmirror = \"{}\"\n", device.registry.host());
    let source = format!("          repository: oci://gone.example:5000/{REPOSITORY}\n          revision: 1.0.0\n");
    let served = device.document_from(&source, &DocumentOptions::default());
    device.publish(&[served]);
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.read("/mark"), "right");
    let held = device.docker.docker(&["ps", "--format", "{{.Image}}", "--filter", &device.label()]);
    assert_eq!(held, format!("gone.example:5000/images/web:sha256-{}", right.digest().hex()));

    // Another image gets this tag: only the digest counts.
    let wrong = device.push_image("wrong").await;
    device.docker.docker(&["login", "--username", USER.name, "--password", USER.password, device.registry.host()]);
    device.docker.docker(&["pull", &wrong]);
    device.docker.docker(&["tag", &wrong, &held]);
    let served = device
        .document_from(&source, &DocumentOptions { parameters: &[("MODE", "next")], ..DocumentOptions::default() });
    device.publish(&[served]);
    device.reaches(State::Installed).await;
    device.until("it was made anew", || device.read("/data/mode") == "next").await;
    assert_eq!(device.read("/mark"), "right");

    // And it needs no registry afterwards.
    device.registry.stop();
    device.kill();
    for container in device.all_containers() {
        device.docker.docker(&["rm", "--force", &container]);
    }
    device.start();
    device.until("it runs again", || device.containers().len() == 1).await;
    assert_eq!(device.read("/mark"), "right");
}

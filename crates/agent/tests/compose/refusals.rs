//! Deployments that cannot succeed are rejected with the reason before any change; recovery from a full disk.

use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use margo::status::State;
use margrave_testbed::disk::SmallDisk;
use margrave_testbed::images;

#[tokio::test(flavor = "multi_thread")]
async fn rejects_used_ports_names_and_missing_memory_before_any_change() {
    let mut device = Device::new().await;
    let image = device.install(&[]).await;
    let before = device.containers();
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("taken-{}", device.project());
    device.docker.docker(&["run", "--detach", "--name", &name, &image]);
    let wants = format!(
        "services:\n  web:\n    image: {image}\n    container_name: {name}\n    ports: [\"{port}:80\"]\n    \
         deploy: {{ resources: {{ reservations: {{ memory: 100000g }} }} }}\n"
    );
    device.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &wants)]).await;
    device.publish_document(&DocumentOptions { revision: "2.0.0", ..DocumentOptions::default() });
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    for reason in
        [format!("port {port}/tcp of this device is in use"), format!("named `{name}`"), "of memory".to_owned()]
    {
        assert!(message.contains(&reason), "{reason}: {message}");
    }
    assert_eq!(device.containers(), before, "nothing was stopped for it");
    device.docker.docker(&["rm", "--force", &name]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_components_share_a_port_on_different_addresses() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let port = { std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port() };
    let on = |address: &str| format!("services:\n  web:\n    image: {image}\n    ports: [\"{address}:{port}:80\"]\n");
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &on("127.0.0.21"))]).await;
    device.registry.push_compose("components/panel", "1.0.0", &[("compose.yaml", &on("127.0.0.22"))]).await;
    device.registry.push_compose("components/panel", "1.0.1", &[("compose.yaml", &on("127.0.0.21"))]).await;
    let panel = |device: &Device, revision: &str| {
        let repository = device.registry.repository("components/panel");
        format!(
            "      - name: panel\n        properties:\n          repository: {repository}\n          revision: {revision}\n"
        )
    };
    let patch = panel(&device, "1.0.0");
    device.publish_document(&DocumentOptions { revision: "1.0.0", properties: &patch, ..DocumentOptions::default() });
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 2);
    let patch = panel(&device, "1.0.1");
    device.publish_document(&DocumentOptions { revision: "1.0.0", properties: &patch, ..DocumentOptions::default() });
    let status = device.reaches(State::Failed).await;
    let message = status.components[1].error.clone().unwrap().message;
    let holder = format!("port {port}/tcp is in use by container `{}-web-1`", device.project());
    assert!(message.contains(&holder), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_invalid_artifacts_with_the_reason() {
    // COMP-01, COMP-05, COMP-08
    let mut device = Device::new().await;
    let layer = margo::archive::pack(&[("web/docker-compose.yml".to_owned(), b"services: {}".as_slice())]);
    let push = |artifact_type: &str| {
        let part = |media_type: &str, bytes: &[u8]| serde_json::json!({ "mediaType": media_type, "digest": margo::Digest::of(bytes), "size": bytes.len() });
        serde_json::json!({
            "schemaVersion": 2, "mediaType": margrave_oci::build::MANIFEST_MEDIA_TYPE, "artifactType": artifact_type,
            "config": part("application/vnd.oci.empty.v1+json", b"{}"),
            "layers": [part(margrave_oci::build::COMPOSE_LAYER_TYPE, &layer)],
        })
        .to_string()
    };
    let blobs = [b"{}".to_vec(), layer.clone()];
    for (revision, artifact_type, reason) in [
        ("1.0.0", "application/vnd.docker.compose.project", "its artifactType is"),
        ("1.0.1", margrave_oci::build::COMPOSE_ARTIFACT_TYPE, "it has no `compose.yaml`"),
    ] {
        let manifest = push(artifact_type);
        let media_type = margrave_oci::build::MANIFEST_MEDIA_TYPE;
        device.registry.push(REPOSITORY, revision, media_type, manifest.as_bytes(), &blobs).await;
        device.publish_document(&DocumentOptions { revision, ..DocumentOptions::default() });
        if revision == "1.0.0" {
            device.start();
        }
        let status = device.reaches(State::Failed).await;
        let message = status.components[0].error.clone().unwrap().message;
        assert!(message.contains(reason), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_full_disk_in_pull_and_unpack_and_recovers() {
    let mut device = Device::new().await;
    let disk = SmallDisk::new(8 << 20);
    device.state_dir = disk.path().join("state");
    let image = device.push_image("1").await;
    let noise: String = (0..20_000).map(|at| margo::Digest::of(format!("n{at}").as_bytes()).to_string()).collect();
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image)), ("noise.txt", &noise)]).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    // Too small for the layer, then too small for its files, then large enough.
    for room in [400 << 10, 1600 << 10] {
        let filler = disk.fill(room);
        device.start();
        let status = device.reaches(State::Failed).await;
        let message = status.components[0].error.clone().unwrap().message;
        assert!(message.contains("free space on this file system"), "{message}");
        device.kill();
        std::fs::remove_file(filler).unwrap();
        device.fake.state().seen.clear();
    }
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_too_large_images_before_the_pull() {
    let disk = SmallDisk::new(80 << 20);
    let mut device = Device::alone_in(disk.path()).await;
    let image = device.registry.push_image("images/web", "1", &images::large("1", 12 << 20)).await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    assert!(message.contains("its images need about") && message.contains("MiB are free"), "{message}");
    assert!(!device.docker.try_docker(&["image", "inspect", &image]).0, "nothing was pulled");
    disk.resize(1 << 30);
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 1);
}

//! First boot of a preloaded device without manager and registry.

use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use crate::fake::reply;
use crate::pki::{WFM, client_id};
use crate::preloaded::PreloadBuilder;
use margo::status::State;
use margrave_core::publish;
use margrave_testbed::images;

const ISSUED: &str = "2026-11-17T09:00:00Z";

/// A device with a preload file and without its registry; returns the content of the file.
fn prepared(device: &mut Device) -> Vec<u8> {
    let image = images::busybox("preloaded");
    let name = format!("{}/images/web@{}", device.registry.host(), image.digest());
    let layer = margo::archive::pack(&[("web/compose.yaml".to_owned(), web(&name).as_bytes())]);
    let served = device.document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    let publication = publish::next(4, std::slice::from_ref(&served)).unwrap();
    let reference = format!("{}:1.0.0", device.registry.repository(REPOSITORY));
    let file = PreloadBuilder::new(&client_id("press-07"), &publication, std::slice::from_ref(&served))
        .issued(ISSUED)
        .artifact(&reference, &layer)
        .image(&name, image.blobs())
        .signed(&device.authority.svid(WFM))
        .file();
    device.registry.stop();
    device.fake.twist(|_| Some(reply(503, "")));
    device.tables = format!("[boot]\npreload = {:?}\n", device.path("preload.tar").display().to_string());
    device.version = publication.version;
    device.fake.publish(&publication, &[served]);
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preloaded_device_runs_its_workload_without_server_contact() {
    let mut device = Device::new().await;
    let file = prepared(&mut device);
    std::fs::write(device.path("preload.tar"), file).unwrap();
    device.start();
    device.until("it runs", || device.containers().len() == 1).await;
    device.until("it has started", || device.read("/data/starts") == "x").await;
    assert_eq!(device.read("/mark"), "preloaded");
    assert!(device.fake.reported(device.id).is_empty(), "nothing was reported yet");
    let held = device.containers();
    // Killed and started again without the file: the accepted state is stored on the device.
    device.kill();
    std::fs::remove_file(device.path("preload.tar")).unwrap();
    device.docker.docker(&["rm", "--force", &held[0]]);
    device.start();
    device.until("it runs again", || device.containers().len() == 1).await;
    let held = device.containers();

    // The manager appears, with the same manifest and then with the next one.
    device.fake.state().twist = None;
    device.reaches(State::Installed).await;
    assert_eq!(device.containers(), held);
    let same = device.document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.publish(&[same]);
    device.until("it goes by the server's", || device.log().contains("applied manifest version 6")).await;
    assert_eq!(device.containers(), held, "the server takes over without disturbing what runs");
    assert_eq!(device.read("/data/starts"), "x\nx");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tampered_preload_starts_nothing() {
    let mut device = Device::new().await;
    let mut file = prepared(&mut device);
    // A byte of the deployment, which comes after the head and the manifest.
    let needle = b"applicationId: app";
    let at = file.windows(needle.len()).position(|window| window == needle).unwrap();
    file[at] ^= 1;
    std::fs::write(device.path("preload.tar"), &file).unwrap();
    device.start();
    device.until("it is refused", || device.log().contains("the preloaded desired state is not used")).await;
    assert!(device.log().contains("damaged or tampered with"), "{}", device.log());
    file[at] ^= 1;
    // And a byte of the image, which the agent must detect before the engine.
    let last = file.len() - 20_000;
    file[last] ^= 1;
    std::fs::write(device.path("preload.tar"), &file).unwrap();
    device.until("the rest is taken", || device.log().contains("accepted manifest version 5")).await;
    device.until("the image is refused", || device.log().contains("cannot be used")).await;
    assert!(device.log().contains("is damaged or tampered with"), "{}", device.log());
    assert!(device.all_containers().is_empty());
}

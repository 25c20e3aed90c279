//! First boot of a device with everything it needs and nobody to ask: no manager, no registry.

use crate::bench::{Device, REPOSITORY, Wish, web};
use crate::fake::reply;
use crate::pki::{WFM, client_id};
use crate::preloaded::Making;
use margo::status::State;
use margrave_core::publish;
use margrave_testbed::images;

const ISSUED: &str = "2026-11-17T09:00:00Z";

/// A device with a file, and the registry it would need gone; gives the file's content.
fn prepared(device: &mut Device) -> Vec<u8> {
    let image = images::busybox("preloaded");
    let name = format!("{}/images/web@{}", device.registry.host(), image.digest());
    let layer = margo::archive::pack(&[("web/compose.yaml".to_owned(), web(&name).as_bytes())]);
    let served = device.document(&Wish { revision: "1.0.0", ..Wish::default() });
    let publication = publish::next(4, std::slice::from_ref(&served)).unwrap();
    let reference = format!("{}:1.0.0", device.registry.repository(REPOSITORY));
    let file = Making::new(&client_id("press-07"), &publication, std::slice::from_ref(&served))
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
async fn a_preloaded_device_runs_its_workload_before_it_has_heard_of_anybody() {
    let mut device = Device::new().await;
    let file = prepared(&mut device);
    std::fs::write(device.path("preload.tar"), file).unwrap();
    device.start();
    device.until("it runs", || device.containers().len() == 1).await;
    device.until("it has started", || device.read("/data/starts") == "x").await;
    assert_eq!(device.read("/mark"), "preloaded");
    assert!(device.fake.reported(device.id).is_empty(), "nobody was told yet");
    let held = device.containers();
    // Killed and started again, without the file: what was accepted is the device's own now.
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
    let same = device.document(&Wish { revision: "1.0.0", ..Wish::default() });
    device.publish(&[same]);
    device.until("it goes by the server's", || device.log().contains("manifest version 6 is carried out")).await;
    assert_eq!(device.containers(), held, "the server takes over without disturbing what runs");
    assert_eq!(device.read("/data/starts"), "x\nx");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preload_that_was_tampered_with_starts_nothing() {
    let mut device = Device::new().await;
    let mut file = prepared(&mut device);
    // A bit of the deployment, which comes after the head and the manifest.
    let needle = b"applicationId: app";
    let at = file.windows(needle.len()).position(|window| window == needle).unwrap();
    file[at] ^= 1;
    std::fs::write(device.path("preload.tar"), &file).unwrap();
    device.start();
    device.until("it is refused", || device.log().contains("the preloaded desired state is not used")).await;
    assert!(device.log().contains("damaged or tampered with"), "{}", device.log());
    file[at] ^= 1;
    // And a byte of the image, which is not the engine's to find out.
    let last = file.len() - 20_000;
    file[last] ^= 1;
    std::fs::write(device.path("preload.tar"), &file).unwrap();
    device.until("the rest is taken", || device.log().contains("accepted manifest version 5")).await;
    device.until("the image is refused", || device.log().contains("cannot be used")).await;
    assert!(device.log().contains("is damaged or tampered with"), "{}", device.log());
    assert!(device.all_containers().is_empty());
}

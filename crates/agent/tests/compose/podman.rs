//! Podman through its Docker-compatible socket: the life of a component, without health checks, which need systemd there.

use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use margo::status::State;

#[tokio::test(flavor = "multi_thread")]
async fn runs_a_component_on_podman() {
    // DEV-03
    let mut device = Device::on_podman().await;
    device.install(&[("MODE", "slow")]).await;
    device.until("it has started", || device.read("/data/mode") == "slow").await;
    let first = device.containers();

    // Reconfigured and scaled: the volume is the same one.
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &[("MODE", "fast")],
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    device.until("it was made anew", || device.read("/data/mode") == "fast").await;
    assert_ne!(device.containers(), first);
    assert_eq!(device.read("/data/starts"), "x\nx");
    let parameters = [("MODE", "fast"), ("COUNT", "2")];
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 2);

    // Upgraded to another image, by a registry with TLS and a password.
    let image = device.push_image("2").await;
    device.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &web(&image))]).await;
    device.publish_document(&DocumentOptions { revision: "2.0.0", ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    assert_eq!(device.read("/mark"), "2");
    assert_eq!(device.containers().len(), 1);

    // Stopped and removed by hand.
    let running = device.containers();
    device.docker.docker(&["stop", &running[0]]);
    device.until("it runs again", || device.containers() == running).await;
    device.docker.docker(&["rm", "--force", &running[0]]);
    device.until("it is made again", || device.containers().len() == 1).await;
    device.reaches(State::Installed).await;

    // A component that ends with an error fails, with its last words.
    let broken = format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"echo no such press; exit 7\"]\n"
    );
    device.registry.push_compose(REPOSITORY, "3.0.0", &[("compose.yaml", &broken)]).await;
    device.publish_document(&DocumentOptions { revision: "3.0.0", ..DocumentOptions::default() });
    let failed = device.reaches(State::Failed).await;
    let message = failed.components[0].error.clone().unwrap().message;
    assert!(message.contains("exited with code 7") && message.contains("no such press"), "{message}");

    device.publish(&[]);
    device.reaches(State::Removed).await;
    assert_eq!(device.all_containers(), Vec::<String>::new());
    assert_eq!(device.volumes().len(), 1, "data stays");
}

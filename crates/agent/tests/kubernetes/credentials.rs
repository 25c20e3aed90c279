//! Right, wrong and rotated credentials: of charts through the agent, of images through pull secrets.

use crate::bench::{Device, DocumentOptions, USER};
use crate::charts;
use margo::status::State;
use margrave_agent::hold;
use margrave_testbed::images;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn reports_wrong_credentials_and_applies_rotated_ones_to_pods() {
    let mut device = Device::helm().await;
    let one = device.registry.push_image("images/web", "1", &images::busybox("private 1")).await;
    let two = device.registry.push_image("images/web", "2", &images::busybox("private 2")).await;
    device.push_chart("web", &charts::web("1.0.0", &one)).await;
    device.push_chart("web", &charts::web("2.0.0", &two)).await;
    std::fs::write(device.path("password"), "wrong").unwrap();
    device.publish_revision("1.0.0");
    device.start();
    device.reaches(State::Failed).await;
    assert!(device.message().contains("refused the username and password"), "{}", device.message());
    assert!(!device.log().contains("wrong"), "secrets are never logged");
    std::fs::write(device.path("password"), USER.password).unwrap();
    device.reaches(State::Installed).await;
    assert_eq!(device.exec(&["cat", "/mark"]), "private 1");
    let secret = format!("{}-registry", device.instance());
    let secrets = device.workload()["spec"]["template"]["spec"]["imagePullSecrets"].clone();
    assert_eq!(secrets[0]["name"], secret.as_str(), "{secrets}");
    let held =
        |device: &Device| device.kubectl(&["get", "secret", &secret, "-o", r"jsonpath={.data.\.dockerconfigjson}"]);
    let before = held(&device);

    // A maintenance hold stops this like any other change; it follows after the hold.
    let now = hold::moment(&margrave_agent::SystemClock);
    hold::begin(&device.state_dir, "changing the fan", Duration::from_hours(2), &now).unwrap();
    device.until("it holds", || device.log().contains("maintenance hold until")).await;
    device.registry.set_password(USER.name, "held secret");
    std::fs::write(device.path("password"), "held secret").unwrap();
    let polls = device.fake.seen().len();
    // Longer than `observe_period`.
    device.until("it polls on", || device.fake.seen().len() > polls + 20).await;
    assert_eq!(held(&device), before, "nothing changes during a maintenance hold");
    assert!(hold::end(&device.state_dir).unwrap());
    device.until("the secret follows", || held(&device) != before).await;
    let before = held(&device);

    // Rotated at the registry and on the device: running pods stay, the next pull uses the new one.
    let kept = device.pods();
    device.registry.set_password(USER.name, "second secret");
    std::fs::write(device.path("password"), "second secret\n").unwrap();
    device.until("the secret follows", || held(&device) != before).await;
    assert_eq!(device.pods(), kept);
    device.publish_document(&DocumentOptions { revision: "2.0.0", ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    device.until("the new pod runs", || device.pods().len() == 1 && device.pods() != kept).await;
    assert_eq!(device.exec(&["cat", "/mark"]), "private 2");

    device.remove().await;
    let gone = device.cluster.object(&format!("/api/v1/namespaces/{}/secrets/{secret}", device.namespace));
    assert_eq!(gone, None, "credentials are removed with their component");
}

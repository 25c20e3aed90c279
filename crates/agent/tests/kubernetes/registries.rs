//! Token registries and mirrors: for charts and manifests through the agent, for images through the node.

use crate::bench::{Device, DocumentOptions, USER};
use crate::charts;
use margo::status::State;
use margrave_testbed::images;
use std::sync::{Arc, Mutex};

#[tokio::test(flavor = "multi_thread")]
async fn agent_and_node_use_the_current_password_for_registry_tokens() {
    let password = Arc::new(Mutex::new(USER.password.to_owned()));
    let mut device = Device::with_token_service(Arc::clone(&password)).await;
    let image = device.registry.push_image("images/web", "1", &images::busybox("by token")).await;
    device.push("1.0.0", &image).await;
    "rotated".clone_into(&mut password.lock().unwrap());
    device.publish_revision("1.0.0");
    device.start();
    device.reaches(State::Failed).await;
    assert!(device.message().contains("refused the username and password"), "{}", device.message());
    std::fs::write(device.path("password"), "rotated").unwrap();
    device.reaches(State::Installed).await;
    assert_eq!(device.exec(&["cat", "/mark"]), "by token");
    device.remove().await;

    // The same for plain manifests, with an image the node does not hold yet.
    USER.password.clone_into(&mut password.lock().unwrap());
    std::fs::write(device.path("password"), USER.password).unwrap();
    let image = device.registry.push_image("images/web", "2", &images::busybox("by token again")).await;
    device.deployment_type = "custom";
    device.push_manifests("web", "2.0.0", &charts::objects(&image)).await;
    device.publish_revision("2.0.0");
    device.reaches(State::Installed).await;
    assert_eq!(device.exec(&["cat", "/mark"]), "by token again");
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_replace_an_unreachable_registry() {
    let mut device = Device::helm().await;
    // Each test uses its own registry name, because the node has one setting per name.
    let gone = format!("{}.example:5000", device.namespace);
    let name = |path: &str| margrave_oci::mirror::repository(&gone, path).unwrap();
    device.registry.push_image(&name("images/web"), "1", &images::busybox("mirrored")).await;
    device.cluster.mirror(&gone, &device.registry, USER);
    let image = format!("{gone}/images/web:1");
    let chart = margrave_oci::build::chart(&charts::files(&charts::web("1.0.0", &image))).unwrap();
    device.registry.push_artifact(&name("components/web"), &chart).await;
    let files = charts::files(&[("manifests/all.yaml", charts::objects(&image))]);
    let manifests = margrave_oci::build::manifests(&files, "web", "2.0.0").unwrap();
    device.registry.push_artifact(&name("components/web"), &manifests).await;

    device.tables = format!("[[registry]]\nhost = \"{gone}\"\nmirror = \"{}\"\n", device.registry.host());
    device.start();
    for (deployment_type, revision) in [("helm", "1.0.0"), ("custom", "2.0.0")] {
        device.deployment_type = deployment_type;
        let component = Device::component_at("web", &format!("oci://{gone}/components/web"), revision);
        let served = device.document_of(&component, &DocumentOptions::default());
        device.publish(&[served]);
        device.reaches(State::Installed).await;
        assert_eq!(device.workload()["spec"]["template"]["spec"]["containers"][0]["image"], image.as_str());
        assert_eq!(device.exec(&["cat", "/mark"]), "mirrored");
        device.remove().await;
    }
}

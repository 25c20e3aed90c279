//! Control plane outages, and node reboots without network.

use crate::bench::{Device, DocumentOptions, IMAGE};
use crate::charts;
use crate::fake::reply;
use margo::status::State;
use margrave_testbed::images;

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_an_unavailable_control_plane() {
    let mut device = Device::alone("helm").await;
    device.push("1.0.0", IMAGE).await;
    device.cluster.end_api_server();
    device.publish_revision("1.0.0");
    device.start();
    device.until("the missing cluster is named", || device.log().contains("does not answer")).await;
    device.cluster.begin_api_server().await;
    device.reaches(State::Installed).await;
    let kept = device.pods();

    // Unavailable while a component runs: nothing changes, and no wrong state is reported.
    device.cluster.end_api_server();
    let polls = device.fake.seen().len();
    device.until("it polls on", || device.fake.seen().len() > polls + 15).await;
    assert_eq!(device.status().unwrap().state, State::Installed);
    device.cluster.begin_api_server().await;
    device.until("the pod still runs", || device.pods() == kept).await;
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &[("mode", "later")],
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_everything_after_a_node_reboot_without_network() {
    let mut device = Device::alone("helm").await;
    let image = device.registry.push_image("images/web", "1", &images::busybox("pulled")).await;
    let chart = charts::with_values("1.0.0", &format!("image: {image}\n"));
    device.push_chart("web", &chart).await;
    // A pod that would not start again: the device warns in advance.
    let always = charts::with_values("1.0.0", &format!("image: {image}\npull: Always\n"));
    device.push_chart("panel", &always).await;
    let components = device.component("web", "1.0.0") + &device.component("panel", "1.0.0");
    let served = device.document_of(&components, &DocumentOptions::default());
    device.publish(&[served]);
    device.start();
    device.reaches(State::Installed).await;
    let warning = format!("image `{image}` is pulled at every start (imagePullPolicy Always)");
    assert!(device.log().contains(&warning), "{}", device.log());
    let pods = device.pods();
    let web = pods.iter().find(|name| name.starts_with(&device.instance())).unwrap().clone();

    device.kill();
    device.registry.stop();
    device.fake.twist(|_| Some(reply(503, "")));
    device.cluster.reboot().await;
    device.start();
    let status = "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}";
    let arguments = ["-n", device.namespace.as_str(), "get", "pod", &web, "-o", status];
    device.cluster.until("it runs again", &arguments, |seen| seen == "1 true").await;
    // A deleted pod is recreated the same way.
    device.kubectl(&["delete", "pod", &web, "--grace-period=0", "--force"]);
    let other =
        |device: &Device| device.pods().into_iter().any(|name| name != web && name.starts_with(&device.instance()));
    device.until("another takes its place", || other(&device)).await;
}

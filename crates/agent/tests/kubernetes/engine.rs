//! The control plane goes away and comes back; the node comes up without any network.

use crate::bench::{Device, IMAGE, Wish};
use crate::charts;
use crate::fake::reply;
use margo::status::State;
use margrave_testbed::images;

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_is_away_for_a_while_is_waited_for() {
    let mut device = Device::alone("helm").await;
    device.push("1.0.0", IMAGE).await;
    device.cluster.end_api_server();
    device.publish_revision("1.0.0");
    device.start();
    device.until("the missing cluster is named", || device.log().contains("does not answer")).await;
    device.cluster.begin_api_server().await;
    device.reaches(State::Installed).await;
    let kept = device.pods();

    // Away under a running component: nothing is changed, and nothing is told that is not so.
    device.cluster.end_api_server();
    let polls = device.fake.seen().len();
    device.until("it polls on", || device.fake.seen().len() > polls + 15).await;
    assert_eq!(device.status().unwrap().state, State::Installed);
    device.cluster.begin_api_server().await;
    device.until("the pod still runs", || device.pods() == kept).await;
    device.publish_wish(&Wish { revision: "1.0.0", parameters: &[("mode", "later")], ..Wish::default() });
    device.reaches(State::Installed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reboot_without_network_everything_runs_again_from_what_the_node_holds() {
    let mut device = Device::alone("helm").await;
    let image = device.registry.push_image("images/web", "1", &images::busybox("pulled")).await;
    let chart = charts::with_values("1.0.0", &format!("image: {image}\n"));
    device.push_chart("web", &chart).await;
    // One that would not come up: the device says so before it is too late.
    let always = charts::with_values("1.0.0", &format!("image: {image}\npull: Always\n"));
    device.push_chart("panel", &always).await;
    let components = device.component("web", "1.0.0") + &device.component("panel", "1.0.0");
    let served = device.document_of(&components, &Wish::default());
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
    // A pod that is lost as well comes back the same way.
    device.kubectl(&["delete", "pod", &web, "--grace-period=0", "--force"]);
    let other =
        |device: &Device| device.pods().into_iter().any(|name| name != web && name.starts_with(&device.instance()));
    device.until("another takes its place", || other(&device)).await;
}

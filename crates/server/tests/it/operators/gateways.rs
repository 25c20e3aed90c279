//! Devices behind a gateway (GW-02, GW-04).

use super::packages::upload;
use super::{Kind, all_deployments, api, create, finished, problem};
use crate::support::TestServer;
use crate::support::client::Device;
use margrave_api::devices::DeviceRef;
use margrave_api::rollouts::Scope;
use serde_json::json;

fn place(device: &str) -> Scope {
    let device = DeviceRef { client: "gw".to_owned(), device: device.to_owned() };
    Scope { devices: Some(vec![device]), ..Scope::default() }
}

/// A gateway that only relays, without hosting fields (CAP-06).
async fn relay(client: &Device) {
    let body = json!({
        "properties": { "id": "gw", "vendor": "Example", "modelNumber": "G-1", "serialNumber": "1" }, "labels": {},
    });
    let response = client.put("/api/v1/capabilities/gw", body.to_string()).await;
    assert!(response.status().is_success(), "{}", response.text().await.unwrap());
}

#[tokio::test]
async fn lets_a_gateway_select_when_one_of_its_devices_is_compatible() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    let client = server.accepted("gw").await;
    relay(&client).await;
    let unknown = problem(api.create_deployments(&create("1.0.0", place("gw/*"))).await);
    assert!(unknown.code == "unplaceable" && unknown.errors[0].message.contains("no child devices"), "{unknown:?}");

    let small = Kind { memory: "512Mi", types: &["compose"], ..Kind::default() };
    small.report(&client, "gw/a").await;
    let no = problem(api.create_deployments(&create("1.0.0", place("gw/*"))).await);
    assert_eq!((no.code.as_str(), no.errors[0].field.as_str()), ("unplaceable", "gw/gw/*"), "{no:?}");
    Kind::default().report(&client, "gw/b").await;
    finished(&api, &api.create_deployments(&create("1.0.0", place("gw/*"))).await.unwrap()).await;
    let deployment = all_deployments(&api).await.remove(0);
    assert_eq!((deployment.device.as_str(), deployment.profile.as_str()), ("gw/*", "small"));
    let document = api.deployment_document(&deployment.id, None).await.unwrap();
    assert!(document.contains("gw/*"), "{document}");
}

#[tokio::test]
async fn a_device_behind_a_gateway_is_named_by_its_path() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    let client = server.accepted("gw").await;
    relay(&client).await;
    Kind::default().report(&client, "gw/b").await;
    assert!(!api.device("gw", "gw").await.unwrap().hosts_workloads);
    assert_eq!(api.device("gw", "gw/b").await.unwrap().device, "gw/b");
    let relays = problem(api.create_deployments(&create("1.0.0", place("gw"))).await);
    assert_eq!(relays.code, "unplaceable", "a relay hosts nothing itself");
    finished(&api, &api.create_deployments(&create("1.0.0", place("gw/b"))).await.unwrap()).await;
    assert_eq!(all_deployments(&api).await[0].device, "gw/b");
    assert_eq!(problem(api.delete_device("gw", "gw", None).await).code, "in-use", "a child has a deployment");
}

#[tokio::test]
async fn deployments_of_all_devices_behind_a_gateway_are_in_its_one_manifest() {
    // DS-07
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    let client = server.accepted("gw").await;
    relay(&client).await;
    let children = ["gw/a", "gw/b"];
    for child in children {
        Kind::default().report(&client, child).await;
        finished(&api, &api.create_deployments(&create("1.0.0", place(child))).await.unwrap()).await;
    }
    let body = client.get("/api/v1/deployments").await.bytes().await.unwrap();
    let manifest = margo::manifest::StateManifest::read(&body).unwrap().document;
    let mut targets = Vec::new();
    for reference in &manifest.deployments {
        let yaml = client.get(&reference.url).await.bytes().await.unwrap();
        let deployment = margo::deployment::ApplicationDeployment::read(&yaml).unwrap().document;
        targets.push(deployment.metadata.device_id.unwrap().to_string());
    }
    targets.sort();
    assert_eq!(targets, children);
}

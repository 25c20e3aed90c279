//! `PUT` and `DELETE /api/v1/capabilities/{deviceId}` (requirements §7, §12).

use crate::support::client::refused;
use crate::support::fleet::capabilities;
use crate::support::{TestServer, client_id};
use margrave_core::model::DeviceKey;
use margrave_server::config::UnknownTypes;
use serde_json::{Value, json};

async fn stored(server: &TestServer, client: &str, device: &str) -> Option<Vec<u8>> {
    let key = DeviceKey { client: client_id(client), device: device.parse().unwrap() };
    server.state().store.device_get(&key).await.unwrap().map(|device| device.capabilities)
}

#[tokio::test]
async fn a_first_report_creates_and_a_second_updates() {
    // CAP-03
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let created = press.put("/api/v1/capabilities/press", capabilities("press")).await;
    assert_eq!(created.status(), 201);
    assert!(created.headers().contains_key("x-request-id"));
    assert_eq!(created.text().await.unwrap(), "");
    assert_eq!(press.put("/api/v1/capabilities/press", capabilities("press")).await.status(), 200);
    assert_eq!(stored(&server, "press", "press").await.unwrap(), capabilities("press").as_bytes());
}

#[tokio::test]
async fn a_child_comes_after_its_gateway_with_raw_slashes_in_the_path() {
    // CAP-04, GW-02, W-04
    let server = TestServer::start().await;
    let gateway = server.accepted("gw").await;
    let early = gateway.put("/api/v1/capabilities/gw/cell-1", capabilities("gw/cell-1")).await;
    refused(early, 404, Some("gateway-not-found")).await;
    assert_eq!(gateway.put("/api/v1/capabilities/gw", capabilities("gw")).await.status(), 201);
    assert_eq!(gateway.put("/api/v1/capabilities/gw/cell-1", capabilities("gw/cell-1")).await.status(), 201);
    let deeper = gateway.put("/api/v1/capabilities/gw/cell-1/drive", capabilities("gw/cell-1/drive")).await;
    assert_eq!(deeper.status(), 201);
    // A client that encodes the slash anyway means the same device.
    let encoded = gateway.put("/api/v1/capabilities/gw%2Fcell-1", capabilities("gw/cell-1")).await;
    assert_eq!(encoded.status(), 200);
    assert!(stored(&server, "gw", "gw/cell-1/drive").await.is_some());
}

#[tokio::test]
async fn a_deleted_device_is_gone_with_its_children() {
    // CAP-03
    let server = TestServer::start().await;
    let gateway = server.accepted("gw").await;
    for device in ["gw", "gw/cell"] {
        gateway.put(&format!("/api/v1/capabilities/{device}"), capabilities(device)).await;
    }
    let deleted = gateway.delete("/api/v1/capabilities/gw").await;
    assert_eq!(deleted.status(), 204);
    assert_eq!(deleted.text().await.unwrap(), "");
    refused(gateway.delete("/api/v1/capabilities/gw").await, 404, Some("device-not-found")).await;
    refused(gateway.delete("/api/v1/capabilities/gw/cell").await, 404, Some("device-not-found")).await;
    refused(gateway.delete("/api/v1/capabilities/a%20b").await, 404, Some("device-not-found")).await;
}

#[tokio::test]
async fn two_clients_use_the_same_device_id_for_two_devices() {
    // GEN-09, GEN-11
    let server = TestServer::start().await;
    let (one, other) = (server.accepted("one").await, server.accepted("other").await);
    assert_eq!(one.put("/api/v1/capabilities/plc", capabilities("plc")).await.status(), 201);
    refused(other.delete("/api/v1/capabilities/plc").await, 404, Some("device-not-found")).await;
    assert_eq!(other.put("/api/v1/capabilities/plc", capabilities("plc")).await.status(), 201);
    assert_eq!(other.delete("/api/v1/capabilities/plc").await.status(), 204);
    assert!(stored(&server, "one", "plc").await.is_some());
}

#[tokio::test]
async fn distinguishes_malformed_and_invalid_reports_and_stores_neither() {
    // CAP-03, CAP-05, PRB-02
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let path = "/api/v1/capabilities/press";
    refused(press.put(path, "{\"properties\":").await, 400, Some("invalid-request")).await;
    refused(press.put(path, "").await, 400, Some("invalid-request")).await;
    refused(press.put(path, "\u{0}").await, 400, Some("invalid-request")).await;
    refused(press.put("/api/v1/capabilities/a%20b", capabilities("a")).await, 400, Some("invalid-request")).await;
    refused(press.put("/api/v1/capabilities/a%FF", capabilities("a")).await, 400, Some("invalid-request")).await;

    let missing = refused(press.put(path, "{\"labels\":{}}").await, 422, Some("semantic-error")).await;
    assert!(missing["errors"][0]["field"].as_str().unwrap().contains("properties"), "{missing}");
    let other_id = refused(press.put(path, capabilities("lathe")).await, 422, Some("semantic-error")).await;
    assert_eq!(other_id["errors"][0]["field"], "properties.id");
    assert!(stored(&server, "press", "press").await.is_none());
}

#[tokio::test]
async fn rejects_a_body_above_the_limit() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let body = vec![b' '; margrave_server::devices::CAPABILITIES_BYTES_MAX + 1];
    refused(press.put("/api/v1/capabilities/press", body).await, 413, None).await;
}

#[tokio::test]
async fn accepts_the_old_envelope_and_unusual_quantities() {
    // W-16, W-17, W-18
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let mut body: Value = serde_json::from_str(&capabilities("press")).unwrap();
    body["apiVersion"] = json!("device.margo.org/v1alpha1");
    body["kind"] = json!("DeviceCapabilitiesManifest");
    body["properties"]["memory"] = json!("59 Gi");
    body["properties"]["storage"] = json!("plenty");
    body["properties"]["otelCollector"] = json!(false);
    assert_eq!(press.put("/api/v1/capabilities/press", body.to_string()).await.status(), 201);
}

#[tokio::test]
async fn rejects_an_unknown_deployment_type_or_treats_it_as_custom() {
    // CAP-07
    let mut body: Value = serde_json::from_str(&capabilities("press")).unwrap();
    body["properties"]["supportedDeploymentTypes"] = json!(["helm", "wasm"]);
    let strict = TestServer::start().await;
    let press = strict.accepted("press").await;
    let problem =
        refused(press.put("/api/v1/capabilities/press", body.to_string()).await, 422, Some("semantic-error")).await;
    assert!(problem["errors"][0]["field"].as_str().unwrap().contains("supportedDeploymentTypes"), "{problem}");

    let lenient = TestServer::start_with(|config| config.capabilities.unknown_types = UnknownTypes::Custom).await;
    let press = lenient.accepted("press").await;
    assert_eq!(press.put("/api/v1/capabilities/press", body.to_string()).await.status(), 201);
}

#[tokio::test]
async fn rejects_labels_that_do_not_fit_the_index() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let report = async |labels: Value| {
        let mut body: Value = serde_json::from_str(&capabilities("press")).unwrap();
        body["labels"] = labels;
        press.put("/api/v1/capabilities/press", body.to_string()).await
    };
    let field = async |labels: Value| {
        let problem = refused(report(labels).await, 422, Some("semantic-error")).await;
        problem["errors"][0]["field"].as_str().unwrap().to_owned()
    };
    let many: Vec<String> = (0..257).map(|number| number.to_string()).collect();
    assert_eq!(field(json!({ "site": many })).await, "labels");
    assert_eq!(field(json!({ "k".repeat(257): "v" })).await, "labels");
    assert_eq!(field(json!({ "si\u{0}te": "v" })).await, "labels");
    assert_eq!(field(json!({ "site": "v".repeat(1025) })).await, "labels.site");
    assert_eq!(field(json!({ "site": ["north", "so\u{0}uth"] })).await, "labels.site");
    assert!(stored(&server, "press", "press").await.is_none(), "nothing was stored");
    assert_eq!(report(json!({ "site": many[..256] })).await.status(), 201);
}

use super::*;
use crate::finding::Severity;
use serde_json::json;

const B: &str = include_str!("../../tests/fixtures/capabilities-b.json");
const A1: &str = include_str!("../../tests/fixtures/capabilities-a1.json");
const GATEWAY: &str = include_str!("../../tests/fixtures/capabilities-gateway.json");

fn read(text: &str) -> ReadResult<DeviceCapabilities> {
    DeviceCapabilities::read(text.as_bytes(), UnknownTypes::Refuse)
}

fn changed(from: &str, to: &str) -> String {
    assert!(B.contains(from), "{from}");
    B.replacen(from, to, 1)
}

fn refused(text: &str, path: &str, words: &str) {
    let findings = read(text).unwrap_err();
    let found = findings
        .0
        .iter()
        .any(|finding| finding.severity == Severity::Error && finding.path == path && finding.message.contains(words));
    assert!(found, "{findings}");
}

#[test]
fn every_field_of_generation_b_is_read_and_written_without_blanks() {
    let read_b = read(B).unwrap();
    assert_eq!(read_b.warnings, []);
    let capabilities = read_b.document;
    assert!(capabilities.properties.hosts_workloads());
    assert_eq!(capabilities.properties.memory.as_deref(), Some("4 Gi"), "W-17: kept as sent");
    assert_eq!(capabilities.raw_properties["memory"], json!("4 Gi"));
    assert_eq!(capabilities.labels["ardent.example/zones"], json!(["top", "bottom"]));
    let written = capabilities.to_json();
    let text = String::from_utf8(written.clone()).unwrap();
    assert!(text.contains("\"memory\":\"4Gi\""), "CAP-10: emitted without the blank: {text}");
    assert!(!text.contains("apiVersion"), "W-16");
    let again = DeviceCapabilities::read(&written, UnknownTypes::Refuse).unwrap();
    assert_eq!(again.warnings, []);
    assert_eq!(again.document.to_json(), written);
}

#[test]
fn accepts_the_old_envelope_with_a_warning() {
    // W-16
    let text =
        B.replacen('{', "{\"apiVersion\": \"device.margo.org/v1alpha1\", \"kind\": \"DeviceCapabilitiesManifest\",", 1);
    assert_eq!(read(&text).unwrap().warnings.len(), 2);
    refused(&B.replacen('{', "{\"kind\": \"Pod\",", 1), "kind", "DeviceCapabilitiesManifest");
}

#[test]
fn roles_and_resources_are_read_as_hosting_fields() {
    let read = read(A1).unwrap();
    let properties = &read.document.properties;
    assert_eq!(properties.cpus.as_ref().unwrap()[0], Cpu { cores: 8.0, architecture: Some("amd64".to_owned()) });
    assert_eq!(properties.memory.as_deref(), Some("plenty"), "W-17: unknown is not wrong");
    assert_eq!(properties.supported_deployment_types.as_ref().unwrap()[..], ["compose", "helm"]);
    assert_eq!(properties.supported_runtimes.as_ref().unwrap()[..], ["oci"]);
    let raw = &read.document.raw_properties;
    assert_eq!(raw.pointer("/cpus/0/architecture"), Some(&json!("amd64")), "selectors find the form of B");
    assert_eq!(raw.get("resources"), None);
    assert!(read.warnings.len() >= 5, "{:?}", read.warnings);
}

#[test]
fn a_gateway_without_hosting_fields_hosts_nothing() {
    // CAP-06
    let read = read(GATEWAY).unwrap();
    assert_eq!(read.warnings, []);
    assert!(!read.document.properties.hosts_workloads());
}

#[test]
fn requires_identity_fields() {
    for field in ["id", "vendor", "modelNumber", "serialNumber"] {
        let text = GATEWAY.replace(&format!("\"{field}\""), "\"other\"");
        refused(&text, &format!("properties.{field}"), "is missing");
    }
    refused("{}", "properties", "is missing");
    refused(&changed("hall-gateway/kiln-3", "hall//kiln"), "properties.id", "device id");
    refused(&changed("\"000042\"", "42"), "properties.serialNumber", "must be text, not a number");
}

#[test]
fn closed_enumerations_are_refused_naming_the_field() {
    // CAP-07, first reading
    refused(
        &changed("[\"compose\"]", "[\"compose\", \"flatpak\"]"),
        "properties.supportedDeploymentTypes[1]",
        "`flatpak`",
    );
    refused(&changed("[\"oci\"]", "[\"wasm\"]"), "properties.supportedRuntimes[0]", "oci, custom");
    refused(&changed("[\"oci\"]", "[]"), "properties.supportedRuntimes", "at least one");
    refused(&changed("\"camera\"", "\"keyboard\""), "properties.peripherals[0].type", "gpu");
    refused(&changed("\"rs232\"", "\"rs485\""), "properties.interfaces[1].type", "rs232");
    refused(&changed("\"arm64\"", "\"mips\""), "properties.cpus[0].architecture", "amd64");
}

#[test]
fn unknown_types_count_as_custom_when_the_prose_is_followed() {
    // CAP-07, second reading
    let text = changed("[\"compose\"]", "[\"compose\", \"flatpak\", \"snap\"]");
    let read = DeviceCapabilities::read(text.as_bytes(), UnknownTypes::Custom).unwrap();
    assert_eq!(read.document.properties.supported_deployment_types.unwrap(), ["compose", "custom"]);
    assert_eq!(read.warnings.len(), 2);
}

#[test]
fn labels_have_simple_values() {
    // CAP-08
    for value in ["null", "{}", "[[1]]", "[1, \"a\"]", "[true]"] {
        refused(&changed("\"north\"", value), "labels.ardent.example/hall", "a list of texts or of numbers");
    }
}

#[test]
fn allows_only_properties_labels_and_extensions() {
    refused(&B.replacen('{', "{\"status\": 1,", 1), "status", "not allowed here");
    // CAP-09
    let odd = B.replacen('{', "{\"x-Odd\": 1, \"x-absent-extensions\": {\"a\": 1},", 1);
    let read = read(&odd).unwrap();
    assert_eq!(read.warnings.len(), 1);
    assert_eq!(read.document.extensions["x-absent-extensions"], json!({"a": 1}));
}

#[test]
fn a_missing_collector_is_a_warning() {
    // W-18
    let read_false = read(&changed("\"otelCollector\": true", "\"otelCollector\": false")).unwrap();
    assert!(read_false.warnings[0].message.contains("collector"));
    let without = read(&changed("\"otelCollector\": true,", "")).unwrap();
    assert!(without.warnings[0].message.contains("otelCollector"));
}

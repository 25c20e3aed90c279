use super::*;
use crate::finding::Severity;
use serde_json::json;

const B: &str = include_str!("../../tests/fixtures/deployment-b.yaml");
const A: &str = include_str!("../../tests/fixtures/deployment-a.yaml");

fn changed(from: &str, to: &str) -> String {
    assert!(B.contains(from), "{from}");
    B.replacen(from, to, 1)
}

fn refused(text: &str, path: &str, words: &str) {
    let findings = ApplicationDeployment::read(text.as_bytes()).unwrap_err();
    let found = findings
        .0
        .iter()
        .any(|finding| finding.severity == Severity::Error && finding.path == path && finding.message.contains(words));
    assert!(found, "{findings}");
}

#[test]
fn every_field_of_generation_b_is_read_and_written_back() {
    let read = ApplicationDeployment::read(B.as_bytes()).unwrap();
    assert_eq!(read.warnings, []);
    let deployment = read.document;
    assert_eq!(deployment.metadata.device_id.as_ref().unwrap().as_str(), "hall-gateway/kiln-3");
    assert_eq!(deployment.metadata.labels["batch"], "012", "labels are text as written");
    assert_eq!(deployment.spec.parameters["interval"].value, json!(45));
    assert_eq!(deployment.spec.extensions["x-fleet-extensions"], json!({"window": "night"}));
    assert_eq!(deployment.spec.deployment_profile.extensions["x-ardent-extensions"], json!({"priority": 7}));
    let yaml = deployment.to_yaml();
    let again = ApplicationDeployment::read(yaml.as_bytes()).unwrap();
    assert_eq!((again.document.to_yaml(), again.document), (yaml, deployment));
}

#[test]
fn copies_constraints_unchanged() {
    // CON-03
    let deployment = ApplicationDeployment::read(B.as_bytes()).unwrap().document;
    let raw = &deployment.spec.deployment_profile.device_constraints.unwrap().raw;
    assert_eq!(*raw, json!({"capacityRequirements": {"memory": "256Mi"}}));
}

#[test]
fn the_form_of_generation_a_is_read_and_b_is_written() {
    // W-22, DEP-04
    let read = ApplicationDeployment::read(A.as_bytes()).unwrap();
    let deployment = read.document;
    assert_eq!(deployment.id.to_string(), "0d8c5a0c-1f53-4e1b-8f55-4c4b0b8ae1f2");
    assert_eq!(deployment.spec.application_id.as_str(), "glaze-mixer");
    assert_eq!(deployment.metadata.device_id, None);
    assert_eq!(deployment.spec.deployment_profile.components[0].properties.wait, Some(false));
    assert_eq!(deployment.spec.parameters["port"].value, json!("8080"), "quoted stays text");
    let messages: Vec<_> = read.warnings.iter().map(ToString::to_string).collect();
    assert!(messages.iter().any(|message| message.contains("`other-component` is not a component")), "{messages:#?}");
    let yaml = deployment.to_yaml();
    for gone in ["apiVersion", "kind", "annotations", "\"false\"", "helm.v3"] {
        assert!(!yaml.contains(gone), "{gone} in\n{yaml}");
    }
    assert!(yaml.starts_with("id: "), "DEP-04: always an id");
}

#[test]
fn ids_and_targets_follow_their_patterns() {
    refused(&changed("5f0c2f4e-6f7b-4d35-9d5c-0a7a3f3f9a11", "5f0c2f4e6f7b4d359d5c0a7a3f3f9a11"), "id", "UUID");
    refused(&changed("hall-gateway/kiln-3", "hall gateway"), "metadata.deviceId", "target device");
    refused(&changed("hall-gateway/kiln-3", "hall-gateway/*/x"), "metadata.deviceId", "target device");
    refused(&changed("  deviceId: hall-gateway/kiln-3\n", ""), "metadata.deviceId", "is missing");
    refused(&changed("applicationId: kiln-watch", "applicationId: Kiln"), "spec.applicationId", "lower-case");
    // GW-04
    let autonomous = changed("hall-gateway/kiln-3", "hall-gateway/*");
    let target = ApplicationDeployment::read(autonomous.as_bytes()).unwrap().document.metadata.device_id.unwrap();
    assert_eq!((target.is_autonomous(), target.gateway().unwrap().as_str()), (true, "hall-gateway"));
}

#[test]
fn a_foreign_kind_or_version_is_refused() {
    refused(&format!("kind: Deployment\n{B}"), "kind", "ApplicationDeployment");
    refused(&format!("apiVersion: apps/v1\n{B}"), "apiVersion", "apps/v1");
}

#[test]
fn parameters_need_value_and_targets() {
    refused(&changed("      value: 45\n", ""), "spec.parameters.interval.value", "is missing");
    refused(
        &changed("      targets:\n        - pointer: INTERVAL_SECONDS\n          components: [kiln-watch]\n", ""),
        "spec.parameters.interval.targets",
        "is missing",
    );
    let without = B.split("  parameters:").next().unwrap();
    assert!(ApplicationDeployment::read(without.as_bytes()).unwrap().document.spec.parameters.is_empty());
}

#[test]
fn unknown_members_are_ignored_with_a_warning() {
    // DEP-02, DEP-03
    let text = changed(
        "  applicationId: kiln-watch",
        "  applicationId: kiln-watch\n  replicas: 3\n  x-new-extensions: {a: 1}",
    );
    let read = ApplicationDeployment::read(text.as_bytes()).unwrap();
    assert_eq!(read.warnings.len(), 1);
    assert_eq!(read.warnings[0].path, "spec.replicas");
    assert!(read.document.spec.extensions.contains_key("x-new-extensions"));
}

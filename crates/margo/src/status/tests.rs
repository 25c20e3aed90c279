use super::*;
use crate::finding::Severity;

const STATUS: &str = include_str!("../../tests/fixtures/status.json");

fn changed(from: &str, to: &str) -> String {
    assert!(STATUS.contains(from), "{from}");
    STATUS.replacen(from, to, 1)
}

fn refused(text: &str, path: &str, words: &str) {
    let findings = DeploymentStatus::read(text.as_bytes()).unwrap_err();
    let found = findings
        .0
        .iter()
        .any(|finding| finding.severity == Severity::Error && finding.path == path && finding.message.contains(words));
    assert!(found, "{findings}");
}

#[test]
fn accepts_reports_of_clients_in_the_field() {
    // W-12, W-14
    let status = DeploymentStatus::read(STATUS.as_bytes()).unwrap().document;
    assert_eq!(status.adopted_manifest_version, 4);
    assert_eq!(status.device_id.as_ref().unwrap().as_str(), "hall-gateway/kiln-3");
    assert_eq!(status.error.as_ref().unwrap().source, "", "a missing source is empty");
    assert_eq!(status.components[0].error.as_ref().unwrap().code, "7");
    assert_eq!(status.components[1].error, None, "an error that says nothing is none");
    let again = DeploymentStatus::read(&status.to_json()).unwrap();
    assert_eq!((again.document, again.warnings), (status, vec![]));
}

#[test]
fn the_adopted_version_is_exact_and_never_wrapped() {
    // ST-04, W-12
    for (sent, version) in [("0", 0), ("18446744073709551615", u64::MAX), ("\"18446744073709551615\"", u64::MAX)] {
        let read = DeploymentStatus::read(changed("\"4\"", sent).as_bytes()).unwrap();
        assert_eq!(read.document.adopted_manifest_version, version);
    }
    for wrong in ["-1", "1.5", "1e3", "\"\"", "\"+4\"", "\" 4\"", "\"18446744073709551616\"", "18446744073709551616"] {
        refused(&changed("\"4\"", wrong), "adoptedManifestVersion", "whole number");
    }
}

#[test]
fn requires_the_adopted_version_except_in_generation_a() {
    let without = changed("  \"adoptedManifestVersion\": \"4\",\n", "");
    refused(&without, "adoptedManifestVersion", "is missing");
    let older = without.replacen(
        '{',
        "{\"apiVersion\": \"deployment.margo.org/v1alpha1\", \"kind\": \"DeploymentStatusManifest\",",
        1,
    );
    assert_eq!(DeploymentStatus::read(older.as_bytes()).unwrap().document.adopted_manifest_version, 0);
    refused(&STATUS.replacen('{', "{\"kind\": \"Pod\",", 1), "kind", "DeploymentStatusManifest");
}

#[test]
fn only_the_six_states_exist() {
    // ST-01
    for state in State::ALL {
        assert_eq!(State::parse(state.as_str()), Some(state));
    }
    refused(&changed("\"failed\"", "\"Failed\""), "status.state", "installing");
    refused(&changed("\"installed\"", "\"done\""), "components[1].state", "installing");
    refused(&changed("\"components\"", "\"parts\""), "components", "is missing");
}

#[test]
fn the_most_severe_component_state_is_the_overall_one() {
    // ST-03
    use State::{Failed, Installed, Installing, Pending, Removed, Removing};
    let order = [Failed, Removing, Installing, Pending, Removed, Installed];
    for (index, state) in order.into_iter().enumerate() {
        assert_eq!(State::overall(order[index..].iter().copied()), Some(state));
        assert_eq!(State::overall(order[index..].iter().rev().copied()), Some(state));
    }
    assert_eq!(State::overall([]), None);
    let read = DeploymentStatus::read(changed("\"failed\"", "\"installed\"").as_bytes()).unwrap();
    assert!(read.warnings.iter().any(|finding| finding.message.contains("together are failed")));
}

#[test]
fn ids_are_checked() {
    refused(&changed("5f0c2f4e-6f7b-4d35-9d5c-0a7a3f3f9a11", "5f"), "deploymentId", "UUID");
    refused(&changed("hall-gateway/kiln-3", "hall-gateway/*"), "deviceId", "device id");
}

#[test]
fn errors_are_written_only_where_there_are_some() {
    let mut status = DeploymentStatus::read(STATUS.as_bytes()).unwrap().document;
    status.error = None;
    status.components.truncate(0);
    status.device_id = None;
    let text = String::from_utf8(status.to_json()).unwrap();
    assert_eq!(
        text,
        "{\"deploymentId\":\"5f0c2f4e-6f7b-4d35-9d5c-0a7a3f3f9a11\",\"adoptedManifestVersion\":4,\
         \"status\":{\"state\":\"failed\"},\"components\":[]}"
    );
}

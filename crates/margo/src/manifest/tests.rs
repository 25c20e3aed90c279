use super::*;
use crate::finding::Severity;

const MANIFEST: &str = include_str!("../../tests/fixtures/manifest.json");

fn changed(from: &str, to: &str) -> String {
    assert!(MANIFEST.contains(from), "{from}");
    MANIFEST.replacen(from, to, 1)
}

fn refused(text: &str, path: &str, words: &str) {
    let findings = StateManifest::read(text.as_bytes()).unwrap_err();
    let found = findings
        .0
        .iter()
        .any(|finding| finding.severity == Severity::Error && finding.path == path && finding.message.contains(words));
    assert!(found, "{findings}");
}

#[test]
fn unknown_members_are_ignored_and_the_largest_version_is_exact() {
    // W-08, §18 no. 11
    let read = StateManifest::read(format!("{MANIFEST}\n").as_bytes()).unwrap();
    assert_eq!(read.warnings, []);
    assert_eq!(read.document.manifest_version, u64::MAX);
    assert_eq!(read.document.deployments.len(), 1);
}

#[test]
fn the_version_is_a_whole_number_from_one_to_two_to_the_sixty_fourth() {
    // DS-01
    for wrong in ["0", "-1", "1.0", "1e3", "\"7\"", "null", "18446744073709551616", "1e400", "true", "[1]"] {
        refused(&changed("18446744073709551615", wrong), "manifestVersion", "");
    }
    for right in [1, (1 << 53) + 1, u64::MAX - 1] {
        let read = StateManifest::read(changed("18446744073709551615", &right.to_string()).as_bytes()).unwrap();
        assert_eq!(read.document.manifest_version, right);
    }
}

#[test]
fn an_unknown_digest_algorithm_makes_the_whole_manifest_invalid() {
    // DS-08
    let digest = "sha256:2222222222222222222222222222222222222222222222222222222222222222";
    refused(&changed(digest, &format!("sha512:{}", "2".repeat(128))), "deployments[0].digest", "sha512");
    refused(&changed(digest, &format!("sha256:{}", "A".repeat(64))), "deployments[0].digest", "lower-case");
    refused(&changed(digest, &digest[..70]), "deployments[0].digest", "64");
    refused(&changed("\"sha256:1111", "\" sha256:1111"), "bundle.digest", "sha256");
}

#[test]
fn the_bundle_is_present_and_null_without_deployments() {
    // DS-02
    refused(&changed("\"bundle\":", "\"bunch\":"), "bundle", "is missing");
    let empty = StateManifest { manifest_version: 1, bundle: None, deployments: Vec::new() };
    let json = empty.to_json();
    assert_eq!(json, br#"{"bundle":null,"deployments":[],"manifestVersion":1}"#);
    assert_eq!(StateManifest::read(&json).unwrap().document, empty);
}

#[test]
fn the_bundle_has_the_one_media_type() {
    // DS-03
    refused(&changed("bundle.v1+tar+gzip", "bundle.v2+tar+gzip"), "bundle.mediaType", "bundle.v1+tar+gzip");
}

#[test]
fn deployments_are_named_once() {
    let entry = MANIFEST.split("\"deployments\": [").nth(1).unwrap().split(']').next().unwrap();
    refused(&changed(entry, &format!("{entry},{entry}")), "deployments[1]", "earlier entry");
    refused(&changed("5f0c2f4e-6f7b-4d35-9d5c-0a7a3f3f9a11", "first"), "deployments[0].deploymentId", "UUID");
}

#[test]
fn sizes_are_advisory() {
    // DS-06
    let read = StateManifest::read(changed("512", "\"big\"").as_bytes()).unwrap();
    assert_eq!(read.document.bundle.unwrap().size_bytes, None);
    assert_eq!(read.warnings.len(), 1);
}

#[test]
fn addresses_have_the_form_of_the_standard() {
    // DS-05
    let digest = Digest::of(b"x");
    let id: DeploymentId = "5f0c2f4e-6f7b-4d35-9d5c-0a7a3f3f9a11".parse().unwrap();
    assert_eq!(bundle_url(&digest), format!("/api/v1/bundles/{digest}"));
    assert_eq!(deployment_url(id, &digest), format!("/api/v1/deployments/{id}/{digest}"));
    // W-03: a prefix before the path is up to the other side, another digest in it is suspicious.
    let prefixed = StateManifest::read(changed("\"/api/v1/bundles", "\"/margo/api/v1/bundles").as_bytes()).unwrap();
    assert_eq!(prefixed.warnings, []);
    let other = StateManifest::read(changed("/bundles/sha256:1", "/bundles/sha256:3").as_bytes()).unwrap();
    assert_eq!(other.warnings[0].path, "bundle.url");
}

#[test]
fn the_same_manifest_always_gives_the_same_sorted_bytes() {
    // DS-14
    let manifest = StateManifest::read(MANIFEST.as_bytes()).unwrap().document;
    let json = manifest.to_json();
    assert_eq!(json, StateManifest::read(&json).unwrap().document.to_json());
    assert!(json.starts_with(br#"{"bundle":{"digest":"sha256:1"#));
    assert!(json.ends_with(br#","manifestVersion":18446744073709551615}"#));
    assert_eq!(Digest::of(&json).etag(), format!("\"{}\"", Digest::of(&json)));
}

#[test]
fn a_manifest_is_newer_unchanged_or_a_violation() {
    // DS-23
    let (one, other) = (Digest::of(b"1"), Digest::of(b"2"));
    let floor = RollbackFloor { version: 5, body_digest: one.clone() };
    assert_eq!(compare(None, 1, &one), Verdict::Newer);
    assert_eq!(compare(Some(&floor), 6, &one), Verdict::Newer);
    assert_eq!(compare(Some(&floor), 5, &one), Verdict::Unchanged);
    assert_eq!(compare(Some(&floor), 5, &other), Verdict::Violation { floor: 5, offered: 5 });
    assert_eq!(compare(Some(&floor), 4, &one), Verdict::Violation { floor: 5, offered: 4 });
    let last = RollbackFloor { version: u64::MAX, body_digest: one.clone() };
    assert_eq!(compare(Some(&last), 1, &other), Verdict::Violation { floor: u64::MAX, offered: 1 });
}

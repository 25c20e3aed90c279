use super::{Publication, PublishError, ServedDeployment, next};
use margo::digest::Digest;
use margo::ids::DeploymentId;
use margo::manifest::{BUNDLE_MEDIA_TYPE, MANIFEST_VERSION_ISSUED_MAX, StateManifest};
use proptest::prelude::*;

fn served(number: u128, yaml: &str) -> ServedDeployment {
    ServedDeployment {
        id: DeploymentId(uuid::Uuid::from_u128(number)),
        digest: Digest::of(yaml.as_bytes()),
        yaml: yaml.as_bytes().to_vec(),
    }
}

fn manifest(publication: &Publication) -> StateManifest {
    StateManifest::read(&publication.body).unwrap().document
}

// DS-01, DS-02
#[test]
fn publishes_version_one_without_a_bundle_for_a_new_client() {
    let first = next(0, &[]).unwrap();
    assert_eq!(first.version, 1);
    assert_eq!(first.bundle, None);
    assert_eq!(String::from_utf8(first.body).unwrap(), r#"{"bundle":null,"deployments":[],"manifestVersion":1}"#);
}

// DS-01
#[test]
fn stops_before_versions_that_json_readers_cannot_represent() {
    assert_eq!(next(41, &[]).unwrap().version, 42);
    assert_eq!(next(MANIFEST_VERSION_ISSUED_MAX - 1, &[]).unwrap().version, MANIFEST_VERSION_ISSUED_MAX);
    assert_eq!(next(MANIFEST_VERSION_ISSUED_MAX, &[]), Err(PublishError::VersionsExhausted));
    assert_eq!(next(u64::MAX, &[]), Err(PublishError::VersionsExhausted));
}

// DS-03, DS-05
#[test]
fn refers_to_the_bundle_and_every_deployment_by_digest() {
    let deployments = [served(2, "id: two\n"), served(1, "id: one\n")];
    let publication = next(6, &deployments).unwrap();
    let manifest = manifest(&publication);
    assert_eq!(manifest.manifest_version, 7);
    let (digest, bytes) = publication.bundle.unwrap();
    assert_eq!(digest, Digest::of(&bytes));
    let bundle = manifest.bundle.unwrap();
    assert_eq!(bundle.media_type, BUNDLE_MEDIA_TYPE);
    assert_eq!(bundle.url, format!("/api/v1/bundles/{digest}"));
    assert_eq!(bundle.size_bytes, Some(bytes.len() as u64));
    let urls: Vec<_> = manifest.deployments.iter().map(|deployment| deployment.url.clone()).collect();
    assert_eq!(
        urls,
        [&deployments[1], &deployments[0]].map(|one| format!("/api/v1/deployments/{}/{}", one.id, one.digest))
    );
    let unpacked = margo::bundle::unpack(&bytes, &bundle, &manifest.deployments).unwrap();
    assert_eq!(unpacked[&deployments[0].id], deployments[0].yaml);
}

// DS-14
#[test]
fn digests_the_exact_body() {
    let publication = next(1, &[served(1, "a")]).unwrap();
    assert_eq!(publication.digest, Digest::of(&publication.body));
}

proptest! {
    // DS-14
    #[test]
    fn writes_the_same_bytes_in_any_order(mut numbers in proptest::collection::hash_set(any::<u128>(), 0..8), version in 0u64..1000) {
        let deployments: Vec<_> = numbers.drain().map(|number| served(number, &format!("id: {number}\n"))).collect();
        let reversed: Vec<_> = deployments.iter().rev().cloned().collect();
        prop_assert_eq!(next(version, &deployments), next(version, &reversed));
    }
}

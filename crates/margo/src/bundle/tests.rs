use super::*;
use crate::manifest::{BUNDLE_MEDIA_TYPE, bundle_url, deployment_url};
use proptest::prelude::*;

fn id(number: u128) -> DeploymentId {
    DeploymentId(uuid::Uuid::from_u128(number))
}

fn references(deployments: &[(DeploymentId, &[u8])]) -> Vec<DeploymentRef> {
    deployments
        .iter()
        .map(|(id, yaml)| {
            let digest = Digest::of(yaml);
            DeploymentRef { deployment_id: *id, url: deployment_url(*id, &digest), digest, size_bytes: None }
        })
        .collect()
}

fn reference(bytes: &[u8]) -> BundleRef {
    let digest = Digest::of(bytes);
    BundleRef { media_type: BUNDLE_MEDIA_TYPE.to_owned(), url: bundle_url(&digest), digest, size_bytes: None }
}

#[test]
fn the_archive_has_one_file_per_deployment_named_by_id() {
    // DS-03, W-20
    let bytes = pack(&[(id(2), b"two"), (id(1), b"one")]);
    let names: Vec<_> = archive::unpack(&bytes, BUNDLE_LIMITS).unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(names, [format!("{}.yaml", id(1)), format!("{}.yaml", id(2))]);
}

#[test]
fn files_are_matched_by_digest_not_by_name() {
    // DS-03
    let bytes = archive::pack(&[("first.yml".to_owned(), b"one")]);
    let found = unpack(&bytes, &reference(&bytes), &references(&[(id(1), b"one")])).unwrap();
    assert_eq!(found[&id(1)], b"one");
}

#[test]
fn a_wrong_digest_a_missing_file_and_an_extra_one_are_refused() {
    // DS-10
    let bytes = pack(&[(id(1), b"one"), (id(2), b"two")]);
    let expected = references(&[(id(1), b"one"), (id(2), b"two")]);
    let mut other = bytes.clone();
    other.push(0);
    assert!(matches!(unpack(&other, &reference(&bytes), &expected), Err(BundleError::Digest { .. })));
    let more = references(&[(id(1), b"one"), (id(2), b"two"), (id(3), b"three")]);
    assert_eq!(unpack(&bytes, &reference(&bytes), &more), Err(BundleError::Missing(id(3))));
    let fewer = references(&[(id(1), b"one")]);
    assert_eq!(unpack(&bytes, &reference(&bytes), &fewer), Err(BundleError::Extra(format!("{}.yaml", id(2)))));
    let changed = references(&[(id(1), b"one"), (id(2), b"TWO")]);
    assert!(unpack(&bytes, &reference(&bytes), &changed).is_err());
    let truncated = &bytes[..bytes.len() - 4];
    assert!(matches!(unpack(truncated, &reference(truncated), &expected), Err(BundleError::Archive(_))));
}

#[test]
fn rejects_a_duplicate_file() {
    let bytes = archive::pack(&[("a".to_owned(), b"one"), ("b".to_owned(), b"one")]);
    let refused = unpack(&bytes, &reference(&bytes), &references(&[(id(1), b"one")]));
    assert_eq!(refused, Err(BundleError::Extra("b".to_owned())));
}

proptest! {
    #[test]
    fn a_packed_bundle_unpacks_in_any_order(
        yamls in prop::collection::btree_map(any::<u128>(), "[ -~\n]{0,200}", 0..8)
    ) {
        let yamls: Vec<_> = yamls.iter().map(|(number, text)| (id(*number), format!("{number}\n{text}"))).collect();
        let deployments: Vec<_> = yamls.iter().map(|(id, text)| (*id, text.as_bytes())).collect();
        let bytes = pack(&deployments);
        let reversed: Vec<_> = deployments.iter().rev().copied().collect();
        prop_assert_eq!(&pack(&reversed), &bytes);
        let found = unpack(&bytes, &reference(&bytes), &references(&reversed)).unwrap();
        for (id, text) in deployments {
            prop_assert_eq!(found[&id].as_slice(), text);
        }
    }
}

//! Misbehaving servers, and an agent that keeps its state.

use crate::fake::{Fake, reply};
use crate::support::{World, eventually, set, version};
use margo::Digest;
use margo::manifest::{BUNDLE_MEDIA_TYPE, BundleRef, DeploymentRef, StateManifest, bundle_url, deployment_url};
use margo::status::State;
use margrave_core::publish::ServedDeployment;

/// Runs manifest 5, lets `lie` replace it, waits for the code, then publishes a valid version 9.
async fn survives(code: &str, security: bool, lie: impl FnOnce(&Fake, &[ServedDeployment])) {
    let world = World::new().await;
    let mut agent = world.agent();
    let (old, new) = (set(4, "1.0.0"), set(4, "2.0.0"));
    world.fake.publish(&version(4, &old), &old);
    agent.runs(&old).await;
    eventually("version 5 is accepted", || agent.accepted() == Some(5)).await;
    lie(&world.fake, &new);
    let report = agent.in_trouble(code).await;
    let trouble = report.troubles.iter().find(|trouble| trouble.code.number() == code).unwrap();
    assert_eq!(trouble.security, security);
    assert_eq!(agent.accepted(), Some(5), "a manifest is accepted whole or not at all");
    agent.runs(&old).await;
    world.fake.state().twist = None;
    world.fake.publish(&version(8, &new), &new);
    agent.runs(&new).await;
    let id = new[0].id;
    eventually("the new revision is reported", || {
        let last = world.fake.reported(id).pop();
        last.is_some_and(|last| last.state == State::Installed && last.adopted_manifest_version == 9)
    })
    .await;
    agent.stop().await;
}

/// A manifest of these deployments with a custom bundle.
fn with_bundle(fake: &Fake, deployments: &[ServedDeployment], bytes: Vec<u8>) {
    let digest = Digest::of(&bytes);
    let bundle =
        BundleRef { media_type: BUNDLE_MEDIA_TYPE.to_owned(), size_bytes: None, url: bundle_url(&digest), digest };
    let deployment = |served: &ServedDeployment| DeploymentRef {
        deployment_id: served.id,
        digest: served.digest.clone(),
        size_bytes: None,
        url: deployment_url(served.id, &served.digest),
    };
    let deployments = deployments.iter().map(deployment).collect();
    let manifest = StateManifest { manifest_version: 6, bundle: Some(bundle.clone()), deployments };
    let mut state = fake.state();
    state.manifest = manifest.to_json();
    state.artifacts.insert(bundle.url, bytes);
}

fn packed(deployments: &[ServedDeployment]) -> Vec<u8> {
    let files: Vec<_> = deployments.iter().map(|served| (served.id, served.yaml.as_slice())).collect();
    margo::bundle::pack(&files)
}

#[tokio::test]
async fn rejects_a_manifest_with_an_older_version() {
    // DS-23
    survives("601", true, |fake, new| fake.publish(&version(2, new), new)).await;
}

#[tokio::test]
async fn rejects_the_same_version_with_other_content() {
    // DS-23
    survives("602", true, |fake, new| fake.publish(&version(4, new), new)).await;
}

#[tokio::test]
async fn rejects_an_unknown_digest_algorithm() {
    // DS-08
    survives("604", true, |fake, new| {
        fake.publish(&version(5, new), new);
        let text = String::from_utf8(fake.state().manifest.clone()).unwrap().replacen("sha256:", "sha512:", 1);
        fake.state().manifest = text.into_bytes();
    })
    .await;
}

#[tokio::test]
async fn rejects_a_bundle_with_a_wrong_digest() {
    // DS-10
    survives("605", true, |fake, new| {
        let publication = version(5, new);
        fake.publish(&publication, new);
        let url = bundle_url(&publication.bundle.unwrap().0);
        fake.state().artifacts.insert(url, packed(&set(4, "6.6.6")));
    })
    .await;
}

#[tokio::test]
async fn rejects_a_truncated_bundle() {
    // DS-10
    survives("605", true, |fake, new| {
        let publication = version(5, new);
        fake.publish(&publication, new);
        let (digest, bytes) = publication.bundle.unwrap();
        fake.state().artifacts.insert(bundle_url(&digest), bytes[..bytes.len() / 2].to_vec());
    })
    .await;
}

#[tokio::test]
async fn rejects_a_bundle_truncated_before_its_digest() {
    survives("606", true, |fake, new| {
        let bytes = packed(new);
        with_bundle(fake, new, bytes[..bytes.len() / 2].to_vec());
    })
    .await;
}

#[tokio::test]
async fn rejects_a_bundle_with_an_extra_file() {
    // DS-03
    survives("607", true, |fake, new| {
        let mut more = new.to_vec();
        more.extend(set(5, "6.6.6").pop());
        with_bundle(fake, new, packed(&more));
    })
    .await;
}

#[tokio::test]
async fn rejects_a_bundle_with_a_missing_file() {
    // DS-03
    survives("608", true, |fake, new| with_bundle(fake, new, packed(&new[1..]))).await;
}

#[tokio::test]
async fn a_missing_artifact_removes_nothing() {
    // DS-18
    survives("609", false, |fake, new| {
        fake.publish(&version(5, new), new);
        fake.state().artifacts.clear();
    })
    .await;
}

#[tokio::test]
async fn rejects_a_proxy_page_as_manifest() {
    survives("603", false, |fake, _| {
        fake.twist(|seen| seen.path.ends_with("/deployments").then(|| reply(200, "<html>please log in</html>")));
    })
    .await;
}

#[tokio::test]
async fn limits_an_endless_response() {
    // invariant 12
    survives("708", false, |fake, _| {
        fake.twist(|seen| seen.path.ends_with("/deployments").then(|| reply(200, vec![b' '; 17 << 20])));
    })
    .await;
}

//! Manifests: stored byte for byte, under digest and tags.

use crate::support::{Fixture, INDEX, MANIFEST, assert_error, descriptor, header, image};
use margrave_server::registry::{Algorithm, Digest, MANIFEST_BYTES_MAX};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn serves_a_manifest_as_it_was_pushed() {
    let fixture = Fixture::new().await;
    fixture.push_blob("a", b"{}").await;
    fixture.push_blob("a", b"layer").await;
    // Unusual spacing must survive: the digest is over these bytes.
    let bytes = image(b"{}", b"layer").to_string().replace(':', " : ") + "\n\n";
    let bytes = bytes.replace("sha256 : ", "sha256:");
    let put = fixture.request(Method::PUT, "/v2/a/manifests/1.0").header("content-type", MANIFEST).body(bytes.clone());
    let put = put.send().await.unwrap();
    assert_eq!(put.status(), 201, "{}", put.text().await.unwrap());
    let digest = Digest::sha256(bytes.as_bytes());
    assert_eq!(header(&put, "location"), "/v2/a/manifests/1.0");
    assert_eq!(header(&put, "docker-content-digest"), digest.to_string());
    for reference in ["1.0".to_owned(), digest.to_string()] {
        let path = format!("/v2/a/manifests/{reference}");
        let head = fixture.head(&path).await;
        assert_eq!(header(&head, "content-length"), bytes.len().to_string());
        let got = fixture.get(&path).await;
        assert_eq!(header(&got, "content-type"), MANIFEST);
        assert_eq!(header(&got, "docker-content-digest"), digest.to_string());
        assert_eq!(got.text().await.unwrap(), bytes);
        let known = fixture.request(Method::GET, &path).header("if-none-match", format!("\"{digest}\"")).send().await;
        assert_eq!(known.unwrap().status(), 304);
    }
}

#[tokio::test]
async fn accepts_a_manifest_only_under_its_own_digest() {
    let fixture = Fixture::new().await;
    let (manifest, _) = fixture.push_image("a", "1.0", b"layer").await;
    let wrong = Digest::sha256(b"wrong").to_string();
    assert_error(fixture.put_manifest("a", &wrong, &manifest).await, 400, "DIGEST_INVALID").await;
    let long = Digest::of(Algorithm::Sha512, manifest.to_string().as_bytes()).to_string();
    let put = fixture.put_manifest("a", &long, &manifest).await;
    assert_eq!((put.status().as_u16(), header(&put, "docker-content-digest")), (201, long.clone()));
    assert_eq!(fixture.get(&format!("/v2/a/manifests/{long}")).await.text().await.unwrap(), manifest.to_string());
}

#[tokio::test]
async fn rejects_a_manifest_with_missing_or_mismatched_parts() {
    let fixture = Fixture::new().await;
    fixture.push_blob("a", b"{}").await;
    fixture.push_blob("elsewhere", b"layer").await;
    let message =
        assert_error(fixture.put_manifest("a", "1.0", &image(b"{}", b"layer")).await, 400, "MANIFEST_BLOB_UNKNOWN")
            .await;
    assert!(message.contains(&Digest::sha256(b"layer").to_string()), "{message}");
    fixture.push_blob("a", b"layer").await;
    let mut wrong = image(b"{}", b"layer");
    wrong["layers"][0]["size"] = json!(6);
    assert_error(fixture.put_manifest("a", "1.0", &wrong).await, 400, "MANIFEST_INVALID").await;
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(MANIFEST, b"none")] });
    assert_error(fixture.put_manifest("a", "1.0", &index).await, 400, "MANIFEST_BLOB_UNKNOWN").await;
    assert_error(fixture.get("/v2/a/manifests/1.0").await, 404, "MANIFEST_UNKNOWN").await;
    assert_eq!(fixture.put_manifest("a", "1.0", &image(b"{}", b"layer")).await.status(), 201);
}

#[tokio::test]
async fn rejects_invalid_manifests() {
    let fixture = Fixture::new().await;
    fixture.push_image("a", "1.0", b"layer").await;
    let put = |content_type: &'static str, body: String| {
        fixture.request(Method::PUT, "/v2/a/manifests/2.0").header("content-type", content_type).body(body).send()
    };
    assert_error(put(MANIFEST, "not json".to_owned()).await.unwrap(), 400, "MANIFEST_INVALID").await;
    assert_error(put(INDEX, image(b"{}", b"layer").to_string()).await.unwrap(), 400, "MANIFEST_INVALID").await;
    assert_error(put("text/plain", "{\"schemaVersion\":2}".to_owned()).await.unwrap(), 400, "MANIFEST_INVALID").await;
    let padding = " ".repeat(MANIFEST_BYTES_MAX);
    let large = image(b"{}", b"layer").to_string() + &padding;
    assert_error(put(MANIFEST, large).await.unwrap(), 413, "SIZE_INVALID").await;
    let fits = image(b"{}", b"layer").to_string();
    let fits = format!("{fits}{}", " ".repeat(MANIFEST_BYTES_MAX - fits.len()));
    assert_eq!(put(MANIFEST, fits).await.unwrap().status(), 201, "the limit itself is allowed");
}

#[tokio::test]
async fn moving_a_tag_keeps_the_old_manifest() {
    let fixture = Fixture::new().await;
    let (old, old_digest) = fixture.push_image("a", "latest", b"old").await;
    let (new, _) = fixture.push_image("a", "latest", b"new").await;
    assert_eq!(fixture.get("/v2/a/manifests/latest").await.text().await.unwrap(), new.to_string());
    assert_eq!(fixture.get(&format!("/v2/a/manifests/{old_digest}")).await.text().await.unwrap(), old.to_string());
}

#[tokio::test]
async fn deleting_a_tag_leaves_the_manifest() {
    let fixture = Fixture::new().await;
    let (_, digest) = fixture.push_image("a", "1.0", b"layer").await;
    assert_eq!(fixture.delete("/v2/a/manifests/1.0").await.status(), 202);
    assert_error(fixture.get("/v2/a/manifests/1.0").await, 404, "MANIFEST_UNKNOWN").await;
    assert_error(fixture.delete("/v2/a/manifests/1.0").await, 404, "MANIFEST_UNKNOWN").await;
    assert_eq!(fixture.get(&format!("/v2/a/manifests/{digest}")).await.status(), 200);
}

#[tokio::test]
async fn deleting_a_manifest_deletes_its_tags() {
    let fixture = Fixture::new().await;
    let (_, digest) = fixture.push_image("a", "1.0", b"layer").await;
    fixture.push_image("a", "also", b"layer").await;
    fixture.push_image("a", "other", b"other").await;
    assert_eq!(fixture.delete(&format!("/v2/a/manifests/{digest}")).await.status(), 202);
    let tags: serde_json::Value = fixture.get("/v2/a/tags/list").await.json().await.unwrap();
    assert_eq!(tags, json!({ "name": "a", "tags": ["other"] }));
    assert_error(fixture.get(&format!("/v2/a/manifests/{digest}")).await, 404, "MANIFEST_UNKNOWN").await;
    assert_error(fixture.delete(&format!("/v2/a/manifests/{digest}")).await, 404, "MANIFEST_UNKNOWN").await;
    assert_error(fixture.get("/v2/nowhere/manifests/1.0").await, 404, "MANIFEST_UNKNOWN").await;
}

#[tokio::test]
async fn accepts_manifests_with_foreign_layers() {
    let fixture = Fixture::new().await;
    fixture.push_blob("a", b"{}").await;
    let mut manifest = image(b"{}", b"elsewhere");
    manifest["layers"][0]["mediaType"] = json!("application/vnd.oci.image.layer.nondistributable.v1.tar");
    assert_eq!(fixture.put_manifest("a", "1.0", &manifest).await.status(), 201);
}

#[tokio::test]
async fn the_server_adds_packages_and_artifacts() {
    let fixture = Fixture::new().await;
    let repository = "components/press".parse().unwrap();
    let layer = fixture.registry.put_blob(&repository, "archive".into()).await.unwrap();
    let layer = margrave_server::registry::Descriptor {
        media_type: "application/vnd.org.margo.component.compose.tar+gzip".to_owned(),
        digest: layer,
        size: 7,
        annotations: [("org.opencontainers.image.title".to_owned(), "press.tgz".to_owned())].into(),
    };
    let artifact_type = "application/vnd.org.margo.component.compose+json";
    let tag = "1.0.0".parse().unwrap();
    let put = fixture.registry.put_artifact(&repository, &tag, artifact_type, None, &[layer]).await.unwrap();
    let got: serde_json::Value = fixture.get("/v2/components/press/manifests/1.0.0").await.json().await.unwrap();
    assert_eq!(got["artifactType"], artifact_type);
    assert_eq!(got["layers"][0]["annotations"]["org.opencontainers.image.title"], "press.tgz");
    assert_eq!(fixture.head(&format!("/v2/components/press/manifests/{}", put.digest)).await.status(), 200);
    let config = got["config"]["digest"].as_str().unwrap();
    assert_eq!(fixture.get(&format!("/v2/components/press/blobs/{config}")).await.text().await.unwrap(), "{}");
}

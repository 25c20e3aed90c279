//! Limits on the content of the registry.

use crate::support::{Fixture, assert_error, image};
use bytes::Bytes;
use futures_util::stream;
use margrave_server::registry::Digest;
use reqwest::{Body, Method};

async fn push(fixture: &Fixture, repository: &str, content: Vec<u8>) -> reqwest::Response {
    let path = format!("/v2/{repository}/blobs/uploads/?digest={}", Digest::sha256(&content));
    fixture.request(Method::POST, &path).body(content).send().await.unwrap()
}

#[tokio::test]
async fn enforces_the_registry_quota() {
    let fixture = Fixture::with(|options| options.bytes_max = Some(1_000)).await;
    assert_eq!(push(&fixture, "a", vec![1; 600]).await.status(), 201);
    let message = assert_error(push(&fixture, "b", vec![2; 600]).await, 403, "DENIED").await;
    assert!(message.contains("the registry") && message.contains("1000") && message.contains("1200"), "{message}");
    assert_eq!(push(&fixture, "b", vec![1; 600]).await.status(), 403, "uploads in progress count");
    assert_eq!(push(&fixture, "b", vec![3; 400]).await.status(), 201);
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 1_000);
}

#[tokio::test]
async fn aborts_a_stream_when_the_quota_is_reached() {
    let fixture = Fixture::with(|options| options.bytes_max = Some(1_000_000)).await;
    let location = fixture.begin("a").await;
    let pieces = std::iter::repeat_n(Bytes::from(vec![7_u8; 50_000]), 30).map(Ok::<_, std::io::Error>);
    let sent = fixture.request(Method::PATCH, &location).body(Body::wrap_stream(stream::iter(pieces))).send();
    assert_error(sent.await.unwrap(), 403, "DENIED").await;
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 0, "nothing of a rejected chunk stays");
    let digest = Digest::sha256(b"small");
    let put = fixture.request(Method::PUT, &format!("{location}?digest={digest}")).body("small").send().await.unwrap();
    assert_eq!(put.status(), 201, "the upload itself is still valid");
}

#[tokio::test]
async fn enforces_the_repository_quota() {
    let fixture = Fixture::with(|options| options.repository_bytes_max = Some(1_000)).await;
    assert_eq!(push(&fixture, "a", vec![1; 900]).await.status(), 201);
    let message = assert_error(push(&fixture, "a", vec![2; 200]).await, 403, "DENIED").await;
    assert!(message.contains("repository `a`"), "{message}");
    assert_eq!(push(&fixture, "b", vec![2; 200]).await.status(), 201);
    let digest = Digest::sha256(&[2; 200]);
    let mount = fixture.request(Method::POST, &format!("/v2/a/blobs/uploads/?mount={digest}&from=b")).send().await;
    assert_error(mount.unwrap(), 403, "DENIED").await;
    let config = vec![3; 10];
    assert_eq!(push(&fixture, "a", config.clone()).await.status(), 201);
    let manifest = image(&config, &[1; 900]);
    assert_error(fixture.put_manifest("a", "1.0", &manifest).await, 403, "DENIED").await;
}

#[tokio::test]
async fn enforces_the_maximum_blob_size() {
    let fixture = Fixture::with(|options| options.blob_bytes_max = 100).await;
    assert_eq!(push(&fixture, "a", vec![1; 100]).await.status(), 201);
    let message = assert_error(push(&fixture, "a", vec![1; 101]).await, 413, "DENIED").await;
    assert!(message.contains("100 bytes"), "{message}");
    let location = fixture.begin("a").await;
    fixture.request(Method::PATCH, &location).body(vec![1; 60]).send().await.unwrap();
    let more = fixture.request(Method::PATCH, &location).body(vec![1; 60]).send().await.unwrap();
    assert_error(more, 413, "DENIED").await;
}

#[tokio::test]
async fn enforces_the_maximum_number_of_repositories() {
    let fixture = Fixture::with(|options| options.repositories_max = 1).await;
    assert_eq!(push(&fixture, "a", vec![1]).await.status(), 201);
    let message = assert_error(push(&fixture, "b", vec![1]).await, 403, "DENIED").await;
    assert!(message.contains("1 repositories"), "{message}");
    assert_eq!(push(&fixture, "a", vec![2]).await.status(), 201);
}

//! Reading, mounting and deleting blobs.

use crate::support::{Fixture, assert_error, header};
use margrave_server::registry::{Algorithm, Digest};
use reqwest::Method;

#[tokio::test]
async fn serves_a_blob_as_it_was_pushed() {
    let fixture = Fixture::new().await;
    let digest = fixture.push_blob("a/b", b"0123456789").await;
    let path = format!("/v2/a/b/blobs/{digest}");
    let head = fixture.head(&path).await;
    assert_eq!((head.status().as_u16(), header(&head, "content-length").as_str()), (200, "10"));
    let got = fixture.get(&path).await;
    assert_eq!(header(&got, "docker-content-digest"), digest.to_string());
    assert_eq!(header(&got, "accept-ranges"), "bytes");
    assert_eq!(header(&got, "content-length"), "10");
    assert_eq!(got.bytes().await.unwrap(), "0123456789");
    let known = fixture.request(Method::GET, &path).header("if-none-match", format!("\"{digest}\"")).send().await;
    assert_eq!(known.unwrap().status(), 304);
}

#[tokio::test]
async fn serves_the_range_that_is_asked_for() {
    let fixture = Fixture::new().await;
    let digest = fixture.push_blob("a", b"0123456789").await;
    let path = format!("/v2/a/blobs/{digest}");
    for (range, content_range, content) in
        [("bytes=2-4", "bytes 2-4/10", "234"), ("bytes=7-", "bytes 7-9/10", "789"), ("bytes=-2", "bytes 8-9/10", "89")]
    {
        let part = fixture.request(Method::GET, &path).header("range", range).send().await.unwrap();
        assert_eq!(part.status(), 206);
        assert_eq!(header(&part, "content-range"), content_range);
        assert_eq!(part.text().await.unwrap(), content);
    }
    let beyond = fixture.request(Method::GET, &path).header("range", "bytes=10-").send().await.unwrap();
    assert_eq!((beyond.status().as_u16(), header(&beyond, "content-range").as_str()), (416, "bytes */10"));
}

#[tokio::test]
async fn stores_empty_and_sha512_blobs() {
    let fixture = Fixture::new().await;
    let empty = fixture.push_blob("a", b"").await;
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{empty}")).await.bytes().await.unwrap(), "");
    let digest = Digest::of(Algorithm::Sha512, b"content");
    let path = format!("/v2/a/blobs/uploads/?digest={digest}");
    let pushed = fixture.request(Method::POST, &path).body("content").send().await.unwrap();
    assert_eq!(pushed.status(), 201);
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{digest}")).await.text().await.unwrap(), "content");
}

#[tokio::test]
async fn a_blob_belongs_to_the_repositories_it_was_pushed_to() {
    let fixture = Fixture::new().await;
    let digest = fixture.push_blob("one", b"content").await;
    assert_error(fixture.get(&format!("/v2/other/blobs/{digest}")).await, 404, "BLOB_UNKNOWN").await;
    let missing = fixture.head(&format!("/v2/one/blobs/{}", Digest::sha256(b"none"))).await;
    assert_eq!(missing.status(), 404);
}

#[tokio::test]
async fn mounts_a_blob_of_another_repository() {
    let fixture = Fixture::new().await;
    let digest = fixture.push_blob("one", b"content").await;
    let mount = |query: String| fixture.request(Method::POST, &format!("/v2/two/blobs/uploads/?{query}")).send();
    let mounted = mount(format!("mount={digest}&from=one")).await.unwrap();
    assert_eq!(mounted.status(), 201);
    assert_eq!(header(&mounted, "location"), format!("/v2/two/blobs/{digest}"));
    assert_eq!(fixture.get(&format!("/v2/two/blobs/{digest}")).await.text().await.unwrap(), "content");
    // A blob that cannot be mounted is uploaded instead.
    let absent = Digest::sha256(b"absent");
    for query in [format!("mount={absent}&from=one"), format!("mount={digest}&from=three"), format!("mount={absent}")] {
        let started = mount(query).await.unwrap();
        assert_eq!(started.status(), 202);
        assert!(header(&started, "location").starts_with("/v2/two/blobs/uploads/"));
    }
    assert_error(mount("mount=nonsense&from=one".to_owned()).await.unwrap(), 400, "DIGEST_INVALID").await;
}

#[tokio::test]
async fn deletes_a_blob_unless_a_manifest_needs_it() {
    let fixture = Fixture::new().await;
    let (_, manifest) = fixture.push_image("a", "1", b"layer").await;
    let path = format!("/v2/a/blobs/{}", Digest::sha256(b"layer"));
    let message = assert_error(fixture.delete(&path).await, 403, "DENIED").await;
    assert!(message.contains(&manifest.to_string()), "{message}");
    assert_eq!(fixture.delete(&format!("/v2/a/manifests/{manifest}")).await.status(), 202);
    assert_eq!(fixture.delete(&path).await.status(), 202);
    assert_error(fixture.get(&path).await, 404, "BLOB_UNKNOWN").await;
    assert_error(fixture.delete(&path).await, 404, "BLOB_UNKNOWN").await;
}

#[tokio::test]
async fn deleting_a_blob_keeps_it_in_other_repositories() {
    let fixture = Fixture::new().await;
    let digest = fixture.push_blob("one", b"content").await;
    fixture.push_blob("two", b"content").await;
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 7, "stored once");
    assert_eq!(fixture.delete(&format!("/v2/one/blobs/{digest}")).await.status(), 202);
    assert_eq!(fixture.get(&format!("/v2/two/blobs/{digest}")).await.text().await.unwrap(), "content");
    assert_eq!(fixture.delete(&format!("/v2/two/blobs/{digest}")).await.status(), 202);
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 0);
}

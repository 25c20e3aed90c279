//! Uploads in every form of the specification.

use crate::support::{Fixture, assert_error, header};
use bytes::Bytes;
use futures_util::stream;
use margrave_server::registry::Digest;
use reqwest::{Body, Method};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test]
async fn accepts_a_blob_in_one_request_after_starting() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    let digest = Digest::sha256(b"content");
    let put =
        fixture.request(Method::PUT, &format!("{location}?digest={digest}")).body("content").send().await.unwrap();
    assert_eq!(put.status(), 201);
    assert_eq!(header(&put, "location"), format!("/v2/a/blobs/{digest}"));
    assert_eq!(header(&put, "docker-content-digest"), digest.to_string());
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{digest}")).await.text().await.unwrap(), "content");
    assert_error(fixture.get(&location).await, 404, "BLOB_UPLOAD_UNKNOWN").await;
}

#[tokio::test]
async fn accepts_chunks_in_order_only() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    let chunk = |range: &'static str, content: &'static str| {
        fixture.request(Method::PATCH, &location).header("content-range", range).body(content).send()
    };
    let status = fixture.get(&location).await;
    assert_eq!((status.status().as_u16(), header(&status, "range").as_str()), (204, "0-0"));
    let first = chunk("0-3", "0123").await.unwrap();
    assert_eq!((first.status().as_u16(), header(&first, "range").as_str()), (202, "0-3"));
    for wrong in ["0-3", "5-8", "3-6"] {
        let refused = chunk(wrong, "4567").await.unwrap();
        assert_eq!(header(&refused, "range"), "0-3");
        assert_eq!(header(&refused, "location"), location);
        assert_error(refused, 416, "BLOB_UPLOAD_INVALID").await;
    }
    assert_error(chunk("4-9", "4567").await.unwrap(), 400, "SIZE_INVALID").await;
    assert_error(chunk("four", "4567").await.unwrap(), 400, "BLOB_UPLOAD_INVALID").await;
    assert_eq!(chunk("4-7", "4567").await.unwrap().status(), 202);
    let status = fixture.get(&location).await;
    assert_eq!(header(&status, "range"), "0-7");
    let digest = Digest::sha256(b"0123456789");
    let last = fixture.request(Method::PUT, &format!("{location}?digest={digest}")).header("content-range", "8-9");
    assert_eq!(last.body("89").send().await.unwrap().status(), 201);
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{digest}")).await.text().await.unwrap(), "0123456789");
}

#[tokio::test]
async fn accepts_a_stream_of_unknown_length() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    let piece = Bytes::from(vec![7_u8; 100_000]);
    let pieces = std::iter::repeat_n(piece, 50).map(Ok::<_, std::io::Error>);
    let sent = fixture.request(Method::PATCH, &location).body(Body::wrap_stream(stream::iter(pieces))).send();
    assert_eq!(header(&sent.await.unwrap(), "range"), "0-4999999");
    let digest = Digest::sha256(&vec![7; 5_000_000]);
    assert_eq!(
        fixture.request(Method::PUT, &format!("{location}?digest={digest}")).send().await.unwrap().status(),
        201
    );
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{digest}")).await.bytes().await.unwrap().len(), 5_000_000);
}

#[tokio::test]
async fn rejects_content_with_another_digest() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    let digest = Digest::sha256(b"expected");
    assert_error(fixture.request(Method::PUT, &location).send().await.unwrap(), 400, "DIGEST_INVALID").await;
    let bad = fixture.request(Method::PUT, &format!("{location}?digest=sha256:1")).send().await.unwrap();
    assert_error(bad, 400, "DIGEST_INVALID").await;
    let put = fixture.request(Method::PUT, &format!("{location}?digest={digest}")).body("other").send().await.unwrap();
    let message = assert_error(put, 400, "DIGEST_INVALID").await;
    assert!(message.contains(&Digest::sha256(b"other").to_string()), "{message}");
    assert_error(fixture.get(&location).await, 404, "BLOB_UPLOAD_UNKNOWN").await;
    assert_eq!(fixture.head(&format!("/v2/a/blobs/{digest}")).await.status(), 404);
    let whole = fixture.request(Method::POST, &format!("/v2/a/blobs/uploads/?digest={digest}")).body("other").send();
    assert_error(whole.await.unwrap(), 400, "DIGEST_INVALID").await;
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 0, "nothing is stored");
}

#[tokio::test]
async fn cancels_an_upload() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    fixture.request(Method::PATCH, &location).body("some").send().await.unwrap();
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 4);
    assert_eq!(fixture.delete(&location).await.status(), 204);
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 0);
    assert_eq!(std::fs::read_dir(fixture.path().join("uploads")).unwrap().count(), 0);
    for method in [Method::GET, Method::PATCH, Method::PUT, Method::DELETE] {
        let gone = fixture.request(method, &location).send().await.unwrap();
        assert_error(gone, 404, "BLOB_UPLOAD_UNKNOWN").await;
    }
}

#[tokio::test]
async fn an_upload_of_another_repository_is_unknown() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    assert_error(fixture.get(&location.replace("/v2/a/", "/v2/b/")).await, 404, "BLOB_UPLOAD_UNKNOWN").await;
    assert_error(fixture.get("/v2/a/blobs/uploads/nonsense").await, 404, "BLOB_UPLOAD_UNKNOWN").await;
}

#[tokio::test]
async fn keeps_received_data_after_a_connection_loss() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    let mut socket = tokio::net::TcpStream::connect(fixture.address).await.unwrap();
    let head = format!(
        "PATCH {location} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 10\r\n\r\n01234",
        crate::support::TOKEN
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut rest = Vec::new();
    // The server closes the connection after it has processed the data.
    let _ = socket.read_to_end(&mut rest).await;
    let repository = "a".parse().unwrap();
    let id = location.rsplit('/').next().unwrap();
    crate::support::wait_for("five bytes are kept", || {
        fixture.registry.upload_received(&repository, id).unwrap().1 == 5
    })
    .await;
    let digest = Digest::sha256(b"0123456789");
    let rest = fixture.request(Method::PATCH, &location).header("content-range", "5-9").body("56789").send().await;
    assert_eq!(rest.unwrap().status(), 202);
    assert_eq!(
        fixture.request(Method::PUT, &format!("{location}?digest={digest}")).send().await.unwrap().status(),
        201
    );
}

#[tokio::test]
async fn times_out_a_stalled_body_and_keeps_its_data() {
    let fixture = Fixture::with(|options| options.body_idle_timeout = Duration::from_millis(50)).await;
    let location = fixture.begin("a").await;
    let first = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"01234")) });
    let body = Body::wrap_stream(futures_util::StreamExt::chain(first, stream::pending()));
    let stalled = fixture.request(Method::PATCH, &location).body(body).send().await.unwrap();
    assert_error(stalled, 408, "BLOB_UPLOAD_INVALID").await;
    assert_eq!(header(&fixture.get(&location).await, "range"), "0-4");
}

#[tokio::test]
async fn limits_concurrent_uploads() {
    let fixture = Fixture::with(|options| {
        options.uploads_at_once = 1;
        options.uploads_open_max = 2;
    })
    .await;
    let (one, other) = (fixture.begin("a").await, fixture.begin("a").await);
    let third = fixture.request(Method::POST, "/v2/a/blobs/uploads/").send().await.unwrap();
    assert_eq!(header(&third, "retry-after"), "2");
    assert_error(third, 429, "TOOMANYREQUESTS").await;

    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let slow = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    let slow = fixture.request(Method::PATCH, &one).body(Body::wrap_stream(slow)).send();
    let slow = tokio::spawn(slow);
    sender.send(Ok(Bytes::from_static(b"x"))).await.unwrap();
    crate::support::wait_for("the first byte is there", || fixture.registry.usage(None).unwrap().bytes == 1).await;
    let refused = fixture.request(Method::PATCH, &other).body("y").send().await.unwrap();
    assert_error(refused, 429, "TOOMANYREQUESTS").await;
    drop(sender);
    assert_eq!(slow.await.unwrap().unwrap().status(), 202);
    assert_eq!(fixture.request(Method::PATCH, &other).body("y").send().await.unwrap().status(), 202);
}

#[tokio::test]
async fn expires_abandoned_uploads() {
    let fixture = Fixture::with(|options| options.upload_expiry = Duration::from_hours(1)).await;
    let (old, kept) = (fixture.begin("a").await, fixture.begin("a").await);
    fixture.request(Method::PATCH, &old).body("old").send().await.unwrap();
    fixture.clock.advance(Duration::from_mins(50));
    assert_eq!(fixture.get(&kept).await.status(), 204);
    fixture.clock.advance(Duration::from_mins(20));
    assert_eq!(fixture.registry.collect().await.unwrap().uploads, 1);
    assert_error(fixture.get(&old).await, 404, "BLOB_UPLOAD_UNKNOWN").await;
    assert_eq!(fixture.get(&kept).await.status(), 204);
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 0);
}

#[tokio::test]
async fn stores_a_blob_pushed_concurrently_once() {
    let fixture = Fixture::new().await;
    let content = vec![42; 300_000];
    let pushes = (0..16).map(|number| {
        let repository = format!("r{}", number % 4);
        let (fixture, content) = (&fixture, &content);
        async move { fixture.push_blob(&repository, content).await }
    });
    let digests = futures_util::future::join_all(pushes).await;
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 300_000);
    for repository in ["r0", "r1", "r2", "r3"] {
        let got = fixture.get(&format!("/v2/{repository}/blobs/{}", digests[0])).await;
        assert_eq!(got.bytes().await.unwrap(), content);
    }
}

#[tokio::test]
async fn rejects_a_range_that_overflows() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    let range = format!("0-{}", u64::MAX);
    let refused = fixture.request(Method::PATCH, &location).header("content-range", &range).body("x").send().await;
    assert_error(refused.unwrap(), 400, "SIZE_INVALID").await;
    let body = Body::wrap_stream(stream::iter([Ok::<_, std::io::Error>("x")]));
    let range = format!("0-{}", u64::MAX - 1);
    let refused = fixture.request(Method::PATCH, &location).header("content-range", &range).body(body).send().await;
    assert_error(refused.unwrap(), 413, "DENIED").await;
}

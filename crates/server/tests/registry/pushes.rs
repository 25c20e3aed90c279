//! Our own client pushes to our own registry: in chunks, over a connection that breaks.

use crate::support::{Fixture, TOKEN};
use bytes::Bytes;
use margo::Digest;
use margrave_oci::client::Pushed;
use margrave_oci::{Connection, Credentials, Registry};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Forwards this many bytes from the client, then breaks the connection, once.
async fn fragile(upstream: SocketAddr, bytes: i64) -> (SocketAddr, Arc<AtomicI64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let left = Arc::new(AtomicI64::new(bytes));
    let counter = Arc::clone(&left);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let counter = Arc::clone(&counter);
            tokio::spawn(async move {
                let server = TcpStream::connect(upstream).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                let mut buffer = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                    let before = counter.fetch_sub(count as i64, Ordering::SeqCst);
                    let breaks = before > 0 && before <= count as i64;
                    if breaks || to_server.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
                back.abort();
            });
        }
    });
    (address, left)
}

fn content() -> Bytes {
    (0..40_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumes_a_large_chunked_push_after_an_interruption() {
    let fixture = Fixture::new().await;
    let (address, left) = fragile(fixture.address, 25_000_000).await;
    let credentials = Credentials::new(Some("token".to_owned()), Some(TOKEN.to_owned())).unwrap();
    let connection = Connection { plain_http: true, ca: None, credentials };
    let mut registry = Registry::new(&address.to_string(), &connection).unwrap();
    let content = content();
    let digest = Digest::of(&content);
    let mut told = Vec::new();
    let pushed = registry.push_blob("large", &digest, &content, |sent| told.push(sent)).await.unwrap();
    assert_eq!(pushed, Pushed::Sent);
    let sent = 25_000_000 - left.load(Ordering::SeqCst);
    assert!(sent >= 40_000_000, "the connection broke and everything arrived: {sent}");
    assert_eq!(told.last(), Some(&40_000_000));
    assert_eq!(registry.push_blob("large", &digest, &content, |_| {}).await.unwrap(), Pushed::Present);
    let stored = fixture.get(&format!("/v2/large/blobs/{digest}")).await.bytes().await.unwrap();
    assert!(stored == content);
    // And a download from the middle.
    let download = registry.download("large", &digest, 39_999_990).await.unwrap();
    assert_eq!(download.from, 39_999_990);
    let parts: Vec<_> = futures_util::StreamExt::collect(download.stream).await;
    let rest: Vec<u8> = parts.into_iter().flat_map(|part| part.unwrap().to_vec()).collect();
    assert_eq!(rest, content[39_999_990..]);
}

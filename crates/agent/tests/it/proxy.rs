//! Connections through an HTTP proxy.

use crate::support::{Agent, World, eventually, set, version};
use margrave_agent::config::ProxyConfig;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A proxy that requires a password.
async fn proxy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = near.read_u8().await else { return };
                    head.push(byte);
                }
                let head = String::from_utf8(head).unwrap();
                kept.lock().unwrap().push(head.clone());
                // user:secret
                if !head.to_ascii_lowercase().contains("proxy-authorization: basic dxnlcjpzzwnyzxq=") {
                    let _ = near
                        .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
                        .await;
                    return;
                }
                let target = head.split(' ').nth(1).unwrap().to_owned();
                let Ok(mut far) = TcpStream::connect(target).await else { return };
                let _ = near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn all_requests_use_the_proxy_with_end_to_end_tls() {
    // GEN-05, TLS-04
    let world = World::new().await;
    let deployments = set(3, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let (address, heads) = proxy().await;
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password.path(), "secret\n").unwrap();
    let agent = Agent::start(&world, |config| {
        config.proxy = Some(ProxyConfig {
            url: format!("http://{address}").parse().unwrap(),
            username: Some("user".to_owned()),
            password_file: Some(password.path().to_owned()),
        });
    });
    agent.runs(&deployments).await;
    let heads = heads.lock().unwrap();
    let expected = format!("CONNECT {} HTTP/1.1", world.fake.address);
    assert!(!heads.is_empty() && heads.iter().all(|head| head.starts_with(&expected)));
}

#[tokio::test]
async fn a_rejecting_proxy_counts_as_an_unreachable_server() {
    let world = World::new().await;
    let (address, heads) = proxy().await;
    let agent = Agent::start(&world, |config| {
        let url = format!("http://{address}").parse().unwrap();
        config.proxy = Some(ProxyConfig { url, username: None, password_file: None });
    });
    agent.in_trouble("701").await;
    eventually("the proxy was asked", || !heads.lock().unwrap().is_empty()).await;
    assert!(world.fake.seen().is_empty());
}

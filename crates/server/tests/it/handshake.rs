//! Which TLS handshakes succeed on the device listener (requirements §10.2 to §10.4, W-25).

use crate::support::TestServer;
use crate::support::client::{Device, certificates, svid_builder};
use crate::support::pki::{self, Authority, Leaf};
use margrave_core::time::Clock as _;
use rcgen::{BasicConstraints, IsCa, KeyUsagePurpose};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const MANIFEST: &str = "/api/v1/deployments";
const PRESS: &str = "spiffe://margrave.internal/margo/wfm/main/client/press";

fn authority(server: &TestServer) -> Authority {
    Authority::of_server(&server.state().config.trust_dir().join("svid-ca.pem"))
}

fn device(server: &TestServer, leaf: &Leaf, authority: &Authority) -> Device {
    let key = pki::key();
    Device::new(server, &leaf.signed_by(&key, authority), &key)
}

/// The server must abort the handshake; an HTTP response, even 403, is a failure (W-25).
async fn assert_broken_off(device: Device, why: &str) {
    let answer = device.try_get(MANIFEST).await;
    assert!(answer.is_err(), "{why}: answered with {}", answer.unwrap().status());
}

#[tokio::test]
async fn accepts_a_valid_certificate() {
    let server = TestServer::start().await;
    server.accepted("press").await;
    let leaf = Leaf::new(&[PRESS], server.clock.now());
    assert_eq!(device(&server, &leaf, &authority(&server)).get(MANIFEST).await.status(), 200);
}

#[tokio::test]
async fn without_a_certificate_the_handshake_fails() {
    // GEN-13, W-25
    let server = TestServer::start().await;
    assert_broken_off(Device::anonymous(&server), "no certificate").await;
    let failures = "margrave_handshake_failures_total{listener=\"devices\"} 1";
    assert!(server.state().metrics.encode().contains(failures));
}

#[tokio::test]
async fn a_certificate_of_a_foreign_authority_fails() {
    // SV-03
    let server = TestServer::start().await;
    server.accepted("press").await;
    let now = server.clock.now();
    let foreign = Authority::new("Margrave SVID authority of margrave.internal", now);
    assert_broken_off(device(&server, &Leaf::new(&[PRESS], now), &foreign), "foreign authority").await;
}

#[tokio::test]
async fn rejects_names_other_than_clients_of_this_server() {
    // WID-01, WID-03, SV-03
    let server = TestServer::start().await;
    server.accepted("press").await;
    let (ours, now) = (authority(&server), server.clock.now());
    for uri in [
        "spiffe://margrave.internal/margo/wfm/other/client/press",
        "spiffe://elsewhere.internal/margo/wfm/main/client/press",
        "spiffe://margrave.internal/margo/wfm/main",
        "spiffe://margrave.internal/margo/wfm/main/client/press/extra",
        "spiffe://margrave.internal/margo/wfm/main/client/",
        "spiffe://margrave.internal/workload/press",
        "spiffe://margrave.internal",
        "https://margrave.internal/margo/wfm/main/client/press",
        "spiffe://margrave.internal/margo/wfm/MAIN/client/press",
    ] {
        assert_broken_off(device(&server, &Leaf::new(&[uri], now), &ours), uri).await;
    }
}

#[tokio::test]
async fn requires_exactly_one_uri_name() {
    // SV-03
    let server = TestServer::start().await;
    server.accepted("press").await;
    let (ours, now) = (authority(&server), server.clock.now());
    let other = "spiffe://margrave.internal/margo/wfm/main/client/other";
    assert_broken_off(device(&server, &Leaf::new(&[PRESS, other], now), &ours), "two names").await;
    assert_broken_off(device(&server, &Leaf::new(&[PRESS, PRESS], now), &ours), "the same name twice").await;
    assert_broken_off(device(&server, &Leaf::new(&[], now), &ours), "no name").await;
}

#[tokio::test]
async fn rejects_a_leaf_that_can_sign() {
    // SV-03
    let server = TestServer::start().await;
    server.accepted("press").await;
    let (ours, now) = (authority(&server), server.clock.now());
    let mut ca = Leaf::new(&[PRESS], now);
    ca.params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    assert_broken_off(device(&server, &ca, &ours), "cA is true").await;
    for usage in [KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign] {
        let mut leaf = Leaf::new(&[PRESS], now);
        leaf.params.key_usages = vec![KeyUsagePurpose::DigitalSignature, usage];
        assert_broken_off(device(&server, &leaf, &ours), "may sign").await;
    }
}

#[tokio::test]
async fn rejects_expired_and_future_certificates() {
    // SV-03, TLS-02
    let server = TestServer::start().await;
    server.accepted("press").await;
    let (ours, now) = (authority(&server), server.clock.now());
    let hour = Duration::from_hours(1);
    let mut expired = Leaf::new(&[PRESS], now);
    expired.valid(now.minus(2 * hour), now.minus(hour));
    assert_broken_off(device(&server, &expired, &ours), "expired").await;
    let mut early = Leaf::new(&[PRESS], now);
    early.valid(now.plus(hour), now.plus(2 * hour));
    assert_broken_off(device(&server, &early, &ours), "not valid yet").await;

    let fine = server.device("press");
    server.clock.advance(Duration::from_hours(744));
    server.state().identity.refresh().unwrap();
    assert_broken_off(fine, "expired since it was issued").await;
}

#[tokio::test]
async fn accepts_a_chain_with_intermediates() {
    // SV-01, W-28
    let data = tempfile::tempdir().unwrap();
    let clock = crate::support::TestClock::new();
    let root = Authority::new("root", clock.now());
    let anchors = data.path().join("anchors.pem");
    let wfm = data.path().join("wfm.pem");
    std::fs::write(&anchors, &root.pem).unwrap();
    let wfm_key = pki::key();
    let mut wfm_leaf = Leaf::new(&["spiffe://margrave.internal/margo/wfm/main"], clock.now());
    wfm_leaf.params.extended_key_usages = vec![];
    std::fs::write(&wfm, format!("{}{}", wfm_key.serialize_pem(), wfm_leaf.signed_by(&wfm_key, &root))).unwrap();
    let mut config = crate::support::config(&data);
    config.identity.anchors_file = Some(anchors);
    config.identity.wfm_svid_file = Some(wfm);
    let server = TestServer::start_in(data, clock, config).await.unwrap();
    server.create("press", margrave_core::model::ClientState::Accepted).await;

    let (chain, intermediate) = pki::intermediate(&root, server.clock.now());
    let key = pki::key();
    let leaf = Leaf::new(&[PRESS], server.clock.now()).signed_by(&key, &intermediate);
    let complete = Device::new(&server, &format!("{leaf}{chain}"), &key);
    assert_eq!(complete.get(MANIFEST).await.status(), 200);
    assert_broken_off(Device::new(&server, &leaf, &key), "the intermediate is missing").await;
}

#[tokio::test]
async fn a_stalled_handshake_does_not_block_others() {
    let server = TestServer::start_with(|config| {
        config.limits.handshake_timeout = margrave_server::config::Span(Duration::from_millis(300));
    })
    .await;
    let press = server.accepted("press").await;
    let mut offline = Vec::new();
    for _ in 0..20 {
        offline.push(TcpStream::connect(server.devices()).await.unwrap());
    }
    assert_eq!(press.get(MANIFEST).await.status(), 200);
    // And the stalled connections are closed.
    for mut stream in offline {
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut [0; 1])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
}

#[tokio::test]
async fn rejects_tls_before_1_3() {
    // TLS-01
    let server = TestServer::start().await;
    for (address, what) in [(server.devices(), "devices"), (server.running.addresses.trust.unwrap(), "trust")] {
        // A hello that offers TLS 1.2 and nothing newer, with one cipher suite.
        let mut hello = vec![0x16, 3, 1, 0, 0x2d, 1, 0, 0, 0x29, 3, 3];
        hello.extend([7; 32]);
        hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0, 0, 0]);
        let mut stream = TcpStream::connect(address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &hello).await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await.unwrap();
        assert_eq!(answer.first(), Some(&0x15), "{what}: an alert, not a server hello: {answer:?}");
    }
}

#[tokio::test]
async fn devices_speak_http_1_1_and_get_no_session_tickets() {
    // GEN-03, TLS-03
    let server = TestServer::start().await;
    server.accepted("press").await;
    let key = pki::key();
    let leaf = Leaf::new(&[PRESS], server.clock.now()).signed_by(&key, &authority(&server));
    let connect = async |alpn: &[u8]| {
        let mut config = svid_builder(&server)
            .with_client_auth_cert(
                certificates(&leaf),
                rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![alpn.to_vec()];
        let stream = TcpStream::connect(server.devices()).await.unwrap();
        let name = rustls_pki_types::ServerName::try_from("wfm").unwrap();
        TlsConnector::from(std::sync::Arc::new(config)).connect(name, stream).await
    };
    assert!(connect(b"h2").await.is_err(), "HTTP/2 is not offered");
    let mut stream = connect(b"http/1.1").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let request = format!("GET {MANIFEST} HTTP/1.1\r\nhost: wfm\r\nconnection: close\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(stream.get_ref().1.tls13_tickets_received(), 0);
}

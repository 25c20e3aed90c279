//! Policy, anchors and certificates change while the server runs.

use crate::support::client::{Device, https, refused};
use crate::support::held::Held;
use crate::support::pki::{self, Authority, Leaf};
use crate::support::{TestClock, TestServer, config, eventually};
use margo::trust_bundle::TrustBundle;
use margrave_core::model::ClientState;
use margrave_core::time::Clock as _;
use margrave_server::config::Span;
use std::time::Duration;

const MANIFEST: &str = "/api/v1/deployments";

#[tokio::test]
async fn policy_applies_to_every_request_on_an_open_connection() {
    // WID-05, W-27
    let server = TestServer::start().await;
    server.create("press", ClientState::Accepted).await;
    let mut held = Held::open(&server, "press").await;
    assert_eq!(held.poll().await, "304");
    server.set_state("press", ClientState::Decommissioned).await;
    assert_eq!(held.poll().await, "403", "the connection is open, the client is no longer accepted");
    refused(server.device("press").get(MANIFEST).await, 403, Some("not-authorized")).await;
    server.set_state("press", ClientState::Accepted).await;
    assert_eq!(held.poll().await, "304");
}

#[tokio::test]
async fn new_anchors_close_connections_and_reject_old_certificates() {
    // TLS-03, LC-02, TB-04, TB-05
    let data = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let (old, new) = (Authority::new("old", clock.now()), Authority::new("new", clock.now()));
    let [anchors, issuer] = ["anchors.pem", "issuer.pem"].map(|name| data.path().join(name));
    std::fs::write(&anchors, &old.pem).unwrap();
    std::fs::write(&issuer, format!("{}{}", old.key_pem, old.pem)).unwrap();
    let mut settings = config(&data);
    settings.identity.anchors_file = Some(anchors.clone());
    settings.identity.issuer_file = Some(issuer.clone());
    let server = TestServer::start_in(data, clock, settings).await.unwrap();
    let before = server.accepted("press").await;
    let mut held = Held::open(&server, "press").await;
    assert_eq!(held.poll().await, "304");
    let sequence = |server: &TestServer| {
        TrustBundle::read(&server.state().identity.bundle_json()).unwrap().document.sequence.unwrap()
    };
    let first = sequence(&server);

    // First both anchors (LC-03): no client is rejected.
    std::fs::write(&anchors, format!("{}{}", old.pem, new.pem)).unwrap();
    eventually("both anchors are in use", async || (sequence(&server) == first + 1).then_some(())).await;
    held.closed().await;
    assert_eq!(before.get(MANIFEST).await.status(), 200);

    // Then only the new one.
    std::fs::write(&issuer, format!("{}{}", new.key_pem, new.pem)).unwrap();
    std::fs::write(&anchors, &new.pem).unwrap();
    eventually("the old anchor is no longer in use", async || (sequence(&server) >= first + 2).then_some(())).await;
    eventually("old certificates are refused", async || before.try_get(MANIFEST).await.err().map(|_| ())).await;
    assert_eq!(server.device("press").get(MANIFEST).await.status(), 200);
    assert_eq!(TrustBundle::read(&server.state().identity.bundle_json()).unwrap().document.anchors.len(), 1);
}

#[tokio::test]
async fn broken_files_leave_the_old_certificates_in_use() {
    let data = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let authority = Authority::new("one", clock.now());
    let anchors = data.path().join("anchors.pem");
    let issuer = data.path().join("issuer.pem");
    std::fs::write(&anchors, &authority.pem).unwrap();
    std::fs::write(&issuer, format!("{}{}", authority.key_pem, authority.pem)).unwrap();
    let mut settings = config(&data);
    settings.identity.anchors_file = Some(anchors.clone());
    settings.identity.issuer_file = Some(issuer);
    let server = TestServer::start_in(data, clock, settings).await.unwrap();
    let press = server.accepted("press").await;
    std::fs::write(&anchors, "half a certif").unwrap();
    let error = server.state().identity.refresh().unwrap_err().to_string();
    assert!(error.contains("anchors.pem"), "{error}");
    assert_eq!(press.get(MANIFEST).await.status(), 200);
}

#[tokio::test]
async fn closes_a_connection_at_its_maximum_age() {
    // TLS-03
    let server =
        TestServer::start_with(|config| config.limits.connection_age_max = Span(Duration::from_millis(300))).await;
    server.create("press", ClientState::Accepted).await;
    let mut held = Held::open(&server, "press").await;
    assert_eq!(held.poll().await, "304");
    held.closed().await;
}

#[tokio::test]
async fn a_connection_ends_with_the_certificate_it_was_made_with() {
    // TLS-03
    let server = TestServer::start().await;
    server.create("press", ClientState::Accepted).await;
    let authority = Authority::of_server(&server.state().config.trust_dir().join("svid-ca.pem"));
    let (key, now) = (pki::key(), server.clock.now());
    let mut leaf = Leaf::new(&["spiffe://margrave.internal/margo/wfm/main/client/press"], now);
    leaf.valid(now.minus(Duration::from_mins(1)), now.plus(Duration::from_secs(1)));
    let mut held = Held::with(&server, &leaf.signed_by(&key, &authority), &key).await;
    assert_eq!(held.poll().await, "304");
    held.closed().await;
}

#[tokio::test]
async fn the_servers_own_certificates_are_renewed_in_time() {
    let server = TestServer::start().await;
    server.create("press", ClientState::Accepted).await;
    let identity = &server.state().identity;
    let (wfm, pin, bundle) = (identity.material().wfm.certified.cert.clone(), identity.pin(), identity.bundle_json());
    server.clock.advance(Duration::from_hours(96));
    assert!(!identity.refresh().unwrap(), "nothing is due before two thirds of a week");
    let mut held = Held::open(&server, "press").await;
    assert_eq!(held.poll().await, "304");
    server.clock.advance(Duration::from_hours(24));
    assert!(identity.refresh().unwrap());
    assert_ne!(identity.material().wfm.certified.cert, wfm);
    assert_eq!(identity.bundle_json(), bundle, "the anchors and their sequence stay");
    held.closed().await;
    assert_eq!(server.device("press").get(MANIFEST).await.status(), 200);

    // The HTTPS certificate keeps its key, so that pins stay valid.
    let https_before = identity.material().https.certified.cert.clone();
    server.clock.advance(Duration::from_hours(1440));
    assert!(identity.refresh().unwrap());
    assert_ne!(identity.material().https.certified.cert, https_before);
    assert_eq!(identity.pin(), pin);
    eventually("the trust listener shows the new certificate", async || {
        https(&server).get(server.trust_url("/.well-known/margo")).send().await.ok()
    })
    .await;
}

#[tokio::test]
async fn reloads_a_replaced_https_certificate() {
    let data = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let [certificate, key] = ["https.pem", "https.key"].map(|name| data.path().join(name));
    let authority = Authority::new("company", clock.now());
    let issue = || {
        let fresh = pki::key();
        let mut leaf = Leaf::new(&[], clock.now());
        leaf.params.subject_alt_names = vec![rcgen::SanType::IpAddress([127, 0, 0, 1].into())];
        leaf.params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        std::fs::write(&key, fresh.serialize_pem()).unwrap();
        std::fs::write(&certificate, leaf.signed_by(&fresh, &authority)).unwrap();
    };
    issue();
    let mut settings = config(&data);
    settings.https.certificate_file = Some(certificate.clone());
    settings.https.key_file = Some(key.clone());
    let server = TestServer::start_in(data, clock.clone(), settings).await.unwrap();
    assert_eq!(server.state().identity.https_ca_pem(), "", "not our CA");
    let pin = server.state().identity.pin();
    issue();
    eventually("the new key is in use", async || (server.state().identity.pin() != pin).then_some(())).await;
}

#[tokio::test]
async fn a_whole_namespace_is_accepted_only_by_explicit_choice() {
    // WID-05
    let closed = TestServer::start().await;
    refused(closed.device("press").get(MANIFEST).await, 403, Some("not-authorized")).await;

    let open = TestServer::start_with(|config| config.clients.accept_any = true).await;
    let press: Device = open.device("press");
    let (one, two) = tokio::join!(press.get(MANIFEST), press.get(MANIFEST));
    assert_eq!((one.status().as_u16(), two.status().as_u16()), (200, 200));
    open.set_state("press", ClientState::Decommissioned).await;
    refused(press.get(MANIFEST).await, 403, Some("not-authorized")).await;
}

//! Discovery and the trust bundle (requirements §10.5).

use crate::support::client::{https, refused};
use crate::support::{TestServer, client_id};
use margo::trust_bundle::{Discovery, TrustBundle};
use serde_json::Value;

#[tokio::test]
async fn discovery_returns_the_trust_domain_and_its_bundle() {
    // TB-01, TB-02
    let server = TestServer::start().await;
    let client = https(&server);
    let url = server.trust_url("/.well-known/margo");
    let response = client.get(&url).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    let etag = response.headers()["etag"].clone();
    let discovery = Discovery::read(&response.bytes().await.unwrap()).unwrap().document;
    assert_eq!(discovery.trust_domain.as_str(), "margrave.internal");
    assert_eq!(discovery.trust_bundle_uri, server.trust_url("/.well-known/spiffe/bundle.json"));
    let again = client.get(&url).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(again.headers()["etag"], etag);
    assert_eq!(again.bytes().await.unwrap().len(), 0);
}

#[tokio::test]
async fn the_bundle_contains_the_anchors_with_sequence_and_refresh_hint() {
    // TB-03, TB-05, W-29
    let server = TestServer::start().await;
    let client = https(&server);
    let url = server.trust_url("/.well-known/spiffe/bundle.json");
    let response = client.get(&url).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let etag = response.headers()["etag"].clone();
    let body = response.bytes().await.unwrap();
    let raw: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(raw["spiffe_sequence"], 1);
    assert_eq!(raw["spiffe_refresh_hint"], 300);
    assert_eq!(raw["keys"][0]["use"], "x509-svid");
    let bundle = TrustBundle::read(&body).unwrap().document;
    let anchors: Vec<Vec<u8>> = server.state().identity.material().anchors.iter().map(|der| der.to_vec()).collect();
    assert_eq!(bundle.anchors, anchors);
    let again = client.get(&url).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!(again.status(), 304);
    let server = server.restart().await;
    let later = https(&server).get(server.trust_url("/.well-known/spiffe/bundle.json")).send().await.unwrap();
    assert_eq!(later.bytes().await.unwrap(), body, "the sequence survives a restart");
}

#[tokio::test]
async fn issued_certificates_carry_one_uri_name_and_ignore_the_request() {
    // LC-01, SV-03, W-28
    let server = TestServer::start().await;
    let key = crate::support::pki::key();
    let csr = crate::support::pki::csr(&key);
    let issued = server.state().identity.issue(&client_id("press"), &csr, None).unwrap();
    assert_eq!(issued.spiffe_id, "spiffe://margrave.internal/margo/wfm/main/client/press");
    let chain = crate::support::client::certificates(&issued.certificate_pem);
    assert_eq!(chain.len(), 1, "the anchor is not sent along");
    let (_, leaf) = x509_parser::parse_x509_certificate(&chain[0]).unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    let names: Vec<String> = names.value.general_names.iter().map(ToString::to_string).collect();
    assert_eq!(names, [format!("URI({})", issued.spiffe_id)]);
    assert!(!leaf.is_ca());
    let usage = leaf.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && !usage.key_cert_sign() && !usage.crl_sign());
    let extended = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.client_auth && extended.server_auth);
    assert!(!leaf.subject().to_string().contains("important"));
    let now = margrave_core::time::Clock::now(&*server.clock).0 / 1_000_000;
    assert!(leaf.validity().not_before.timestamp() < now, "backdated for slow clocks");
    assert_eq!(leaf.validity().not_after.timestamp(), now + 30 * 86_400);
}

#[tokio::test]
async fn other_addresses_and_methods_get_a_problem() {
    // PRB-01
    let server = TestServer::start().await;
    let client = https(&server);
    refused(client.get(server.trust_url("/api/v1/deployments")).send().await.unwrap(), 404, None).await;
    let deleted = client.delete(server.trust_url("/.well-known/margo")).send().await.unwrap();
    assert_eq!(deleted.headers()["allow"], "GET,HEAD");
    refused(deleted, 405, None).await;
}

#[tokio::test]
async fn no_two_servers_share_a_key() {
    // SV-04
    let [one, two] = [TestServer::start().await, TestServer::start().await];
    let anchors = [&one, &two].map(|server| server.state().identity.bundle_pem());
    assert_ne!(anchors[0], anchors[1]);
    let keys = |server: &TestServer| {
        let files = std::fs::read_dir(server.state().config.trust_dir()).unwrap().map(|file| file.unwrap().path());
        let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
        let key = |text: String| Some(text.split_once("PRIVATE KEY-----")?.1.split_once("-----END")?.0.to_owned());
        texts.filter_map(key).collect::<Vec<_>>()
    };
    let (ones, twos) = (keys(&one), keys(&two));
    assert!(ones.len() >= 2, "the authorities of the SVIDs and of the HTTPS certificate");
    let all: std::collections::HashSet<_> = ones.iter().chain(&twos).collect();
    assert_eq!(all.len(), ones.len() + twos.len());
}

//! Enrollment: a one-time token and a CSR for an SVID (ONB-06, LC-01, LC-05).

use crate::support::client::{Device, https, refused};
use crate::support::{TestServer, actor, client_id, pki};
use margo::trust_bundle::TrustBundle;
use margrave_core::time::Clock as _;
use margrave_server::secrets;
use rcgen::KeyPair;
use serde_json::{Value, json};
use std::time::Duration;

async fn token(server: &TestServer, client: &str) -> String {
    let secret = secrets::generate(secrets::ENROLLMENT_TOKEN_PREFIX);
    let now = server.clock.now();
    let expires = now.plus(Duration::from_hours(1));
    let hash = secrets::hash(&secret);
    server.state().store.enrollment_create(&actor(), &hash, &client_id(client), expires, now).await.unwrap();
    secret
}

async fn enroll(server: &TestServer, token: &str, key: &KeyPair) -> reqwest::Response {
    post(server, json!({ "token": token, "csr": pki::csr(key) }).to_string()).await
}

async fn post(server: &TestServer, body: String) -> reqwest::Response {
    let request = https(server).post(server.trust_url("/enrollment/v1")).header("content-type", "application/json");
    request.body(body).send().await.unwrap()
}

#[tokio::test]
async fn enrolls_an_accepted_client_with_a_token_and_a_key() {
    let server = TestServer::start().await;
    let token = token(&server, "press").await;
    let key = pki::key();
    let response = enroll(&server, &token, &key).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["cache-control"], "no-store");
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["spiffeId"], "spiffe://margrave.internal/margo/wfm/main/client/press");
    assert_eq!(body["wfmUrl"], format!("https://{}", server.devices()));
    let bundle = TrustBundle::read(body["trustBundle"].to_string().as_bytes()).unwrap().document;
    assert_eq!(bundle.anchors.len(), 1);
    let press = Device::new(&server, body["certificate"].as_str().unwrap(), &key);
    assert_eq!(press.get("/api/v1/deployments").await.status(), 200, "accepted without a restart");
}

#[tokio::test]
async fn a_token_works_for_one_key_and_again_for_the_same_key_for_ten_minutes() {
    let server = TestServer::start().await;
    let token = token(&server, "press").await;
    let (key, thief) = (pki::key(), pki::key());
    assert_eq!(enroll(&server, &token, &key).await.status(), 200);
    refused(enroll(&server, &token, &thief).await, 403, Some("not-authorized")).await;
    server.clock.advance(Duration::from_mins(9));
    assert_eq!(enroll(&server, &token, &key).await.status(), 200, "the first answer may have been lost");
    server.clock.advance(Duration::from_mins(2));
    refused(enroll(&server, &token, &key).await, 403, Some("not-authorized")).await;
}

#[tokio::test]
async fn wrong_and_expired_tokens_are_refused() {
    let server = TestServer::start().await;
    let token = token(&server, "press").await;
    let key = pki::key();
    let unknown = refused(enroll(&server, "mgve_guess", &key).await, 403, Some("not-authorized")).await;
    assert!(!unknown.to_string().contains("guess"), "a token is never repeated: {unknown}");
    server.clock.advance(Duration::from_secs(3601));
    refused(enroll(&server, &token, &key).await, 403, Some("not-authorized")).await;
    assert!(server.state().heads.get(&client_id("press")).is_none());
}

#[tokio::test]
async fn an_invalid_request_does_not_consume_the_token() {
    let server = TestServer::start().await;
    let token = token(&server, "press").await;
    let key = pki::key();
    let bad = post(&server, json!({ "token": token, "csr": "-----BEGIN NOTHING-----" }).to_string()).await;
    let problem = refused(bad, 422, Some("semantic-error")).await;
    assert_eq!(problem["errors"][0]["field"], "csr");
    let mut tampered = pki::csr(&key);
    let middle = tampered.len() / 2;
    let other = if &tampered[middle..=middle] == "A" { "B" } else { "A" };
    tampered.replace_range(middle..=middle, other);
    refused(post(&server, json!({ "token": token, "csr": tampered }).to_string()).await, 422, Some("semantic-error"))
        .await;
    refused(post(&server, "{".to_owned()).await, 400, Some("invalid-request")).await;
    refused(post(&server, json!({ "token": token }).to_string()).await, 422, Some("semantic-error")).await;
    refused(post(&server, json!({ "token": 7, "csr": [] }).to_string()).await, 422, Some("semantic-error")).await;
    refused(post(&server, " ".repeat(40_000)).await, 413, None).await;
    assert_eq!(enroll(&server, &token, &key).await.status(), 200);
}

#[tokio::test]
async fn rate_limits_enrollment_attempts() {
    // RTY-01
    let server = TestServer::start().await;
    let client = https(&server);
    let url = server.trust_url("/enrollment/v1");
    let mut slowed = None;
    for _ in 0..400 {
        let response = client.post(&url).body("{").send().await.unwrap();
        if response.status() == 429 {
            slowed = Some(response);
            break;
        }
        assert_eq!(response.status(), 400);
    }
    refused(slowed.expect("a flood is slowed down"), 429, None).await;
}

#[tokio::test]
async fn enrollment_is_never_on_the_device_listener() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    refused(press.post("/enrollment/v1", "{}").await, 404, None).await;
}

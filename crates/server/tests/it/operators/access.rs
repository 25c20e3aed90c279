//! Tokens, and that no endpoint works without one.

use super::{api, problem};
use crate::support::TestServer;
use crate::support::client::plain;
use margrave_api::access::CreateToken;
use margrave_api::client::{ApiClient, ClientError, ClientOptions, PageQuery};
use serde_json::Value;
use std::time::Duration;

fn named(name: &str) -> CreateToken {
    CreateToken { name: name.to_owned(), valid_for_seconds: None, comment: Some("for the robots".to_owned()) }
}

#[tokio::test]
async fn every_documented_endpoint_requires_a_token() {
    let server = TestServer::start().await;
    let document = api(&server).openapi().await.unwrap();
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let address = path.replace(['{', '}'], "");
        for method in item.as_object().unwrap().keys() {
            let request = plain().request(method.to_uppercase().parse().unwrap(), server.operators_url(&address));
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 401, "{method} {path}");
            assert_eq!(response.headers()["content-type"], "application/problem+json", "{method} {path}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
            let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
            let body: Value = response.json().await.unwrap();
            assert_eq!((&body["code"], &body["requestId"]), (&"unauthenticated".into(), &id.into()), "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked > 40, "{asked}");
}

#[tokio::test]
async fn rejects_a_wrong_token() {
    let server = TestServer::start().await;
    for token in ["mgv_wrong", "", "Bearer", "  "] {
        let options = ClientOptions::new(server.operators_url("")).with_token(token);
        assert_eq!(problem(ApiClient::new(&options).unwrap().whoami().await).status, 401, "{token:?}");
    }
}

#[tokio::test]
async fn a_new_token_works_until_it_is_revoked() {
    let server = TestServer::start().await;
    let admin = api(&server);
    let token = admin.create_token(&named("robots")).await.unwrap();
    let secret = token.secret.clone().unwrap();
    let robots = ApiClient::new(&ClientOptions::new(server.operators_url("")).with_token(&secret)).unwrap();
    assert_eq!(robots.whoami().await.unwrap().actor, "token:robots");
    let listed = admin.tokens().await.unwrap().items;
    assert!(listed.iter().all(|token| token.secret.is_none()), "a secret is shown once");
    assert!(listed.iter().any(|listed| listed.id == token.id));
    admin.revoke_token(&token.id, Some("robots went home")).await.unwrap();
    assert_eq!(problem(robots.whoami().await).code, "unauthenticated");
    assert_eq!(problem(admin.revoke_token("absent", None).await).code, "not-found");
}

#[tokio::test]
async fn a_token_expires() {
    let server = TestServer::start().await;
    let body = CreateToken { valid_for_seconds: Some(60), ..named("guest") };
    let secret = api(&server).create_token(&body).await.unwrap().secret.unwrap();
    let guest = ApiClient::new(&ClientOptions::new(server.operators_url("")).with_token(secret)).unwrap();
    guest.whoami().await.unwrap();
    server.clock.advance(Duration::from_secs(61));
    assert_eq!(problem(guest.whoami().await).code, "unauthenticated");
}

#[tokio::test]
async fn the_audit_records_actor_action_and_comment_and_its_chain_verifies() {
    let server = TestServer::start().await;
    let admin = api(&server);
    let token = admin.create_token(&named("robots")).await.unwrap();
    admin.revoke_token(&token.id, Some("robots went home")).await.unwrap();
    let records = admin.audit(None, &PageQuery::default()).await.unwrap().items;
    assert_eq!(records[0].comment.as_deref(), Some("robots went home"));
    assert!(records[0].actor.starts_with("token:"), "{}", records[0].actor);
    assert!(records[0].request_id.is_some());
    assert!(records.windows(2).all(|pair| pair[0].seq > pair[1].seq), "newest first");
    let about = admin.audit(Some(&records[0].subject), &PageQuery::default()).await.unwrap().items;
    assert!(about.len() == 2 && about.iter().all(|record| record.subject == records[0].subject));
    let first = admin.audit(None, &PageQuery { limit: Some(1), after: None }).await.unwrap();
    let second = admin.audit(None, &PageQuery { limit: Some(1), after: first.next }).await.unwrap();
    assert_eq!(second.items[0].seq, records[1].seq);
    let verified = admin.verify_audit().await.unwrap();
    assert!(verified.intact && verified.records >= 3, "{verified:?}");
}

#[tokio::test]
async fn the_client_distinguishes_a_wrong_address_from_a_rejection() {
    let server = TestServer::start().await;
    let at = |address: &str| ApiClient::new(&ClientOptions::new(address).with_token("mgv_x"));
    assert!(matches!(at("fleet.example"), Err(ClientError::Address(_))));
    assert!(matches!(at("ftp://fleet.example"), Err(ClientError::Address(_))));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = at(&format!("http://{closed}")).unwrap().whoami().await.unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable { .. }), "{gone:?}");
    let elsewhere = at(&server.operators_url("/healthz")).unwrap().whoami().await.unwrap_err();
    assert_eq!(elsewhere.code(), Some("not-found"), "{elsewhere:?}");
    let shown = format!("{:?}", at(&server.operators_url("")).unwrap());
    assert!(!shown.contains("mgv_x"), "{shown}");
}

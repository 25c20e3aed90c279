//! Every invalid request gets a problem document.

use crate::support::TestServer;
use crate::support::client::plain;
use reqwest::RequestBuilder;
use serde_json::Value;

fn request(server: &TestServer, method: &str, path: &str) -> RequestBuilder {
    plain().request(method.parse().unwrap(), server.operators_url(path)).bearer_auth(server.admin_token())
}

async fn check(request: RequestBuilder, status: u16, code: &str) -> Value {
    let response = request.send().await.unwrap();
    let (got, media_type) = (response.status(), response.headers()["content-type"].clone());
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    assert_eq!(response.headers()["cache-control"], "no-store");
    let body: Value = response.json().await.unwrap();
    assert_eq!((got.as_u16(), media_type.to_str().unwrap()), (status, "application/problem+json"), "{body}");
    assert_eq!((&body["code"], &body["status"]), (&code.into(), &status.into()), "{body}");
    assert_eq!(body["requestId"], id);
    assert!(body["title"].is_string() && body["detail"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    body
}

#[tokio::test]
async fn framework_rejections_are_problem_documents() {
    let server = TestServer::start().await;
    let json = "application/json";
    check(request(&server, "GET", "/api/nowhere"), 404, "not-found").await;
    check(request(&server, "PATCH", "/api/summary"), 405, "method-not-allowed").await;
    check(request(&server, "POST", "/api/clients").body("{}"), 415, "unsupported-media-type").await;
    let post = || request(&server, "POST", "/api/clients").header("content-type", json);
    check(post().body("{"), 400, "malformed").await;
    check(post().body("{} {}"), 422, "invalid").await;
    check(post().body(vec![b' '; 5 << 20]), 413, "too-large").await;
    check(request(&server, "GET", "/api/devices?limit=many"), 400, "malformed").await;
    check(request(&server, "GET", "/api/devices?limit=0"), 422, "invalid").await;
    check(request(&server, "GET", "/api/devices?after=never"), 422, "invalid").await;
    check(request(&server, "GET", "/api/clients/%FF"), 400, "malformed").await;
    let patch = request(&server, "PATCH", "/api/clients/press").header("content-type", json).header("if-match", "3");
    check(patch.body(r#"{"state":"accepted"}"#), 400, "malformed").await;
}

#[tokio::test]
async fn names_an_invalid_field_by_its_path() {
    let server = TestServer::start().await;
    let post = request(&server, "POST", "/api/rollouts").header("content-type", "application/json");
    let body = r#"{"kind":"create","application":"a","scope":{"devices":[{"client":"press","device":7}]}}"#;
    let problem = check(post.body(body), 422, "invalid").await;
    assert_eq!(problem["errors"][0]["field"], "scope.devices[0].device", "{problem}");
}

#[tokio::test]
async fn keeps_a_given_request_id() {
    let server = TestServer::start().await;
    let response = request(&server, "GET", "/api/nowhere").header("x-request-id", "mine-1").send().await.unwrap();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["requestId"], "mine-1");
}

#[tokio::test]
async fn an_invalid_selector_shows_an_example() {
    let server = TestServer::start().await;
    let problem = check(request(&server, "GET", "/api/devices?selector=site%20in%20("), 422, "invalid").await;
    assert!(problem["detail"].as_str().unwrap().contains("site=berlin"), "{problem}");
}

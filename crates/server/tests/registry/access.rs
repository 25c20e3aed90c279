//! Authorization, and the errors for missing permissions.

use crate::support::{CLIENT, Fixture, TOKEN, assert_error, header};
use reqwest::Method;

#[tokio::test]
async fn challenges_a_client_without_credentials() {
    let fixture = Fixture::new().await;
    for path in ["/v2/", "/v2/_catalog", "/v2/a/tags/list", "/v2/a/manifests/latest"] {
        let refused = fixture.anonymous(Method::GET, path).send().await.unwrap();
        assert_eq!(header(&refused, "www-authenticate"), "Basic realm=\"margrave\"");
        assert_eq!(header(&refused, "docker-distribution-api-version"), "registry/2.0");
        assert_error(refused, 401, "UNAUTHORIZED").await;
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let fixture = Fixture::new().await;
    let wrong = fixture.anonymous(Method::GET, "/v2/").basic_auth("token", Some("guess")).send().await.unwrap();
    assert_error(wrong, 401, "UNAUTHORIZED").await;
    let other = fixture.anonymous(Method::GET, "/v2/").basic_auth("press-08", Some(&fixture.pull_password));
    assert_error(other.send().await.unwrap(), 401, "UNAUTHORIZED").await;
}

#[tokio::test]
async fn an_operator_logs_in_by_password_or_bearer_token() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.get("/v2/").await.status(), 200);
    assert_eq!(fixture.get("/v2").await.status(), 200);
    let bearer = fixture.anonymous(Method::GET, "/v2/").bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(bearer.status(), 200);
    assert_eq!(bearer.text().await.unwrap(), "{}");
}

#[tokio::test]
async fn a_device_can_only_pull() {
    let fixture = Fixture::new().await;
    let (_, digest) = fixture.push_image("app", "1.0", b"layer").await;
    let device = |method: Method, path: &str| {
        fixture.anonymous(method, path).basic_auth(CLIENT, Some(&fixture.pull_password)).send()
    };
    assert_eq!(device(Method::GET, "/v2/").await.unwrap().status(), 200);
    assert_eq!(device(Method::GET, "/v2/app/manifests/1.0").await.unwrap().status(), 200);
    for (method, path) in [
        (Method::POST, "/v2/app/blobs/uploads/".to_owned()),
        (Method::PUT, "/v2/app/manifests/2.0".to_owned()),
        (Method::DELETE, format!("/v2/app/manifests/{digest}")),
        (Method::GET, "/v2/_catalog".to_owned()),
    ] {
        let refused = device(method, &path).await.unwrap();
        assert_eq!(assert_error(refused, 403, "DENIED").await, "devices only pull", "{path}");
    }
}

#[tokio::test]
async fn distinguishes_wrong_methods_and_paths() {
    let fixture = Fixture::new().await;
    for (method, path, allow) in [
        (Method::POST, "/v2/", "GET, HEAD"),
        (Method::POST, "/v2/_catalog", "GET"),
        (Method::PUT, "/v2/a/tags/list", "GET"),
        (Method::PATCH, "/v2/a/manifests/x", "GET, HEAD, PUT, DELETE"),
        (Method::GET, "/v2/a/blobs/uploads/", "POST"),
    ] {
        let refused = fixture.request(method, path).send().await.unwrap();
        assert_eq!(header(&refused, "allow"), allow, "{path}");
        assert_error(refused, 405, "UNSUPPORTED").await;
    }
    assert_error(fixture.get("/v2/a/b").await, 404, "NAME_UNKNOWN").await;
    assert_error(fixture.get("/v2/UPPER/tags/list").await, 400, "NAME_INVALID").await;
    assert_error(fixture.get("/v2/a/manifests/-x").await, 400, "TAG_INVALID").await;
    assert_error(fixture.get("/v2/a/manifests/sha256:x").await, 400, "DIGEST_INVALID").await;
    assert_error(fixture.get("/v2/a/blobs/md5:00").await, 400, "DIGEST_INVALID").await;
}

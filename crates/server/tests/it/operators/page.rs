//! The status page.

use crate::support::TestServer;
use crate::support::client::plain;

#[tokio::test]
async fn the_page_brings_everything_it_needs_and_nothing_from_elsewhere() {
    let server = TestServer::start().await;
    let response = plain().get(server.operators_url("/")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let headers = response.headers().clone();
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe") && !policy.contains("http"),
        "{policy}"
    );
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    let html = response.text().await.unwrap();
    assert!(!html.contains("style=") && !html.contains("onclick") && !html.contains("<style"), "nothing inline");
    assert!(!html.contains("https://") && !html.contains("//cdn"), "nothing from elsewhere");
    let mut assets = 0;
    for part in html.split("/assets/").skip(1) {
        let name = part.split('"').next().unwrap();
        let response = plain().get(server.operators_url(&format!("/assets/{name}"))).send().await.unwrap();
        assert_eq!(response.status(), 200, "{name}");
        assert!(response.headers().contains_key("content-security-policy"), "{name}");
        assets += 1;
    }
    assert!(assets >= 3);
}

#[tokio::test]
async fn the_script_asks_only_for_what_the_api_has() {
    let server = TestServer::start().await;
    let script = plain().get(server.operators_url("/assets/status.js")).send().await.unwrap().text().await.unwrap();
    assert!(!script.contains("innerHTML") && !script.contains("eval("), "foreign text must stay text");
    for path in ["/api/summary", "/api/devices?limit=200", "/api/deployments?limit=200&convergence=failed"] {
        let response = plain().get(server.operators_url(path)).bearer_auth(server.admin_token()).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
    }
}

//! Every error on the device listener is a problem document (requirements §11).

use crate::support::TestServer;
use crate::support::client::refused;
use crate::support::fleet::{capabilities, status};
use margo::digest::Digest;
use margo::ids::DeploymentId;
use margrave_core::model::ClientState;
use uuid::Uuid;

#[tokio::test]
async fn unaccepted_clients_get_403_on_every_endpoint() {
    // GEN-14, WID-05, DS-16, DS-21, ST-09, CAP-03, W-26
    let server = TestServer::start().await;
    server.create("waiting", ClientState::Pending).await;
    server.create("gone", ClientState::Accepted).await;
    server.set_state("gone", ClientState::Decommissioned).await;
    let (id, digest) = (DeploymentId(Uuid::new_v4()), Digest::of(b"x"));
    let mut details = Vec::new();
    for client in ["waiting", "gone", "unknown"] {
        let device = server.device(client);
        for (method, path, body) in [
            ("GET", "/api/v1/deployments".to_owned(), String::new()),
            ("GET", format!("/api/v1/deployments/{id}/{digest}"), String::new()),
            ("GET", format!("/api/v1/bundles/{digest}"), String::new()),
            ("POST", format!("/api/v1/deployments/{id}/status"), status(id, 1, "installed").to_string()),
            ("PUT", format!("/api/v1/capabilities/{client}"), capabilities(client)),
            ("DELETE", format!("/api/v1/capabilities/{client}"), String::new()),
            ("GET", "/anything/else".to_owned(), String::new()),
        ] {
            let response = device.request(method, &path).body(body).send().await.unwrap();
            details.push(refused(response, 403, Some("not-authorized")).await["detail"].clone());
        }
    }
    details.dedup();
    assert_eq!(details.len(), 1, "an unknown client learns nothing about others: {details:?}");
}

#[tokio::test]
async fn unknown_addresses_and_methods_get_problems() {
    // PRB-01
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    for path in ["/", "/api/v1", "/api/v2/deployments", "/api/v1/capabilities/", "/api/v1/onboarding"] {
        refused(press.get(path).await, 404, None).await;
    }
    for (method, path) in [
        ("POST", "/api/v1/deployments"),
        ("GET", "/api/v1/capabilities/press"),
        ("POST", "/api/v1/capabilities/press"),
        ("PUT", "/api/v1/bundles/x"),
        ("BREW", "/api/v1/deployments"),
    ] {
        let response = press.request(method, path).send().await.unwrap();
        assert!(response.headers().contains_key("allow"), "{method} {path}");
        refused(response, 405, None).await;
    }
}

#[tokio::test]
async fn keeps_a_valid_request_id_and_replaces_an_invalid_one() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let ask = async |id: &str| {
        let response = press.request("GET", "/api/v1/deployments").header("x-request-id", id).send().await.unwrap();
        response.headers()["x-request-id"].to_str().unwrap().to_owned()
    };
    assert_eq!(ask("poll-42.a_b").await, "poll-42.a_b");
    for odd in ["", "two words", "a\"b", &"x".repeat(65)] {
        let replaced = ask(odd).await;
        assert!(Uuid::try_parse(&replaced).is_ok(), "{odd} became {replaced}");
    }
    let plain = press.get("/api/v1/deployments").await;
    assert!(Uuid::try_parse(plain.headers()["x-request-id"].to_str().unwrap()).is_ok());
}

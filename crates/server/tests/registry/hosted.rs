//! The registry as part of a whole server: its listener, its certificate, its operators and its clients.

use crate::clients::{operator_with, run_in};
use crate::support::{TestClock, assert_error, image, wait_for};
use margo::ids::ClientId;
use margrave_core::model::{Actor, ClientState};
use margrave_server::config::{Config, Span};
use margrave_server::registry::Digest;
use margrave_server::run::{self, Running};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Server {
    running: Running,
    data: TempDir,
    http: reqwest::Client,
    pub(crate) token: String,
}

impl Server {
    pub(crate) async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: data.path().join("data"), ..Config::default() };
        let free = ([127, 0, 0, 1], 0).into();
        config.listeners.devices.address = free;
        config.listeners.trust.address = free;
        config.listeners.operators.address = free;
        config.limits.drain_timeout = Span(Duration::from_secs(1));
        change(&mut config);
        let running = run::start(config, Arc::new(TestClock::starting_now())).await.unwrap();
        let authority = running.state.identity.https_ca_pem();
        let authority = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([authority]).build().unwrap();
        let token = fs::read_to_string(running.state.config.data_dir.join(run::ADMIN_TOKEN_FILE)).unwrap();
        Self { running, data, http, token: token.trim().to_owned() }
    }

    pub(crate) fn address(&self) -> String {
        self.running.addresses.trust.unwrap().to_string()
    }

    pub(crate) fn v2(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("https://{}/v2/{path}", self.address()))
    }

    pub(crate) fn api(&self, method: Method, path: &str) -> RequestBuilder {
        let address = self.running.addresses.operators.unwrap();
        self.http.request(method, format!("http://{address}/api/{path}")).bearer_auth(&self.token)
    }

    pub(crate) async fn create(&self, id: &str, state: ClientState) {
        let actor = Actor { name: "test".to_owned(), comment: None, request_id: None };
        let id: ClientId = id.parse().unwrap();
        let server = &self.running.state;
        let (_, head) = server.store.client_create(&actor, &id, state, None, server.now()).await.unwrap();
        server.heads.put(head);
    }

    pub(crate) async fn password(&self, client: &str) -> String {
        let credentials = self.api(Method::GET, &format!("clients/{client}/pull-credentials")).send().await.unwrap();
        let credentials: Value = credentials.error_for_status().unwrap().json().await.unwrap();
        assert_eq!((&credentials["user"], &credentials["address"]), (&json!(client), &json!(self.address())));
        credentials["password"].as_str().unwrap().to_owned()
    }

    /// Pushes an image with plain HTTP calls, like an operator.
    pub(crate) async fn push(&self, repository: &str, tag: &str, layer: &[u8]) {
        for content in [b"{}".as_slice(), layer] {
            let path = format!("{repository}/blobs/uploads/?digest={}", Digest::sha256(content));
            let pushed = self.v2(Method::POST, &path).basic_auth("me", Some(&self.token)).body(content.to_vec());
            assert_eq!(pushed.send().await.unwrap().status(), 201);
        }
        let manifest = image(b"{}", layer);
        let put = self.v2(Method::PUT, &format!("{repository}/manifests/{tag}")).bearer_auth(&self.token);
        let put = put.header("content-type", crate::support::MANIFEST).body(manifest.to_string()).send().await.unwrap();
        assert_eq!(put.status(), 201);
    }

    /// A folder for the test next to the server's.
    pub(crate) fn scratch(&self) -> PathBuf {
        let path = self.data.path().join("scratch");
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Copies the authority to a folder where clients look for it.
    pub(crate) fn authority_for(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("ca.crt"), self.running.state.identity.https_ca_pem()).unwrap();
    }

    fn authority_file(&self) -> PathBuf {
        let path = self.data.path().join("ca.crt");
        fs::write(&path, self.running.state.identity.https_ca_pem()).unwrap();
        path
    }
}

#[tokio::test]
async fn operators_push_and_accepted_clients_pull_over_tls() {
    let server = Server::start(|_| {}).await;
    let refused = server.v2(Method::GET, "").send().await.unwrap();
    assert_error(refused, 401, "UNAUTHORIZED").await;
    server.push("images/press", "1.0", b"layer").await;

    server.create("press-07", ClientState::Accepted).await;
    let password = server.password("press-07").await;
    let pull = |user: &'static str, password: String| {
        server.v2(Method::GET, "images/press/manifests/1.0").basic_auth(user, Some(password)).send()
    };
    assert_eq!(pull("press-07", password.clone()).await.unwrap().status(), 200);
    assert_error(pull("press-08", password.clone()).await.unwrap(), 401, "UNAUTHORIZED").await;
    let push = server.v2(Method::POST, "images/press/blobs/uploads/").basic_auth("press-07", Some(&password));
    assert_error(push.send().await.unwrap(), 403, "DENIED").await;
    let catalog = server.v2(Method::GET, "_catalog").basic_auth("press-07", Some(&password)).send().await.unwrap();
    assert_error(catalog, 403, "DENIED").await;

    // Decommissioned: rejected at once, without a change of the credentials.
    let retired =
        server.api(Method::PATCH, "clients/press-07").json(&json!({ "state": "decommissioned" })).send().await;
    assert_eq!(retired.unwrap().status(), 200);
    assert_error(pull("press-07", password).await.unwrap(), 401, "UNAUTHORIZED").await;
    let credentials = server.api(Method::GET, "clients/press-07/pull-credentials").send().await.unwrap();
    assert_eq!(credentials.status(), 422);
    server.running.shutdown().await;
}

#[tokio::test]
async fn a_replaced_password_ends_the_old_one() {
    let server = Server::start(|_| {}).await;
    server.create("press-07", ClientState::Accepted).await;
    let old = server.password("press-07").await;
    let path = "clients/press-07/pull-credentials";
    let replaced = server.api(Method::POST, path).json(&json!({ "comment": "lost" })).send().await.unwrap();
    assert_eq!(replaced.status(), 201);
    let new = replaced.json::<Value>().await.unwrap()["password"].as_str().unwrap().to_owned();
    assert_ne!(old, new);
    assert_eq!(server.password("press-07").await, new);
    let login = |password: String| server.v2(Method::GET, "").basic_auth("press-07", Some(password)).send();
    assert_error(login(old).await.unwrap(), 401, "UNAUTHORIZED").await;
    assert_eq!(login(new).await.unwrap().status(), 200);
    let audit: Value = server.api(Method::GET, "audit").send().await.unwrap().json().await.unwrap();
    let newest = &audit["items"][0];
    assert_eq!((&newest["action"], &newest["comment"]), (&json!("client.pull-credentials"), &json!("lost")));
    server.running.shutdown().await;
}

#[tokio::test]
async fn a_revoked_token_cannot_push() {
    let server = Server::start(|_| {}).await;
    let token = server.api(Method::POST, "tokens").json(&json!({ "name": "builder" })).send().await.unwrap();
    let token: Value = token.error_for_status().unwrap().json().await.unwrap();
    let secret = token["secret"].as_str().unwrap();
    let begin = || server.v2(Method::POST, "a/blobs/uploads/").basic_auth("builder", Some(secret)).send();
    assert_eq!(begin().await.unwrap().status(), 202);
    let path = format!("tokens/{}", token["id"].as_str().unwrap());
    assert!(server.api(Method::DELETE, &path).send().await.unwrap().status().is_success());
    assert_error(begin().await.unwrap(), 401, "UNAUTHORIZED").await;
    server.running.shutdown().await;
}

#[tokio::test]
async fn shows_registry_usage_and_its_audit_records() {
    let server = Server::start(|config| {
        config.registry.bytes_max = Some(10_000);
        config.registry.unreferenced_blobs = Span(Duration::ZERO);
    })
    .await;
    server.push("b", "1.0", b"layer").await;
    server.push("a", "1.0", b"layer").await;
    let registry: Value = server.api(Method::GET, "registry").send().await.unwrap().json().await.unwrap();
    assert_eq!(registry["address"], server.address());
    assert_eq!(
        (&registry["blobs"], &registry["manifests"], &registry["tags"], &registry["bytesMax"]),
        (&json!(2), &json!(2), &json!(2), &json!(10_000))
    );
    let first: Value =
        server.api(Method::GET, "registry/repositories?limit=1").send().await.unwrap().json().await.unwrap();
    assert_eq!(first["items"][0]["name"], "a");
    let next = format!("registry/repositories?after={}", first["next"].as_str().unwrap());
    let rest: Value = server.api(Method::GET, &next).send().await.unwrap().json().await.unwrap();
    assert_eq!((&rest["items"][0]["name"], &rest["items"][0]["tags"]), (&json!("b"), &json!(1)));

    let delete = format!("a/manifests/{}", Digest::sha256(image(b"{}", b"layer").to_string().as_bytes()));
    let deleted = server.v2(Method::DELETE, &delete).bearer_auth(&server.token).send().await.unwrap();
    assert_eq!(deleted.status(), 202);
    let collected = server.api(Method::POST, "registry/garbage-collection").send().await.unwrap();
    let collected: Value = collected.error_for_status().unwrap().json().await.unwrap();
    assert_eq!(collected, json!({ "blobs": 2, "bytes": 0, "uploads": 0, "repositories": 1 }));
    let audit: Value = server.api(Method::GET, "audit").send().await.unwrap().json().await.unwrap();
    let actions: Vec<(&str, &str)> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .take(3)
        .map(|record| (record["action"].as_str().unwrap(), record["subject"].as_str().unwrap()))
        .collect();
    assert_eq!(
        actions,
        [("registry.delete", "repository/a"), ("registry.push", "repository/a"), ("registry.push", "repository/b")]
    );
    server.running.shutdown().await;
}

#[tokio::test]
async fn a_disabled_registry_returns_404() {
    let server = Server::start(|config| config.registry.enabled = false).await;
    assert_eq!(server.v2(Method::GET, "").send().await.unwrap().status(), 404);
    assert_eq!(server.api(Method::GET, "registry").send().await.unwrap().status(), 404);
    assert!(!server.data.path().join("data/registry").exists());
    server.running.shutdown().await;
}

#[tokio::test]
async fn clients_trust_the_certificate_by_its_authority() {
    let server = Server::start(|_| {}).await;
    let home = server.data.path();
    let authority = server.authority_file();
    let authority = authority.to_str().unwrap();
    let address = server.address();
    fs::write(home.join("file"), "content").unwrap();
    let reference = format!("{address}/apps/press:1.0");
    let login = ["login", &address, "-u", "me", "--password-stdin", "--ca-file", authority];
    run_in(home, "oras", &login, &server.token).await.ok();
    run_in(home, "oras", &["push", "--ca-file", authority, &reference, "file:text/plain"], "").await.ok();
    run_in(home, "oras", &["pull", "--ca-file", authority, "-o", "pulled", &reference], "").await.ok();
    assert_eq!(fs::read_to_string(home.join("pulled/file")).unwrap(), "content");

    // skopeo treats every `.crt` of a folder as an authority.
    server.push("images/press", "1.0", b"layer").await;
    let image = format!("docker://{address}/images/press:1.0");
    let folder = home.to_str().unwrap();
    let credentials = operator_with(&server.token);
    let inspect = ["inspect", "--raw", "--cert-dir", folder, "--creds", &credentials, &image];
    run_in(home, "skopeo", &inspect, "").await.ok();
    let refused = run_in(home, "skopeo", &["inspect", "--raw", "--creds", &credentials, &image], "").await.refused();
    assert!(refused.contains("certificate"), "{refused}");
    server.running.shutdown().await;
}

#[tokio::test]
async fn keeps_pushed_content_after_a_server_restart() {
    let server = Server::start(|_| {}).await;
    server.push("images/press", "1.0", b"layer").await;
    let Server { running, data, http: _, token } = server;
    let config = Config::clone(&running.state.config);
    running.shutdown().await;
    let lock = data.path().join("data/registry/lock");
    wait_for("the registry is closed", || fs::File::open(&lock).unwrap().try_lock().is_ok()).await;
    let running = run::start(config, Arc::new(TestClock::starting_now())).await.unwrap();
    let authority = reqwest::Certificate::from_pem(running.state.identity.https_ca_pem().as_bytes()).unwrap();
    let http = reqwest::Client::builder().tls_certs_only([authority]).build().unwrap();
    let server = Server { running, data, http, token };
    let got = server.v2(Method::GET, "images/press/manifests/1.0").bearer_auth(&server.token).send().await.unwrap();
    assert_eq!(got.text().await.unwrap(), image(b"{}", b"layer").to_string());
    server.running.shutdown().await;
}

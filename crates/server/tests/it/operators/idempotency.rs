//! A repeated call returns the first response, also for concurrent calls and after a crash of the server.

use super::{Kind, all_deployments, api, create, on, press};
use crate::support::client::plain;
use crate::support::{TestClock, TestServer, config, eventually, pki};
use margrave_api::client::{ApiClient, ClientOptions, PageQuery};
use margrave_server::run;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

/// The part of a response that a repeat must reproduce.
#[derive(Debug, PartialEq)]
struct Answer {
    status: StatusCode,
    location: Option<String>,
    etag: Option<String>,
    content_type: Option<String>,
    body: Value,
}

/// The response, and whether it was a repeat.
async fn ask(request: RequestBuilder) -> (Answer, bool) {
    let response = request.send().await.unwrap();
    let text = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let replay = text("idempotent-replay").as_deref() == Some("true");
    let (location, etag, content_type) = (text("location"), text("etag"), text("content-type"));
    let status = response.status();
    (Answer { status, location, etag, content_type, body: response.json().await.unwrap_or_default() }, replay)
}

fn request(server: &TestServer, method: Method, path: &str, key: &str, body: &Value) -> RequestBuilder {
    let request = plain().request(method, server.operators_url(path)).bearer_auth(server.admin_token());
    request.header("idempotency-key", key).json(body)
}

/// The same request twice: the second response is the first one.
async fn twice(server: &TestServer, method: Method, path: &str, body: &Value) -> Answer {
    let key = format!("{method}-{path}");
    let (first, replay) = ask(request(server, method.clone(), path, &key, body)).await;
    assert!(first.status.is_success() && !replay, "{method} {path}: {first:?}");
    let (second, replay) = ask(request(server, method.clone(), path, &key, body)).await;
    assert!(replay, "{method} {path}: {second:?}");
    assert_eq!(first, second, "{method} {path}");
    first
}

#[tokio::test]
async fn refuses_an_undeclared_method_before_it_looks_at_the_key() {
    let server = TestServer::start().await;
    twice(&server, Method::POST, "/api/tokens", &json!({ "name": "robots" })).await;
    for (method, path) in
        [(Method::TRACE, "/api/tokens"), (Method::DELETE, "/api/whoami"), (Method::PUT, "/api/tokens")]
    {
        let (answer, _) = ask(request(&server, method.clone(), path, "POST-/api/tokens", &json!({}))).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}: {answer:?}");
    }
}

#[tokio::test]
async fn every_creating_call_repeats_the_first_response() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    super::packages::upload(&api, "1.0.0").await;
    super::packages::upload(&api, "2.0.0").await;

    let token = twice(&server, Method::POST, "/api/tokens", &json!({ "name": "robots" })).await;
    assert!(token.body["secret"].as_str().is_some_and(|secret| secret.starts_with("mgv_")), "{token:?}");
    assert_eq!(api.tokens().await.unwrap().items.len(), 2, "the admin's and one more");
    let client = twice(&server, Method::POST, "/api/clients", &json!({ "id": "robot", "note": "arm" })).await;
    assert_eq!((client.etag.as_deref(), &client.body["manifestVersion"]), (Some("\"1\""), &json!(1)));
    let enrollment = twice(&server, Method::POST, "/api/clients/robot/enrollment-token", &json!({})).await;
    assert!(enrollment.body["token"].is_string());
    let csr = json!({ "csr": pki::csr(&pki::key()) });
    twice(&server, Method::POST, "/api/clients/robot/svid", &csr).await;
    let before = api.pull_credentials("press").await.unwrap();
    let pull = twice(&server, Method::POST, "/api/clients/press/pull-credentials", &json!({})).await;
    let now = api.pull_credentials("press").await.unwrap();
    assert_ne!(before.password, now.password);
    assert_eq!(pull.body["password"], now.password, "replaced once");
    twice(&server, Method::POST, "/api/registry/garbage-collection", &json!({})).await;
    twice(&server, Method::PUT, "/api/groups/nord", &json!({ "selector": "site=nord" })).await;
    twice(&server, Method::PATCH, "/api/clients/robot", &json!({ "state": "decommissioned" })).await;

    let body = serde_json::to_value(create("1.0.0", on(&["press"]))).unwrap();
    let made = twice(&server, Method::POST, "/api/deployments", &body).await;
    let id = made.body["id"].as_str().unwrap();
    assert_eq!((made.status.as_u16(), made.location), (202, Some(format!("/api/rollouts/{id}"))));
    super::finished(&api, &api.rollout(id).await.unwrap()).await;
    let deployment = all_deployments(&api).await.remove(0).id;
    let upgrade = json!({ "version": "2.0.0" });
    let rollout = twice(&server, Method::PATCH, &format!("/api/deployments/{deployment}"), &upgrade).await;
    super::finished(&api, &api.rollout(rollout.body["id"].as_str().unwrap()).await.unwrap()).await;
    let removal = twice(&server, Method::DELETE, &format!("/api/deployments/{deployment}"), &json!({})).await;
    super::finished(&api, &api.rollout(removal.body["id"].as_str().unwrap()).await.unwrap()).await;
    assert_eq!(api.rollouts(&PageQuery::default()).await.unwrap().items.len(), 3);
}

#[tokio::test]
async fn a_repeated_upload_returns_the_first_response() {
    let server = TestServer::start().await;
    let archive = super::packages::pack(&super::packages::files("1.0.0"));
    let upload = || {
        let request = plain().post(server.operators_url("/api/applications")).bearer_auth(server.admin_token());
        request.header("idempotency-key", "upload").header("content-type", "application/gzip").body(archive.clone())
    };
    let (first, replay) = ask(upload()).await;
    assert_eq!((first.status.as_u16(), &first.body["added"], replay), (201, &json!(true), false), "{first:?}");
    assert_eq!(ask(upload()).await, (first, true));
}

#[tokio::test]
async fn keys_survive_a_restart_and_expire() {
    let server = TestServer::start().await;
    let body = json!({ "name": "robots" });
    let first = twice(&server, Method::POST, "/api/tokens", &body).await;
    let database = server.state().config.data_dir.join("margrave.db");
    let server = server.restart().await;
    let (again, replay) = ask(request(&server, Method::POST, "/api/tokens", "POST-/api/tokens", &body)).await;
    assert_eq!((again, replay), (first, true));
    // The disk has nothing usable: neither the new secret nor the key.
    let secret = api(&server).whoami().await.map(|_| server.admin_token()).unwrap();
    for file in [database.clone(), database.with_extension("db-wal")] {
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert!(!bytes.windows(4).any(|part| part == b"mgv_"), "{} holds a token", file.display());
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()));
    }
    server.clock.advance(Duration::from_hours(24));
    let (late, replay) = ask(request(&server, Method::POST, "/api/tokens", "POST-/api/tokens", &body)).await;
    assert!(late.status == 201 && !replay, "{late:?}");
}

#[tokio::test]
async fn a_key_identifies_one_request_of_one_token() {
    let server = TestServer::start().await;
    let admin = api(&server);
    let send = |path: &str, body: Value| request(&server, Method::POST, path, "k", &body);
    assert_eq!(ask(send("/api/clients", json!({ "id": "one" }))).await.0.status, 201);
    for (path, body) in [
        ("/api/clients", json!({ "id": "two" })),
        ("/api/clients?comment=x", json!({ "id": "one" })),
        ("/api/clients/one/enrollment-token", json!({ "id": "one" })),
    ] {
        let (answer, _) = ask(send(path, body)).await;
        assert_eq!((answer.status.as_u16(), &answer.body["code"]), (422, &json!("key-reused")), "{path}: {answer:?}");
    }
    assert_eq!(admin.clients(&PageQuery::default()).await.unwrap().items.len(), 1);

    let named = margrave_api::access::CreateToken { name: "b".to_owned(), valid_for_seconds: None, comment: None };
    let other = admin.create_token(&named).await.unwrap().secret.unwrap();
    let post = plain().post(server.operators_url("/api/clients")).bearer_auth(other).header("idempotency-key", "k");
    let (answer, replay) = ask(post.json(&json!({ "id": "two" }))).await;
    assert!(answer.status == 201 && !replay, "keys of two tokens are independent: {answer:?}");
}

#[tokio::test]
async fn does_not_store_rejections() {
    let server = TestServer::start().await;
    let send = |body: Value| request(&server, Method::POST, "/api/clients/robot/svid", "k", &body);
    let csr = json!({ "csr": pki::csr(&pki::key()) });
    let (refused, _) = ask(send(csr.clone())).await;
    assert_eq!(refused.status, 404);
    server.create("robot", margrave_core::model::ClientState::Accepted).await;
    let (issued, replay) = ask(send(csr)).await;
    assert!(issued.status == 201 && !replay, "{issued:?}");
    let key = request(&server, Method::POST, "/api/clients?dryRun=true", "d", &json!({ "id": "x" }));
    assert!(!ask(key).await.1);
}

#[tokio::test]
async fn every_documented_post_honors_the_key() {
    let server = TestServer::start().await;
    let document = api(&server).openapi().await.unwrap();
    let mut posts = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if item.get("post").is_none() {
            continue;
        }
        posts += 1;
        let address = path.replace(['{', '}'], "");
        for key in ["x".repeat(256).as_str(), "with space", ""] {
            let (answer, _) = ask(request(&server, Method::POST, &address, key, &json!({}))).await;
            assert_eq!(answer.status, 400, "{path}: {answer:?}");
            assert!(answer.body["detail"].as_str().unwrap().contains("Idempotency-Key"), "{path}: {answer:?}");
        }
    }
    assert!(posts >= 10, "{posts}");
}

#[tokio::test]
async fn concurrent_equal_calls_have_one_effect() {
    let server = TestServer::start().await;
    press(&server, "press", &Kind::default()).await;
    super::packages::upload(&api(&server), "1.0.0").await;
    let body = serde_json::to_value(create("1.0.0", on(&["press"]))).unwrap();
    let calls: Vec<_> = (0..8)
        .map(|_| tokio::spawn(ask(request(&server, Method::POST, "/api/deployments", "together", &body))))
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    assert_eq!(answers.iter().filter(|(_, replay)| !replay).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|(answer, _)| answer == &answers[0].0 && answer.status == 202), "{answers:?}");
    assert_eq!(api(&server).rollouts(&PageQuery::default()).await.unwrap().items.len(), 1);
}

/// The folder for a process that serves until it is killed.
const FOLDER: &str = "MARGRAVE_TEST_SERVER_FOLDER";
/// This test, as the test program names it.
const CHILD: &str = "operators::idempotency::a_server_runs_in_its_own_process";
const ROUNDS: u64 = 10;

/// A server in its own process; killed when dropped.
struct Process(Child);

impl Process {
    async fn start(folder: &TempDir) -> (Self, String, String) {
        let data = config(folder).data_dir;
        let _ = std::fs::remove_file(data.join(run::ADDRESSES_FILE));
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--nocapture"])
            .env(FOLDER, folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Self(child);
        let address = eventually("the process listens", async || {
            let text = std::fs::read_to_string(data.join(run::ADDRESSES_FILE)).ok()?;
            let addresses: Value = serde_json::from_str(&text).ok()?;
            let address = addresses["operators"].as_str()?.to_owned();
            tokio::net::TcpStream::connect(&address).await.ok().map(|_| address)
        })
        .await;
        let token = std::fs::read_to_string(data.join(run::ADMIN_TOKEN_FILE)).unwrap().trim().to_owned();
        (process, address, token)
    }

    /// SIGKILL: the process cannot clean up.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already killed if the test succeeded.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn serve_until_killed(folder: &Path) {
    let data = tempfile::TempDir::with_prefix_in("unused", folder).unwrap();
    let mut settings = config(&data);
    settings.data_dir = folder.join("data");
    let running = run::start(settings, TestClock::new()).await.unwrap();
    running.wait().await;
}

#[tokio::test]
async fn a_server_runs_in_its_own_process() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return serve_until_killed(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (process, address, token) = Process::start(&folder).await;
    let api = ApiClient::new(&ClientOptions::new(format!("http://{address}")).with_token(token)).unwrap();
    assert_eq!(api.whoami().await.unwrap().actor, "token:admin");
    process.kill();
}

/// Killed as soon as the effect is visible, or slightly before: the response is never read. The repeat finds one effect
/// and gets the response of the first call.
#[tokio::test]
async fn a_server_killed_before_its_response_repeats_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, mut address, mut token) = Process::start(&folder).await;
    let mut made = 0;
    for round in 0..ROUNDS {
        let body = json!({ "name": format!("robots-{round}") }).to_string();
        let head = format!(
            "POST /api/tokens HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             idempotency-key: round-{round}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        if round % 2 == 0 {
            let api = ApiClient::new(&ClientOptions::new(format!("http://{address}")).with_token(&token)).unwrap();
            eventually("the effect is visible", async || {
                let tokens = api.tokens().await.unwrap().items;
                tokens.iter().any(|known| known.name == format!("robots-{round}")).then_some(())
            })
            .await;
        } else {
            // Earlier or later, depending on the round.
            for _ in 0..round {
                let _ = plain().get(format!("http://{address}/healthz")).send().await;
            }
        }
        process.kill();
        (process, address, token) = Process::start(&folder).await;

        let api = ApiClient::new(&ClientOptions::new(format!("http://{address}")).with_token(&token)).unwrap();
        let there = |tokens: &[margrave_api::access::Token]| {
            tokens
                .iter()
                .filter(|known| known.name == format!("robots-{round}"))
                .map(|known| known.id.clone())
                .collect()
        };
        let before: Vec<String> = there(&api.tokens().await.unwrap().items);
        let repeat = || {
            let request = plain().post(format!("http://{address}/api/tokens")).bearer_auth(&token);
            let request = request.header("idempotency-key", format!("round-{round}"));
            request.header("content-type", "application/json").body(body.clone())
        };
        let (answer, replay) = ask(repeat()).await;
        assert_eq!((answer.status.as_u16(), replay), (201, !before.is_empty()), "round {round}: {answer:?}");
        assert_eq!(ask(repeat()).await, (answer, true));
        let after: Vec<String> = there(&api.tokens().await.unwrap().items);
        assert_eq!(after.len(), 1, "round {round}");
        let secret = ask(repeat()).await.0.body["secret"].as_str().unwrap().to_owned();
        let new = ApiClient::new(&ClientOptions::new(format!("http://{address}")).with_token(secret)).unwrap();
        assert_eq!(new.whoami().await.unwrap().actor, format!("token:robots-{round}"), "the stored secret works");
        made += usize::from(!before.is_empty());
    }
    assert!(made >= 5, "{made} of the calls had their effect before the kill");
    process.kill();
}

/// Forwards bytes to the server; the first connection breaks when the response arrives.
async fn losing_the_first_response(server: &TestServer) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, to) = (listener.local_addr().unwrap(), server.operators_url("").replace("http://", ""));
    tokio::spawn(async move {
        for number in 0.. {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = tokio::net::TcpStream::connect(&to).await.unwrap();
            tokio::spawn(async move {
                if number > 0 {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    return;
                }
                let ((mut from_near, _), (mut from_far, mut to_far)) = (near.split(), far.split());
                let mut byte = [0];
                tokio::select! {
                    _ = tokio::io::copy(&mut from_near, &mut to_far) => {}
                    _ = tokio::io::AsyncReadExt::read(&mut from_far, &mut byte) => {}
                }
            });
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn the_typed_client_retries_lost_calls_without_a_second_effect() {
    let server = TestServer::start().await;
    let url = losing_the_first_response(&server).await;
    let lossy = ApiClient::new(&ClientOptions::new(url).with_token(server.admin_token())).unwrap();
    let named = margrave_api::access::CreateToken { name: "robots".to_owned(), valid_for_seconds: None, comment: None };
    let token = lossy.create_token(&named).await.unwrap();
    let listed = api(&server).tokens().await.unwrap().items;
    assert_eq!(listed.iter().filter(|known| known.name == "robots").count(), 1, "{listed:?}");
    let robots = ClientOptions::new(server.operators_url("")).with_token(token.secret.unwrap());
    assert_eq!(ApiClient::new(&robots).unwrap().whoami().await.unwrap().actor, "token:robots");
}

//! Desired state: manifest, single YAMLs, bundles (requirements §5).

use crate::support::client::{Device, refused};
use crate::support::held::Held;
use crate::support::pki;
use crate::support::{TestServer, client_id};
use margo::digest::Digest;
use margo::manifest::StateManifest;
use margrave_core::time::Clock as _;
use serde_json::Value;
use sqlx::Connection as _;
use std::time::Duration;

const MANIFEST: &str = "/api/v1/deployments";
const MANIFEST_TYPE: &str = "application/vnd.margo.manifest.v1+json";
const BUNDLE_TYPE: &str = "application/vnd.margo.bundle.v1+tar+gzip";
const IMMUTABLE: &str = "private, max-age=31536000, immutable";

#[tokio::test]
async fn a_new_client_gets_version_one_without_deployments() {
    // DS-01, DS-02, DS-12, DS-14, DS-15, W-06
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let response = press.get(MANIFEST).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], MANIFEST_TYPE);
    assert_eq!(response.headers()["cache-control"], "private");
    let etag = response.headers()["etag"].to_str().unwrap().to_owned();
    let body = response.bytes().await.unwrap();
    assert_eq!(etag, format!("\"{}\"", Digest::of(&body)));
    let manifest: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(manifest["manifestVersion"], 1);
    assert_eq!(manifest["bundle"], Value::Null);
    assert!(manifest.as_object().unwrap().contains_key("bundle"));
    assert_eq!(manifest["deployments"], serde_json::json!([]));
}

#[tokio::test]
async fn an_unchanged_manifest_is_not_sent_again() {
    // DS-13, DS-16, W-09
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let etag = press.get(MANIFEST).await.headers()["etag"].to_str().unwrap().to_owned();
    let bare = etag.trim_matches('"').to_owned();
    for value in [etag.clone(), bare, format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
        let response = press.request("GET", MANIFEST).header("if-none-match", &value).send().await.unwrap();
        assert_eq!(response.status(), 304, "{value}");
        assert_eq!(response.headers()["etag"], etag.as_str());
        assert_eq!(response.headers()["cache-control"], "private");
        assert!(!response.headers().contains_key("content-type"));
        assert_eq!(response.bytes().await.unwrap().len(), 0);
    }
    let other = press.request("GET", MANIFEST).header("if-none-match", "\"sha256:00\"").send().await.unwrap();
    assert_eq!(other.status(), 200);
}

#[tokio::test]
async fn only_foreign_media_types_are_not_acceptable() {
    // DS-12, W-09
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let ask = async |accept: &str| press.request("GET", MANIFEST).header("accept", accept).send().await.unwrap();
    for accept in [MANIFEST_TYPE, "*/*", "application/*", "text/html;q=0.5, */*;q=0.1"] {
        let response = ask(accept).await;
        assert_eq!(response.status(), 200, "{accept}");
        assert_eq!(response.headers()["content-type"], MANIFEST_TYPE, "{accept}");
    }
    // Without the header, which the client above always sends.
    let bare = Held::open(&server, "press").await.ask("").await;
    assert!(
        bare.starts_with("http/1.1 200 ") && bare.contains(&format!("content-type: {MANIFEST_TYPE}\r\n")),
        "{bare}"
    );
    refused(ask("text/html").await, 406, Some("server-cannot-generate-response")).await;
    refused(ask("application/json").await, 406, Some("server-cannot-generate-response")).await;
}

#[tokio::test]
async fn a_deployment_reaches_its_client_as_manifest_yaml_and_bundle() {
    // DS-03, DS-04, DS-05, DS-17, DS-19, DS-20, DS-21, W-03
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    let body = press.get(MANIFEST).await.bytes().await.unwrap();
    let manifest = StateManifest::read(&body).unwrap().document;
    assert_eq!(manifest.manifest_version, 2);
    let [reference] = &manifest.deployments[..] else { panic!("{manifest:?}") };
    assert_eq!(reference.deployment_id, id);
    assert_eq!(reference.url, format!("/api/v1/deployments/{id}/{}", reference.digest));

    let yaml = press.get(&reference.url).await;
    assert_eq!(yaml.status(), 200);
    assert_eq!(yaml.headers()["content-type"], "application/yaml");
    assert_eq!(yaml.headers()["etag"], reference.digest.etag().as_str());
    assert_eq!(yaml.headers()["cache-control"], IMMUTABLE);
    let yaml = yaml.bytes().await.unwrap();
    assert_eq!(Digest::of(&yaml), reference.digest);
    assert!(String::from_utf8_lossy(&yaml).contains(&id.to_string()));

    let bundle_reference = manifest.bundle.unwrap();
    assert_eq!(bundle_reference.url, format!("/api/v1/bundles/{}", bundle_reference.digest));
    let bundle = press.get(&bundle_reference.url).await;
    assert_eq!(bundle.status(), 200);
    assert_eq!(bundle.headers()["content-type"], BUNDLE_TYPE);
    assert_eq!(bundle.headers()["etag"], bundle_reference.digest.etag().as_str());
    assert_eq!(bundle.headers()["cache-control"], IMMUTABLE);
    assert_eq!(Digest::of(&bundle.bytes().await.unwrap()), bundle_reference.digest);

    let again = press
        .request("GET", &bundle_reference.url)
        .header("if-none-match", bundle_reference.digest.etag())
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(again.headers()["cache-control"], IMMUTABLE);
    assert_eq!(again.bytes().await.unwrap().len(), 0);
}

#[tokio::test]
async fn returns_404_for_unknown_artifacts() {
    // DS-17, PRB-02
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    let nothing = Digest::of(b"nothing");
    for path in [
        format!("{MANIFEST}/{id}/{nothing}"),
        format!("{MANIFEST}/{id}/sha512:00"),
        format!("{MANIFEST}/{id}/{}", nothing.hex()),
        format!("{MANIFEST}/not-a-uuid/{nothing}"),
        format!("{MANIFEST}/{id}/%FF"),
    ] {
        refused(press.get(&path).await, 404, Some("deployment-not-found")).await;
    }
    for path in [format!("/api/v1/bundles/{nothing}"), "/api/v1/bundles/latest".to_owned()] {
        refused(press.get(&path).await, 404, Some("invalid-bundle")).await;
    }
}

#[tokio::test]
async fn hides_artifacts_of_other_clients() {
    // GEN-09, GEN-10, invariant 7
    let server = TestServer::start().await;
    let (press, lathe) = (server.accepted("press").await, server.accepted("lathe").await);
    server.deploy("press").await;
    let (_, manifest) = server.manifest("press").await;
    let yaml = &manifest.deployments[0].url;
    let bundle = manifest.bundle.unwrap();
    assert_eq!(press.get(yaml).await.status(), 200);
    refused(lathe.get(yaml).await, 404, Some("deployment-not-found")).await;
    refused(lathe.get(&bundle.url).await, 404, Some("invalid-bundle")).await;
    // Not even by its ETag.
    let guess = lathe.request("GET", &bundle.url).header("if-none-match", "*").send().await.unwrap();
    refused(guess, 404, Some("invalid-bundle")).await;
    let own: Value = lathe.get(MANIFEST).await.json().await.unwrap();
    assert_eq!(own["deployments"], serde_json::json!([]));
}

#[tokio::test]
async fn ignores_forwarded_certificates() {
    // TLS-04, GEN-09
    let server = TestServer::start().await;
    server.accepted("press").await;
    let lathe = server.accepted("lathe").await;
    server.deploy("press").await;
    let (_, manifest) = server.manifest("press").await;
    let issued = server.state().identity.issue(&client_id("press"), &pki::csr(&pki::key()), None).unwrap();
    let base64: String = issued.certificate_pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let as_press = async |device: &Device, path: &str| {
        let request = device.request("GET", path).header("client-cert", format!(":{base64}:"));
        let request = request.header("client-cert-chain", format!(":{base64}:"));
        let spiffe_id = "URI=spiffe://margrave.internal/margo/wfm/main/client/press";
        request.header("x-forwarded-client-cert", spiffe_id).send().await
    };
    let own: Value = as_press(&lathe, MANIFEST).await.unwrap().json().await.unwrap();
    assert_eq!(own["deployments"], serde_json::json!([]), "the manifest of the caller");
    let foreign = as_press(&lathe, &manifest.deployments[0].url).await.unwrap();
    refused(foreign, 404, Some("deployment-not-found")).await;
    let stranger = as_press(&server.device("stranger"), MANIFEST).await.unwrap();
    refused(stranger, 403, Some("not-authorized")).await;
    assert!(as_press(&Device::anonymous(&server), MANIFEST).await.is_err(), "no handshake without a certificate");
}

#[tokio::test]
async fn versions_only_grow_and_replaced_documents_can_still_be_fetched() {
    // DS-01, invariant 2
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    let (first, manifest) = server.manifest("press").await;
    let old = manifest.deployments[0].url.clone();
    let etag = press.get(MANIFEST).await.headers()["etag"].to_str().unwrap().to_owned();
    server.reconfigure("press", id, "good morning").await;
    let changed = press.request("GET", MANIFEST).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!(changed.status(), 200);
    let (second, manifest) = server.manifest("press").await;
    assert!(second > first);
    assert_ne!(manifest.deployments[0].url, old);
    assert_eq!(press.get(&old).await.status(), 200, "a client may be in the middle of fetching it");

    let server = server.restart().await;
    let press = server.device("press");
    let again: Value = press.get(MANIFEST).await.json().await.unwrap();
    assert_eq!(again["manifestVersion"], second);
    server.remove("press", id).await;
    let removed: Value = press.get(MANIFEST).await.json().await.unwrap();
    assert_eq!(removed["manifestVersion"], second + 1);
    assert_eq!(removed["bundle"], Value::Null, "DS-02");
}

#[tokio::test]
async fn an_unchanged_poll_does_not_wait_for_a_writer() {
    // Invariant 3: the 304 comes from memory, policy included.
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let etag = press.get(MANIFEST).await.headers()["etag"].to_str().unwrap().to_owned();
    let path = server.state().config.data_dir.join("margrave.db");
    let mut writer = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    sqlx::query("BEGIN EXCLUSIVE").execute(&mut writer).await.unwrap();
    sqlx::query("UPDATE clients SET revision = revision").execute(&mut writer).await.unwrap();
    let poll = press.request("GET", MANIFEST).header("if-none-match", &etag).send();
    let response = tokio::time::timeout(Duration::from_secs(2), poll).await.expect("answered at once").unwrap();
    assert_eq!(response.status(), 304);
    sqlx::query("ROLLBACK").execute(&mut writer).await.unwrap();
    let seen = server.state().heads.last_seen(&client_id("press"));
    assert_eq!(seen, Some(server.clock.now()), "the poll was recorded in memory");
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let full = press.get(MANIFEST).await;
    let head = press.request("HEAD", MANIFEST).send().await.unwrap();
    assert_eq!(head.status(), 200);
    for name in ["etag", "content-type", "content-length", "cache-control"] {
        assert_eq!(head.headers()[name], full.headers()[name], "{name}");
    }
    assert_eq!(head.bytes().await.unwrap().len(), 0);
}

#[tokio::test]
async fn serves_the_api_under_a_path_prefix() {
    // W-01, W-03
    let prefix = "/v1alpha2/margo";
    let server = TestServer::start_with(|config| config.listeners.devices.path_prefix = prefix.to_owned()).await;
    let press = server.accepted("press").await;
    server.deploy("press").await;
    assert_eq!(press.get(MANIFEST).await.status(), 200);
    let (_, manifest) = server.manifest("press").await;
    assert!(manifest.deployments[0].url.starts_with("/api/v1/"), "manifest URLs never contain the prefix");
    assert_eq!(press.get(&manifest.deployments[0].url).await.status(), 200);
    let bare = press.at(&format!("https://{}", server.devices()));
    refused(bare.get(MANIFEST).await, 404, None).await;
    assert!(server.state().urls.devices.ends_with(prefix));
}

#[tokio::test]
async fn seen_times_are_in_the_store_after_a_stop() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    server.clock.advance(Duration::from_secs(90));
    press.get(MANIFEST).await;
    let at = server.clock.now();
    let server = server.restart().await;
    let client = server.state().store.client_get(&client_id("press")).await.unwrap().unwrap();
    assert_eq!(client.last_seen_at, Some(at));
}

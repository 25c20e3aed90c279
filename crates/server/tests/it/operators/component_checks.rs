//! Whether registries have the components of an added package: reported, never a reason to reject it.

use super::packages::{ID, description, pack};
use super::pages::Browser;
use super::{api, problem};
use crate::support::TestServer;
use bytes::Bytes;
use margrave_api::applications::ApplicationVersion;
use margrave_api::client::ApiClient;
use margrave_oci::{Connection, Credentials, Registry};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

async fn asking() -> TestServer {
    TestServer::start_with(|config| config.catalog.check_registries = true).await
}

/// A package with its two components at these locations.
async fn add(api: &ApiClient, compose: &str, chart: &str) -> ApplicationVersion {
    let text = description("1.0.0")
        .replace("registry.example/vision-chart", chart)
        .replace("registry.example/vision", compose);
    let icon = ("resources/icon.svg".to_owned(), b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec());
    let archive = pack(&[("margo.yaml".to_owned(), text.into_bytes()), icon]);
    api.upload_application(archive, None, None).await.unwrap().application
}

/// A local registry with the listed content; records the requests it got.
async fn registry(has: &[&str]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let has: Vec<String> = has.iter().map(|path| (*path).to_owned()).collect();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 4096];
            let read = stream.read(&mut bytes).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let line = head.lines().next().unwrap_or_default().to_owned();
            let status = if has.iter().any(|path| line.contains(path.as_str())) { "200 OK" } else { "404 Not Found" };
            seen.lock().unwrap().push(line);
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (host, asked)
}

#[tokio::test]
async fn reports_a_missing_component_and_still_adds_the_package() {
    let server = asking().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let (host, asked) = registry(&["/v2/line/vision/manifests/1.0.0"]).await;
    let added = add(&api, &format!("{host}/line/vision"), &format!("{host}/line/chart")).await;
    let expected = format!("component `vision`: registry `{host}` does not have `line/chart:1.0.0` (not found)");
    assert_eq!(added.warnings, std::slice::from_ref(&expected));
    let text_found = added.components_checked.unwrap();
    assert_eq!((text_found.artifacts, text_found.missing, text_found.unknown), (2, 1, 0));
    assert!(asked.lock().unwrap().iter().all(|line| line.starts_with("HEAD ")), "nothing is fetched: {asked:?}");

    // It stays reported, on the page with advice.
    assert_eq!(api.application_version(ID, "1.0.0").await.unwrap().warnings, [expected]);
    let page = browser.get(&format!("/catalog/{ID}")).await.text().await.unwrap();
    assert!(page.contains("data-reason=\"unavailable-components\""), "{page}");
    assert!(page.contains("line/chart:1.0.0") && page.contains("margrave app push FOLDER"), "{page}");
    assert_eq!(page.matches("line/chart:1.0.0</code> (not found)").count(), 1, "once: {page}");
    let again = [("key", "k"), ("action", "ask"), ("version", "1.0.0")];
    let answer = browser.post(&format!("/catalog/{ID}"), &again).await;
    assert_eq!(answer.status(), 303);
    assert_eq!(asked.lock().unwrap().len(), 4, "both were requested once more");
}

#[tokio::test]
async fn reports_an_unreachable_registry_quickly() {
    let server = asking().await;
    let api = api(&server);
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let started = Instant::now();
    let added = add(&api, &format!("{closed}/line/vision"), "registry.example/chart").await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let refused = format!(
        "component `vision`: registry `{closed}` could not be checked for `line/vision:1.0.0` (connection refused)"
    );
    let example = "component `vision`: registry `registry.example` does not exist (example domain)".to_owned();
    assert_eq!(added.warnings, [refused, example]);
    let text_found = added.components_checked.unwrap();
    assert_eq!((text_found.missing, text_found.unknown), (1, 1));
}

#[tokio::test]
async fn does_not_wait_long_for_an_unresponsive_registry() {
    let server = asking().await;
    let api = api(&server);
    // Accepts the connection and never responds.
    let offline = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = offline.local_addr().unwrap();
    let started = Instant::now();
    let added = add(&api, &format!("{host}/line/vision"), &format!("{host}/line/chart")).await;
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert!(added.warnings.iter().all(|warning| warning.contains("(no response within 4 s)")), "{:?}", added.warnings);
    assert_eq!(added.warnings.len(), 2);
}

#[tokio::test]
async fn a_component_pushed_to_the_embedded_registry_resolves_the_problem() {
    let server = asking().await;
    let api = api(&server);
    let own = api.registry().await.unwrap().address;
    let added = add(&api, &format!("{own}/line/vision"), "registry.example/chart").await;
    assert_eq!(added.warnings.len(), 2, "{:?}", added.warnings);
    assert!(added.warnings[0].contains("does not have `line/vision:1.0.0`"), "{:?}", added.warnings);

    let credentials = Credentials::new(Some("margrave".to_owned()), Some(server.admin_token())).unwrap();
    let ca = Some(api.trust().await.unwrap().https_ca);
    let mut registry = Registry::new(&own, &Connection { plain_http: false, ca, credentials }).unwrap();
    let config = Bytes::from_static(b"{}");
    let digest = margo::Digest::of(&config);
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": { "mediaType": "application/vnd.oci.empty.v1+json", "digest": digest.to_string(), "size": 2 }, "layers": [],
    });
    // Under its own name, and as a copy for devices that use this registry as a mirror.
    for repository in ["line/vision", "mirror/registry.example/chart"] {
        registry.push_blob(repository, &digest, &config, |_| {}).await.unwrap();
        let bytes = Bytes::from(manifest.to_string());
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        registry.push_manifest(repository, "1.0.0", media_type, &bytes).await.unwrap();
    }
    let now = api.application_version(ID, "1.0.0").await.unwrap();
    assert_eq!((now.warnings.len(), now.components_checked.unwrap().missing), (0, 0));
    let asked = api.check_application_components(ID, "1.0.0").await.unwrap();
    assert!(asked.warnings.is_empty() && asked.components_checked.is_some(), "{asked:?}");
}

#[tokio::test]
async fn checks_nothing_if_switched_off() {
    let server = TestServer::start_with(|config| config.catalog.check_registries = false).await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let (host, asked) = registry(&[]).await;
    let added = add(&api, &format!("{host}/line/vision"), &format!("{host}/line/chart")).await;
    assert!(added.warnings.is_empty() && added.components_checked.is_none(), "{added:?}");
    assert!(asked.lock().unwrap().is_empty());
    let refused = problem(api.check_application_components(ID, "1.0.0").await);
    assert!(refused.detail.contains("catalog.check_registries"), "{refused:?}");
    let page = browser.get(&format!("/catalog/{ID}")).await.text().await.unwrap();
    assert!(!page.contains("data-action=\"check\""), "{page}");
}

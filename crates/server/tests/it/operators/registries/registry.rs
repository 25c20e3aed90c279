//! A real registry on a free port with its own folder.

use crate::support::eventually;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode, header};
use margo::Digest;
use margo::package::{OCI_MANIFEST_MEDIA_TYPE, Package};
use reqwest::{Certificate, Client};
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) const USER: &str = "fleet";
pub(crate) const PASSWORD: &str = "registry-pass-1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Open,
    Password,
    /// HTTPS from its own CA, and a password.
    Tls,
}

pub(crate) struct Registry {
    process: Child,
    folder: TempDir,
    port: u16,
    access: Access,
    ca: Option<String>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Registry {
    pub(crate) async fn start(access: Access) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut config = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            folder.path().join("data").display()
        );
        let ca = (access == Access::Tls).then(|| {
            let (ca, certificate, key) = certificates();
            std::fs::write(folder.path().join("tls.crt"), certificate).unwrap();
            std::fs::write(folder.path().join("tls.key"), key).unwrap();
            let path = |name: &str| folder.path().join(name).display().to_string();
            write!(config, "  tls:\n    certificate: {}\n    key: {}\n", path("tls.crt"), path("tls.key")).unwrap();
            ca
        });
        if access != Access::Open {
            let file = folder.path().join("htpasswd");
            let output = Command::new("htpasswd").args(["-Bbn", USER, PASSWORD]).output().unwrap();
            std::fs::write(&file, output.stdout).unwrap();
            write!(config, "auth:\n  htpasswd:\n    realm: test\n    path: {}\n", file.display()).unwrap();
        }
        let path = folder.path().join("config.yml");
        std::fs::write(&path, config).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("docker-registry is installed by `make setup`");
        let registry = Self { process, folder, port, access, ca };
        let http = registry.http();
        eventually("the registry responds", async || http.get(registry.url("")).send().await.ok()).await;
        registry
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.access != Access::Tls
    }

    pub(crate) fn is_open(&self) -> bool {
        self.access == Access::Open
    }

    pub(crate) fn ca(&self) -> Option<String> {
        self.ca.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}://{}/v2/{path}", if self.is_plain() { "http" } else { "https" }, self.host())
    }

    fn http(&self) -> Client {
        let certificates = self.ca.iter().map(|pem| Certificate::from_pem(pem.as_bytes()).unwrap());
        Client::builder().no_proxy().tls_certs_only(certificates).build().unwrap()
    }

    /// Pushes as a supplier's tool would (REG-03); returns the digest of the manifest.
    pub(crate) async fn push(&self, repository: &str, tag: &str, package: &Package) -> Digest {
        let (manifest, blobs) = margo::package::to_oci(package);
        let http = self.http();
        for (digest, bytes) in blobs {
            let started =
                http.post(self.url(&format!("{repository}/blobs/uploads/"))).basic_auth(USER, Some(PASSWORD)).send();
            let started = started.await.unwrap();
            assert_eq!(started.status(), 202);
            let mut location = started.url().join(started.headers()["location"].to_str().unwrap()).unwrap();
            location.query_pairs_mut().append_pair("digest", digest.as_str());
            let put = http.put(location).basic_auth(USER, Some(PASSWORD)).body(bytes).send().await.unwrap();
            assert_eq!(put.status(), 201);
        }
        let put = http
            .put(self.url(&format!("{repository}/manifests/{tag}")))
            .basic_auth(USER, Some(PASSWORD))
            .header("content-type", OCI_MANIFEST_MEDIA_TYPE)
            .body(manifest.clone())
            .send()
            .await
            .unwrap();
        assert_eq!(put.status(), 201, "{}", put.text().await.unwrap());
        Digest::of(&manifest)
    }

    /// Changes a byte in the stored blob that begins like this.
    pub(crate) fn tamper(&self, beginning: &[u8]) {
        let mut changed = 0;
        for path in files(&self.folder.path().join("data")) {
            let mut bytes = std::fs::read(&path).unwrap();
            if bytes.starts_with(beginning) {
                let last = bytes.len() - 2;
                bytes[last] = bytes[last].wrapping_add(1);
                std::fs::write(&path, bytes).unwrap();
                changed += 1;
            }
        }
        assert_eq!(changed, 1);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// CA, certificate for 127.0.0.1, key: all PEM.
fn certificates() -> (String, String, String) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    (ca_pem, leaf.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
}

#[derive(Clone)]
struct Front {
    upstream: String,
    host: String,
    http: Client,
}

const TOKEN: &str = "a-token-for-pulling";

/// A proxy in front of the registry that requires a token, which it issues for the password.
pub(crate) async fn token_front(registry: &Registry) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let front = Front { upstream: registry.url(""), host: host.clone(), http: registry.http() };
    let router = axum::Router::new().route("/token", get(hand_out)).fallback(forward).with_state(front);
    tokio::spawn(async move { axum::serve(listener, router).await });
    host
}

async fn hand_out(headers: HeaderMap, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let basic = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let known = headers.get(header::AUTHORIZATION).is_some_and(|value| value == basic.as_str());
    let asked = query.contains("scope=repository%3Apress-vision%3Apull") && query.contains("service=front");
    if known && asked {
        axum::Json(serde_json::json!({ "token": TOKEN })).into_response()
    } else {
        StatusCode::UNAUTHORIZED.into_response()
    }
}

async fn forward(State(front): State<Front>, headers: HeaderMap, request: Request) -> Response {
    if headers.get(header::AUTHORIZATION).is_none_or(|value| *value != format!("Bearer {TOKEN}")) {
        let challenge = format!(
            "Bearer realm=\"http://{}/token\",service=\"front\",scope=\"repository:press-vision:pull\"",
            front.host
        );
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let path = request.uri().path().trim_start_matches("/v2/").to_owned();
    let mut upstream = front.http.get(format!("{}{path}", front.upstream));
    if let Some(accept) = headers.get(header::ACCEPT) {
        upstream = upstream.header(header::ACCEPT, accept.clone());
    }
    let answer = upstream.send().await.unwrap();
    (answer.status(), answer.bytes().await.unwrap()).into_response()
}

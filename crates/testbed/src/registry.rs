//! A real registry: Debian's `docker-registry`, with TLS and passwords, on a loopback or bridge address.

use crate::authority::Authority;
use crate::tools::{tool, wait_for};
use bytes::Bytes;
use margo::package::PackageFile;
use margrave_oci::build::{Artifact, MANIFEST_MEDIA_TYPE};
use margrave_oci::{Connection, Credentials, Registry as Client};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Stops the registry when its standard input closes.
const KEEPER: &str = r#""$@" & registry=$!; read -r _; kill $registry; wait $registry"#;

#[derive(Debug, Clone, Copy)]
pub struct User {
    pub name: &'static str,
    pub password: &'static str,
}

/// The token service, and the certificates to verify its tokens.
#[derive(Debug, Clone)]
pub struct Tokens {
    pub realm: String,
    pub issuer: String,
    /// PEM of the certificate tokens are signed by.
    pub certificate: String,
    /// PEM of the authority of the service itself.
    pub ca: String,
}

pub struct Registry {
    folder: TempDir,
    address: String,
    user: Option<User>,
    /// The current password.
    password: Mutex<String>,
    tokens: Option<Tokens>,
    ca: String,
    running: Mutex<Option<Child>>,
}

impl Registry {
    /// On an address of this machine; with a user, only this user has access.
    pub async fn start(ip: &str, user: Option<User>) -> Self {
        Self::start_with(ip, user, None).await
    }

    /// A registry that requires tokens of a token service.
    pub async fn start_with_tokens(ip: &str, user: User, tokens: Tokens) -> Self {
        Self::start_with(ip, Some(user), Some(tokens)).await
    }

    async fn start_with(ip: &str, user: Option<User>, tokens: Option<Tokens>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Free now, and the registry binds it a moment later.
        let port = TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().port();
        let address = format!("{ip}:{port}");
        let mut ca = certificates(&folder, ip);
        if let Some(tokens) = &tokens {
            ca.push_str(&tokens.ca);
            fs::write(folder.path().join("ca.pem"), &ca).unwrap();
            fs::write(folder.path().join("tokens.pem"), &tokens.certificate).unwrap();
        }
        let password = Mutex::new(user.map(|user| user.password.to_owned()).unwrap_or_default());
        let registry = Self { folder, address, user, password, tokens, ca, running: Mutex::new(None) };
        if let Some(user) = user.filter(|_| registry.tokens.is_none()) {
            registry.set_password(user.name, user.password);
        }
        registry.begin().await;
        registry
    }

    /// As references write it.
    pub fn host(&self) -> &str {
        &self.address
    }

    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub fn repository(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address)
    }

    /// Applies to all clients, including the pushes of the test.
    pub fn set_password(&self, name: &str, password: &str) {
        let output = Command::new(tool("htpasswd")).args(["-Bbn", name, password]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        fs::write(self.folder.path().join("htpasswd"), output.stdout).unwrap();
        password.clone_into(&mut self.password.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub async fn begin(&self) {
        let path = |name: &str| self.folder.path().join(name);
        let mut config = serde_json::json!({
            "version": "0.1",
            "storage": { "filesystem": { "rootdirectory": path("data") }, "delete": { "enabled": true } },
            "http": { "addr": self.address, "tls": { "certificate": path("server.pem"), "key": path("server.key") } },
            "log": { "level": "warn" },
        });
        if let Some(tokens) = &self.tokens {
            config["auth"] = serde_json::json!({ "token": {
                "realm": tokens.realm, "service": "plant", "issuer": tokens.issuer, "rootcertbundle": path("tokens.pem"),
            } });
        } else if self.user.is_some() {
            config["auth"] = serde_json::json!({ "htpasswd": { "realm": "plant", "path": path("htpasswd") } });
        }
        fs::write(path("config.yml"), config.to_string()).unwrap();
        let log = File::create(path("log")).unwrap();
        let child = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(tool("docker-registry"))
            .arg("serve")
            .arg(path("config.yml"))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        wait_for("the registry answers", || TcpStream::connect(&self.address).is_ok()).await;
    }

    /// Stops the registry; its content stays.
    pub fn stop(&self) {
        let child = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }

    /// The size of each blob response of a repository since the last start.
    pub fn blobs_sent(&self, repository: &str) -> Vec<u64> {
        let path = format!("GET /v2/{repository}/blobs/");
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        // Who, when, "request", status and bytes, then more in quotes.
        let asked = log.lines().filter_map(|line| line.split_once('"')?.1.split_once('"'));
        let asked = asked.filter(|(request, _)| request.starts_with(&path));
        asked.filter_map(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok()).collect()
    }

    fn client(&self) -> Client {
        let password = self.password.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let user = self.user.map(|user| user.name.to_owned());
        let credentials = Credentials::new(user.clone(), user.map(|_| password)).unwrap();
        let connection = Connection { plain_http: false, ca: Some(self.ca.clone()), credentials };
        Client::new(&self.address, &connection).unwrap()
    }

    /// Pushes blobs and a manifest under a tag.
    pub async fn push(&self, repository: &str, tag: &str, media_type: &str, manifest: &[u8], blobs: &[Vec<u8>]) {
        let mut client = self.client();
        for blob in blobs {
            let digest = margo::Digest::of(blob);
            client.push_blob(repository, &digest, &Bytes::from(blob.clone()), |_| {}).await.unwrap();
        }
        let manifest = Bytes::from(manifest.to_vec());
        client.push_manifest(repository, tag, media_type, &manifest).await.unwrap();
    }

    /// Pushes a compose component whose archive was made by hand.
    pub async fn push_compose_layer(&self, repository: &str, version: &str, layer: &[u8]) {
        use margrave_oci::build::{COMPOSE_ARTIFACT_TYPE, COMPOSE_LAYER_TYPE, MANIFEST_MEDIA_TYPE};
        let part = |media_type: &str, bytes: &[u8]| {
            let digest = margo::Digest::of(bytes);
            serde_json::json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
        };
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": MANIFEST_MEDIA_TYPE, "artifactType": COMPOSE_ARTIFACT_TYPE,
            "config": part("application/vnd.oci.empty.v1+json", b"{}"),
            "layers": [part(COMPOSE_LAYER_TYPE, layer)],
        });
        let blobs = [b"{}".to_vec(), layer.to_vec()];
        self.push(repository, version, MANIFEST_MEDIA_TYPE, manifest.to_string().as_bytes(), &blobs).await;
    }

    /// Pushes a compose component made of these files (COMP-01).
    pub async fn push_compose(&self, repository: &str, version: &str, files: &[(&str, &str)]) {
        let file =
            |(path, text): &(&str, &str)| PackageFile { path: (*path).to_owned(), bytes: text.as_bytes().to_vec() };
        let files: Vec<_> = files.iter().map(file).collect();
        let artifact = margrave_oci::build::compose(&files, "component", version).unwrap();
        self.push_artifact(repository, &artifact).await;
    }

    /// Pushes a component as it was built, under its own tag.
    pub async fn push_artifact(&self, repository: &str, artifact: &Artifact) {
        let blobs: Vec<Vec<u8>> = artifact.blobs.iter().map(|(_, bytes)| bytes.to_vec()).collect();
        self.push(repository, &artifact.tag, MANIFEST_MEDIA_TYPE, &artifact.manifest, &blobs).await;
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An authority of its own, and a certificate for the address; gives the authority's PEM.
fn certificates(folder: &TempDir, ip: &str) -> String {
    let ca = Authority::new("registry authority");
    let leaf = ca.server(&[ip], &[]);
    for (name, text) in [("ca.pem", &ca.pem), ("server.pem", &leaf.certificate), ("server.key", &leaf.key)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    ca.pem
}

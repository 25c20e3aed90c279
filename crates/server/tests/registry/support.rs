//! A registry on its own port, and small helpers.

use futures_util::future::BoxFuture;
use margrave_core::time::{Clock, Timestamp};
use margrave_server::registry::pull::PullSecret;
use margrave_server::registry::{
    Access, Action, Credentials, Digest, Registry, RegistryAuth, RegistryOptions, RepositoryName, router,
};
use reqwest::{Method, RequestBuilder, Response};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::task::AbortOnDropHandle;

pub(crate) const TOKEN: &str = "mgv_operator";
pub(crate) const CLIENT: &str = "press-07";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Upper bound for anything that should happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A clock moved by the test.
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    /// For servers whose certificates other programs check against the real time.
    #[expect(clippy::disallowed_methods, reason = "the clients of the test use the real time")]
    pub(crate) fn starting_now() -> Self {
        Self(AtomicI64::new(jiff::Timestamp::now().as_microsecond()))
    }
    pub(crate) fn advance(&self, duration: Duration) {
        self.0.fetch_add(i64::try_from(duration.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Operators have full access with their token, devices pull with derived credentials.
struct TestAuth(PullSecret);

impl RegistryAuth for TestAuth {
    fn authorize<'a>(
        &'a self,
        credentials: Option<&'a Credentials>,
        action: Action,
        _: Option<&'a RepositoryName>,
    ) -> BoxFuture<'a, Access> {
        let access = match credentials {
            Some(Credentials::Bearer(token)) if token.expose_secret() == TOKEN => {
                Access::Granted("operator".to_owned())
            }
            Some(Credentials::Basic { password, .. }) if password.expose_secret() == TOKEN => {
                Access::Granted("operator".to_owned())
            }
            Some(Credentials::Basic { user, password }) if user == CLIENT && self.0.verify(user, 1, password) => {
                if action == Action::Pull {
                    Access::Granted(user.clone())
                } else {
                    Access::Denied("devices only pull".to_owned())
                }
            }
            _ => Access::Unknown,
        };
        Box::pin(std::future::ready(access))
    }
}

pub(crate) struct Fixture {
    folder: TempDir,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) registry: Registry,
    pub(crate) address: SocketAddr,
    /// The password of [`CLIENT`].
    pub(crate) pull_password: String,
    server: AbortOnDropHandle<()>,
    client: reqwest::Client,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut RegistryOptions)) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), change).await
    }

    async fn in_folder(folder: TempDir, change: impl FnOnce(&mut RegistryOptions)) -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000_000)));
        let (registry, pull_password, app) = open(folder.path(), Arc::clone(&clock) as Arc<dyn Clock>, change).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = AbortOnDropHandle::new(tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }));
        Self { folder, clock, registry, address, pull_password, server, client: reqwest::Client::new() }
    }

    /// Ends everything as a kill would, and opens the same folder again.
    pub(crate) async fn restart(self) -> Self {
        let Self { folder, registry, server, .. } = self;
        server.abort();
        // Aborted: the error says so.
        let _ = server.await;
        drop(registry);
        let lock = folder.path().join("registry/lock");
        // Connections end shortly after their server; the lock is free when the last one is closed.
        wait_for("the folder is free", || {
            let file = std::fs::File::open(&lock).unwrap();
            file.try_lock().is_ok()
        })
        .await;
        Self::in_folder(folder, |_| {}).await
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("registry")
    }

    /// A folder for the test next to the registry's.
    pub(crate) fn scratch(&self) -> PathBuf {
        let path = self.folder.path().join("scratch");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.anonymous(method, path).basic_auth("token", Some(TOKEN))
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    pub(crate) async fn head(&self, path: &str) -> Response {
        self.request(Method::HEAD, path).send().await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        self.request(Method::DELETE, path).send().await.unwrap()
    }

    /// Starts an upload; returns its location.
    pub(crate) async fn begin(&self, repository: &str) -> String {
        let started = self.request(Method::POST, &format!("/v2/{repository}/blobs/uploads/")).send().await.unwrap();
        assert_eq!(started.status(), 202);
        header(&started, "location")
    }

    pub(crate) async fn push_blob(&self, repository: &str, content: &[u8]) -> Digest {
        let digest = Digest::sha256(content);
        let path = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        let pushed = self.request(Method::POST, &path).body(content.to_vec()).send().await.unwrap();
        assert_eq!(pushed.status(), 201, "{}", pushed.text().await.unwrap());
        digest
    }

    pub(crate) async fn put_manifest(&self, repository: &str, reference: &str, manifest: &Value) -> Response {
        let media_type = manifest["mediaType"].as_str().unwrap().to_owned();
        let put = self.request(Method::PUT, &format!("/v2/{repository}/manifests/{reference}"));
        put.header("content-type", media_type).body(manifest.to_string()).send().await.unwrap()
    }

    /// Pushes an image with one layer; returns its manifest and the manifest's digest.
    pub(crate) async fn push_image(&self, repository: &str, tag: &str, layer: &[u8]) -> (Value, Digest) {
        self.push_blob(repository, b"{}").await;
        self.push_blob(repository, layer).await;
        let manifest = image(b"{}", layer);
        let put = self.put_manifest(repository, tag, &manifest).await;
        assert_eq!(put.status(), 201, "{}", put.text().await.unwrap());
        let digest = Digest::sha256(manifest.to_string().as_bytes());
        (manifest, digest)
    }
}

/// A registry in a folder, the password of [`CLIENT`], and its router.
pub(crate) async fn open(
    folder: &Path,
    clock: Arc<dyn Clock>,
    change: impl FnOnce(&mut RegistryOptions),
) -> (Registry, String, axum::Router) {
    let mut options = RegistryOptions::new(folder.join("registry"));
    change(&mut options);
    let registry = Registry::open(options, clock).await.unwrap();
    let secret = PullSecret::open(&folder.join("pull-secret")).unwrap();
    let password = secret.password(CLIENT, 1).expose_secret().to_owned();
    let app = router(registry.clone(), Arc::new(TestAuth(secret)));
    (registry, password, app)
}

pub(crate) fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::sha256(content).to_string(), "size": content.len() })
}

pub(crate) fn image(config: &[u8], layer: &[u8]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    })
}

pub(crate) fn header(response: &Response, name: &str) -> String {
    let value = response.headers().get(name).unwrap_or_else(|| panic!("no header `{name}` in {response:?}"));
    value.to_str().unwrap().to_owned()
}

/// Checks status, code and form of an error; returns its message.
pub(crate) async fn assert_error(response: Response, status: u16, code: &str) -> String {
    let actual = response.status();
    assert_eq!(header(&response, "content-type"), "application/json");
    let body: Value = response.json().await.unwrap();
    assert_eq!((actual.as_u16(), body["errors"][0]["code"].as_str()), (status, Some(code)), "{body}");
    let message = body["errors"][0]["message"].as_str().unwrap();
    assert!(!message.is_empty());
    message.to_owned()
}

/// Waits for something that happens soon.
pub(crate) async fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "timed out: {what}");
}

//! A supplier's registry with an application: a package, a chart, a compose archive, and the images they name.

use crate::operators::registries::registry::{Access, PASSWORD, Registry, USER};
use bytes::Bytes;
use margo::Digest;
use margo::package::PackageFile;
use margrave_oci::build::{self, Artifact};
use margrave_oci::{Connection, Credentials};
use serde_json::{Value, json};

pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";

pub(super) struct Supplier {
    pub(super) registry: Registry,
    /// The registry name in the application's references; differs from the registry's own with a proxy in between.
    pub(super) host: String,
}

/// Content that is unique per name.
pub(super) fn layer(name: &str, bytes: usize) -> Vec<u8> {
    name.bytes().cycle().take(bytes).collect()
}

fn file(path: &str, text: String) -> PackageFile {
    PackageFile { path: path.to_owned(), bytes: text.into_bytes() }
}

impl Supplier {
    pub(super) async fn start(access: Access) -> Self {
        let registry = Registry::start(access).await;
        let host = registry.host();
        let supplier = Self { registry, host };
        supplier.publish().await;
        supplier
    }

    /// The same, known under another address.
    pub(super) async fn behind(registry: Registry, host: String) -> Self {
        let supplier = Self { registry, host };
        supplier.publish().await;
        supplier
    }

    pub(super) fn client(&self) -> margrave_oci::Registry {
        let credentials = Credentials::new(Some(USER.to_owned()), Some(PASSWORD.to_owned())).unwrap();
        let connection = Connection { plain_http: self.registry.is_plain(), ca: self.registry.ca(), credentials };
        margrave_oci::Registry::new(&self.registry.host(), &connection).unwrap()
    }

    async fn publish(&self) {
        let host = &self.host;
        self.image("images/web", "1.0", &layer("web", 200_000)).await;
        self.index("images/side", "2.0").await;
        let compose = format!("services:\n  web:\n    image: {host}/images/web:${{WEB_TAG:-9.9}}\n");
        let compose = build::compose(&[file("compose.yaml", compose)], "press", "1.0.0").unwrap();
        self.artifact("compose/press", &compose).await;
        let values = format!("image:\n  repository: {host}/images/side\n  tag: '2.0'\n");
        let chart = "apiVersion: v2\nname: press\nversion: 1.0.0\n".to_owned();
        let chart = build::chart(&[file("Chart.yaml", chart), file("values.yaml", values)]).unwrap();
        self.artifact("charts/press", &chart).await;
        let (package, _) = build::package(&[file("margo.yaml", self.description())]).unwrap();
        self.artifact("apps/press", &package).await;
    }

    fn description(&self) -> String {
        let host = &self.host;
        format!(
            "apiVersion: v1
id: press
metadata:
  name: Press
  version: 1.0.0
  catalog:
    organization:
      - name: Example
deploymentProfiles:
  - type: compose
    id: small
    components:
      - name: press-stack
        properties: {{ repository: 'oci://{host}/compose/press', revision: 1.0.0 }}
  - type: helm
    id: cluster
    components:
      - name: press
        properties: {{ repository: 'oci://{host}/charts/press', revision: 1.0.0 }}
parameters:
  tag:
    value: '1.0'
    targets:
      - pointer: WEB_TAG
        components: [press-stack]
"
        )
    }

    async fn artifact(&self, repository: &str, artifact: &Artifact) {
        let mut client = self.client();
        for (digest, bytes) in &artifact.blobs {
            client.push_blob(repository, digest, bytes, |_| {}).await.unwrap();
        }
        client.push_manifest(repository, &artifact.tag, OCI_MANIFEST, &artifact.manifest).await.unwrap();
    }

    async fn blob(&self, repository: &str, content: &[u8]) -> Value {
        let digest = Digest::of(content);
        self.client().push_blob(repository, &digest, &Bytes::copy_from_slice(content), |_| {}).await.unwrap();
        json!({ "digest": digest, "size": content.len() })
    }

    /// An image with one layer; returns its descriptor.
    pub(super) async fn image(&self, repository: &str, reference: &str, content: &[u8]) -> Value {
        let mut config = self.blob(repository, b"{}").await;
        config["mediaType"] = json!("application/vnd.oci.image.config.v1+json");
        let mut layer = self.blob(repository, content).await;
        layer["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar");
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": [layer] }).to_string();
        let digest = Digest::of(manifest.as_bytes());
        let size = manifest.len();
        let reference = if reference.is_empty() { digest.to_string() } else { reference.to_owned() };
        self.client().push_manifest(repository, &reference, OCI_MANIFEST, &manifest.into()).await.unwrap();
        json!({ "mediaType": OCI_MANIFEST, "digest": digest, "size": size })
    }

    /// An image for two platforms.
    async fn index(&self, repository: &str, tag: &str) {
        let mut children = Vec::new();
        for architecture in ["amd64", "arm64"] {
            let mut child = self.image(repository, "", &layer(architecture, 50_000)).await;
            child["platform"] = json!({ "os": "linux", "architecture": architecture });
            children.push(child);
        }
        let index = json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": children }).to_string();
        self.client().push_manifest(repository, tag, OCI_INDEX, &index.into()).await.unwrap();
    }
}

//! Builds OCI artifacts from the files of a folder: application packages, Helm charts, compose archives, plain
//! Kubernetes manifests; and container images from archives.
//!
//! The same files give the same bytes and so the same digest, wherever and whenever they are built. Nothing here reads
//! from disk. All problems are reported at once.

mod chart;
mod compose;
mod folder;
mod image;
mod manifests;
mod package;

pub use chart::{chart, chart_version};
pub use compose::compose;
pub use image::{IMAGE_BYTES_MAX, image};
pub use manifests::{MANIFESTS_FOLDER, manifest_objects, manifests};
pub use package::{package, package_with_outline};

pub(crate) fn chart_metadata(files: &[PackageFile]) -> Option<chart::Metadata> {
    chart::metadata(files, &mut Problems::new())
}

use bytes::Bytes;
use margo::Digest;
use margo::package::PackageFile;
use serde_json::{Map, Value, json};

pub use crate::manifest::OCI_MANIFEST as MANIFEST_MEDIA_TYPE;
pub const COMPOSE_ARTIFACT_TYPE: &str = "application/vnd.org.margo.component.compose+json";
pub const COMPOSE_LAYER_TYPE: &str = "application/vnd.org.margo.component.compose.tar+gzip";
pub const HELM_CONFIG_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
pub const HELM_CHART_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Our own type: the standard leaves the content of `custom` components to their suppliers and runtimes (CR-01).
pub const MANIFESTS_ARTIFACT_TYPE: &str = "application/vnd.org.margrave.component.manifests+json";
pub const MANIFESTS_LAYER_TYPE: &str = "application/vnd.org.margrave.component.manifests.tar+gzip";
const EMPTY_CONFIG_TYPE: &str = "application/vnd.oci.empty.v1+json";
const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const DESCRIPTION: &str = "org.opencontainers.image.description";

/// The most files of a chart or compose archive; they are text, a few dozen.
pub const FILES_MAX: usize = 4_000;
/// Bytes of a chart or compose archive before it is packed; Helm itself rejects larger charts.
pub const BYTES_MAX: u64 = 64 << 20;

/// The kind of artifact in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    Package,
    Chart,
    Compose,
    /// Plain Kubernetes manifests.
    Manifests,
    /// A container image; never recognized in a folder, it comes as an archive.
    Image,
}

impl ArtifactKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Chart => "chart",
            Self::Compose => "compose",
            Self::Manifests => "manifests",
            Self::Image => "image",
        }
    }
}

/// An artifact, ready to be pushed.
#[derive(Debug, Clone)]
pub struct Artifact {
    pub kind: ArtifactKind,
    /// Application id, chart name, or name of the compose project or folder.
    pub name: String,
    /// Its version as written in a tag, `_` for `+`.
    pub tag: String,
    pub manifest: Bytes,
    pub blobs: Vec<(Digest, Bytes)>,
    pub warnings: Vec<String>,
}

impl Artifact {
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }
    pub fn bytes(&self) -> u64 {
        self.blobs.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

/// Problems of a folder; never empty.
pub type Problems = Vec<String>;

/// The kind of the files of a folder, by its main file.
pub fn recognize(files: &[String]) -> Result<ArtifactKind, String> {
    let has = |name: &str| files.iter().any(|file| file == name);
    let compose = has("compose.yaml") || has("compose.yml");
    let yaml = |file: &&String| !file.contains('/') && (has_extension(file, "yaml") || has_extension(file, "yml"));
    match (has("Chart.yaml"), compose) {
        (true, true) => {
            Err("it has both Chart.yaml and compose.yaml; keep a chart and a compose archive in separate folders"
                .to_owned())
        }
        (true, false) => Ok(ArtifactKind::Chart),
        // A package and its compose file need separate folders, since both would be descriptions.
        (false, true) if has("margo.yaml") || has("margo.yml") => {
            Err("it has both margo.yaml and compose.yaml; move the compose file to components/NAME/".to_owned())
        }
        (false, true) => Ok(ArtifactKind::Compose),
        (false, false) if files.iter().any(|file| manifests::is_manifest(file)) => {
            if has("margo.yaml") || has("margo.yml") {
                return Err("it has both margo.yaml and manifests/; move the manifests to components/NAME/".to_owned());
            }
            Ok(ArtifactKind::Manifests)
        }
        (false, false) if has("docker-compose.yaml") || has("docker-compose.yml") => {
            Err("it has a docker-compose file; the standard allows only `compose.yaml`, so rename it".to_owned())
        }
        (false, false) if files.iter().any(|file| yaml(&file)) => Ok(ArtifactKind::Package),
        (false, false) => {
            Err("it has neither margo.yaml (a package), Chart.yaml (a chart), compose.yaml (a compose archive) nor \
                 manifests/ with YAML files (Kubernetes manifests)"
                .to_owned())
        }
    }
}

pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).is_some_and(|(_, end)| end == extension)
}

/// Limits for charts and compose archives.
fn check_size(files: &[PackageFile], problems: &mut Problems) {
    let bytes: u64 = files.iter().map(|file| file.bytes.len() as u64).sum();
    if files.len() > FILES_MAX {
        problems.push(format!("{} files exceed the limit of {FILES_MAX}", files.len()));
    }
    if bytes > BYTES_MAX {
        problems.push(format!("{bytes} bytes exceed the limit of {BYTES_MAX}"));
    }
}

fn yaml(file: &PackageFile) -> Result<Value, String> {
    serde_saphyr::from_slice(&file.bytes).map_err(|error| {
        let text = error.to_string();
        format!("{}: {}", file.path, text.lines().next().unwrap_or("cannot be read"))
    })
}

fn descriptor(media_type: &str, bytes: &[u8], annotations: Map<String, Value>) -> Value {
    let mut descriptor = json!({ "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len() });
    if !annotations.is_empty() {
        descriptor["annotations"] = Value::Object(annotations);
    }
    descriptor
}

#[cfg(test)]
mod tests;

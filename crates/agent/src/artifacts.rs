//! The content store: component artifacts, fetched from registries, verified, stored by digest, garbage-collected.
//!
//! `artifacts/blobs/<sha256>` holds layers as received; `<sha256>.part` is a download that resumes where it stopped.
//! An index says which component needs which blob: the one being fetched, the running one, and the previous one.
//! All others are removed. Stored content for a document is used without contacting the registry, so that a device
//! without network starts what it ran.

mod download;
pub(crate) mod images;
mod index;
pub mod registries;
mod unpack;

pub use registries::Registries;
pub use unpack::{Unpacked, unpack_component, unpack_folder};

use crate::config::{ArtifactsConfig, RegistryConfig};
use crate::disk::{DiskError, create_private_dir, read_record, write_record};
use crate::preload::Preload;
use download::RateLimit;
use index::{Index, Slot};
use margo::deployment::ApplicationDeployment;
use margo::description::ComponentSource;
use margo::{DeploymentId, Digest};
use margrave_oci::{Kind, OciError, Reference, Tag};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use url::Url;

const INDEX: &str = "index.json";
const BLOBS: &str = "blobs";
/// Layers of components are text: compose files, charts, manifests.
const LAYER_BYTES_MAX: u64 = margrave_oci::build::BYTES_MAX;

#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("{0}")]
    Registry(#[from] OciError),
    #[error("{0}")]
    Unusable(String),
    #[error("{}", .0.chain())]
    Disk(#[from] DiskError),
    #[error("download `{place}`: {reason}")]
    Download { place: String, reason: String },
}

impl ArtifactError {
    /// Whether stored content may be used instead: the registry did not answer, so nothing contradicts it.
    fn is_registry_unreachable(&self) -> bool {
        match self {
            Self::Registry(error) => error.is_transient(),
            Self::Download { .. } => true,
            Self::Unusable(_) | Self::Disk(_) => false,
        }
    }
}

/// The component that needs an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder<'a> {
    pub deployment: DeploymentId,
    pub component: &'a str,
    /// Digest of the deployment YAML that refers to it.
    pub document: &'a Digest,
}

/// The kind of artifact that a component requires.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// `artifactType`, or the type of the configuration where there is none.
    pub artifact_types: &'static [&'static str],
    pub layer_types: &'static [&'static str],
    /// Its name in messages.
    pub name: &'static str,
}

/// A component as a compose archive (COMP-01).
pub const COMPOSE: Expected = Expected {
    artifact_types: &[margrave_oci::build::COMPOSE_ARTIFACT_TYPE],
    layer_types: &[margrave_oci::build::COMPOSE_LAYER_TYPE],
    name: "compose component",
};

/// A Helm chart, as `helm push` makes it.
pub const CHART: Expected = Expected {
    artifact_types: &[margrave_oci::build::HELM_CONFIG_TYPE],
    layer_types: &[margrave_oci::build::HELM_CHART_TYPE],
    name: "Helm chart",
};

/// Plain Kubernetes manifests, the `custom` components of this agent (CR-01).
pub const MANIFESTS: Expected = Expected {
    artifact_types: &[margrave_oci::build::MANIFESTS_ARTIFACT_TYPE],
    layer_types: &[margrave_oci::build::MANIFESTS_LAYER_TYPE],
    name: "component of Kubernetes manifests",
};

/// A verified layer on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    pub digest: Digest,
    pub path: PathBuf,
}

/// The content store of one agent.
#[derive(Debug)]
pub struct Artifacts {
    folder: PathBuf,
    registries: Registries,
    rate_limit: RateLimit,
    index: Mutex<Index>,
}

impl Artifacts {
    /// In `state_dir/artifacts`.
    pub fn open(state_dir: &Path, registries: &[RegistryConfig], config: &ArtifactsConfig) -> Result<Self, DiskError> {
        let folder = state_dir.join("artifacts");
        let blobs = folder.join(BLOBS);
        create_private_dir(&blobs).map_err(|source| DiskError::Io { path: blobs, source })?;
        // A lost index only costs downloads.
        let index = read_record::<Index>(&folder.join(INDEX), &mut |_| {}).unwrap_or_default();
        let registries = Registries::new(registries.to_vec());
        Ok(Self { folder, registries, rate_limit: RateLimit::new(config.bytes_per_second), index: Mutex::new(index) })
    }

    pub fn registries(&self) -> &Registries {
        &self.registries
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Index)) -> Result<(), DiskError> {
        let mut index = self.index();
        let mut next = index.clone();
        change(&mut next);
        if next != *index {
            write_record(&self.folder.join(INDEX), &next)?;
            *index = next;
        }
        Ok(())
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
        self.folder.join(BLOBS).join(digest.hex())
    }

    /// A stored blob whose content matches its digest.
    async fn held(&self, digest: &Digest) -> Option<StoredBlob> {
        let path = self.blob(digest);
        let bytes = tokio::fs::read(&path).await.ok()?;
        if Digest::of(&bytes) == *digest {
            return Some(StoredBlob { digest: digest.clone(), path });
        }
        // Damaged on disk: fetch it again.
        let _ = tokio::fs::remove_file(&path).await;
        None
    }

    /// The layer of a component: already stored, or fetched and verified (COMP-06).
    pub async fn fetch(
        &self,
        holder: &Holder<'_>,
        source: &ComponentSource,
        expected: Expected,
    ) -> Result<StoredBlob, ArtifactError> {
        let name = source_name(source);
        let known = self.index().find(holder, &name);
        if let Some(digest) = known
            && let Some(held) = self.held(&digest).await
        {
            self.note(holder, &name, &digest)?;
            return Ok(held);
        }
        let fetched = match source {
            ComponentSource::Oci { repository, revision } => {
                let reference = Reference::of_component(repository, revision).map_err(ArtifactError::Unusable)?;
                self.fetch_oci(holder, &name, &reference, expected).await
            }
            // Older documents; some of them name an artifact as well.
            ComponentSource::Location { package_location, .. } if package_location.starts_with("oci://") => {
                let reference = Reference::parse(package_location).map_err(ArtifactError::Unusable)?;
                self.fetch_oci(holder, &name, &reference, expected).await
            }
            ComponentSource::Location { package_location, .. } => {
                self.fetch_location(holder, &name, package_location).await
            }
        };
        match fetched {
            Err(error) if error.is_registry_unreachable() => {
                // The same revision, fetched for another document.
                let other = self.index().of_source(&name);
                let held = match other {
                    Some(digest) => self.held(&digest).await,
                    None => None,
                };
                let Some(held) = held else { return Err(error) };
                self.note(holder, &name, &held.digest)?;
                Ok(held)
            }
            other => other,
        }
    }

    async fn fetch_oci(
        &self,
        holder: &Holder<'_>,
        name: &str,
        reference: &Reference,
        expected: Expected,
    ) -> Result<StoredBlob, ArtifactError> {
        let mut last = None;
        for place in self.registries.places(reference) {
            match self.fetch_from(holder, name, &place, expected).await {
                Ok(held) => return Ok(held),
                // The error of the registry takes precedence over a missing artifact in a mirror.
                Err(error @ ArtifactError::Registry(_)) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        let nowhere = || ArtifactError::Unusable(format!("`{reference}` names no registry"));
        Err(last.unwrap_or_else(nowhere))
    }

    async fn fetch_from(
        &self,
        holder: &Holder<'_>,
        name: &str,
        reference: &Reference,
        expected: Expected,
    ) -> Result<StoredBlob, ArtifactError> {
        let mut registry = self.registries.connect(&reference.host)?;
        let manifest = registry.manifest(reference).await?;
        let (digest, size) = layer(&manifest.bytes, reference, expected)?;
        // Recorded before the fetch, so that its partial download is not removed.
        self.note(holder, name, &digest)?;
        if let Some(held) = self.held(&digest).await {
            return Ok(held);
        }
        let path = self.blob(&digest);
        self.check_room(size, &path)?;
        let repository = reference.repository.as_str();
        download::blob(&mut registry, repository, &digest, size, &path, &self.rate_limit).await?;
        Ok(StoredBlob { digest, path })
    }

    /// Checked before the download. An existing partial download already uses its share of the space.
    fn check_room(&self, size: u64, path: &Path) -> Result<(), ArtifactError> {
        let part = std::fs::metadata(path.with_extension("part")).map_or(0, |metadata| metadata.len());
        let size = size.saturating_sub(part);
        let Ok(found) = rustix::fs::statvfs(&self.folder) else { return Ok(()) };
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free >= size {
            return Ok(());
        }
        let folder = self.folder.display();
        Err(ArtifactError::Unusable(format!(
            "not enough space for the component: it needs {size} bytes, {free} are free in `{folder}`; free space on this file system"
        )))
    }

    async fn fetch_location(
        &self,
        holder: &Holder<'_>,
        name: &str,
        location: &str,
    ) -> Result<StoredBlob, ArtifactError> {
        let odd = |reason: &str| ArtifactError::Unusable(format!("packageLocation `{location}` {reason}"));
        let url = Url::parse(location).map_err(|error| odd(&format!("is not a URL: {error}")))?;
        let safe = url.scheme() == "https" || margrave_oci::reference::is_loopback_url(&url);
        if !safe || !matches!(url.scheme(), "https" | "http") {
            return Err(odd("is not encrypted; use an https address or an OCI artifact"));
        }
        let ca = self.registries.ca_of_url(&url)?;
        let bytes = download::url(&url, ca.as_deref(), LAYER_BYTES_MAX, &self.rate_limit).await?;
        let digest = Digest::of(&bytes);
        self.note(holder, name, &digest)?;
        let path = self.blob(&digest);
        crate::disk::write_private(&path, &bytes)?;
        Ok(StoredBlob { digest, path })
    }

    fn note(&self, holder: &Holder<'_>, name: &str, digest: &Digest) -> Result<(), DiskError> {
        let slot = Slot { document: holder.document.clone(), source: name.to_owned(), digest: digest.clone() };
        self.change(|index| index.note(holder, slot))
    }

    /// Stores the components of a preloaded desired state for the documents that refer to them.
    pub fn preload(&self, preload: &Preload) -> Result<(), DiskError> {
        for (document, yaml) in &preload.documents {
            // An unreadable document is reported when it is applied.
            let Ok(read) = ApplicationDeployment::read(yaml) else { continue };
            for component in &read.document.spec.deployment_profile.components {
                let name = source_name(&component.properties.source);
                let listed = preload.artifacts.iter().find(|artifact| artifact.reference == name);
                let Some((listed, bytes)) =
                    listed.and_then(|listed| Some((listed, preload.layers.get(&listed.layer)?)))
                else {
                    continue;
                };
                let holder = Holder { deployment: read.document.id, component: &component.name, document };
                self.note(&holder, &name, &listed.layer)?;
                crate::disk::write_private(&self.blob(&listed.layer), bytes)?;
            }
        }
        Ok(())
    }

    /// The component runs from this document: its previous content is kept, older content is removed.
    pub fn settle(&self, holder: &Holder<'_>) -> Result<(), DiskError> {
        self.change(|index| index.settle(holder))?;
        self.collect();
        Ok(())
    }

    /// The component was removed; its artifacts are no longer needed.
    pub fn forget(&self, deployment: DeploymentId, component: &str) -> Result<(), DiskError> {
        self.change(|index| index.forget(deployment, component))?;
        self.collect();
        Ok(())
    }

    /// Removes blobs that no component needs. A failure leaves an unused file, which is harmless.
    fn collect(&self) {
        // The index stays locked, so that no blob is recorded while files are removed.
        let index = self.index();
        let Ok(files) = std::fs::read_dir(self.folder.join(BLOBS)) else { return };
        for file in files.flatten() {
            let name = file.file_name();
            let hex = name.to_string_lossy();
            let hex = hex.split('.').next().unwrap_or_default();
            if !index.needs(hex) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

/// The key of a source in the index.
fn source_name(source: &ComponentSource) -> String {
    match source {
        ComponentSource::Oci { repository, revision } => format!("{repository}:{revision}"),
        ComponentSource::Location { package_location, .. } => package_location.clone(),
    }
}

/// The one layer of a component's manifest (COMP-01, COMP-02, COMP-08).
fn layer(manifest: &[u8], reference: &Reference, expected: Expected) -> Result<(Digest, u64), ArtifactError> {
    let odd = |reason: String| ArtifactError::Unusable(format!("`{reference}` is not a {}: {reason}", expected.name));
    let manifest: Value = serde_json::from_slice(manifest).map_err(|error| odd(format!("its manifest: {error}")))?;
    let declared = manifest["artifactType"].as_str().filter(|text| !text.is_empty());
    let declared = declared.or_else(|| manifest["config"]["mediaType"].as_str()).unwrap_or_default();
    if !expected.artifact_types.contains(&declared) {
        let desired = expected.artifact_types.join("` or `");
        return Err(odd(format!("its artifactType is `{declared}` instead of `{desired}`")));
    }
    let layers = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_match = |layer: &&Value| expected.layer_types.contains(&layer["mediaType"].as_str().unwrap_or_default());
    let matching: Vec<&Value> = layers.iter().filter(is_match).collect();
    let [layer] = matching.as_slice() else {
        let desired = expected.layer_types.join("` or `");
        return Err(odd(format!("it has {} layers of type `{desired}` instead of one", matching.len())));
    };
    let digest = layer["digest"].as_str().and_then(|text| text.parse::<Digest>().ok());
    let (Some(digest), Some(size)) = (digest, layer["size"].as_u64()) else {
        return Err(odd("its layer has no digest and size".to_owned()));
    };
    if size > LAYER_BYTES_MAX {
        return Err(odd(format!("its layer has {size} bytes, the limit is {LAYER_BYTES_MAX}")));
    }
    let version = layer["annotations"]["org.margo.component.version"].as_str();
    if let (Some(version), Tag::Name(tag)) = (version, &reference.tag)
        && version.replace('+', "_") != *tag
    {
        tracing::warn!(artifact = %reference, "the component says it is version `{version}`, its tag is `{tag}`");
    }
    Ok((digest, size))
}

/// Whether the registry rejected the credentials.
pub fn is_denied(error: &ArtifactError) -> bool {
    matches!(error, ArtifactError::Registry(error) if error.kind == Kind::Denied)
}

#[cfg(test)]
mod tests;

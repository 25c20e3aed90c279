//! Container images fetched by the agent: rate-limited and resumable. Without a limit the engine pulls, which reuses
//! layers that it has.

use super::{ArtifactError, Artifacts, download};
use margo::Digest;
use margrave_oci::{Manifest, Reference, Registry, Tag};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Below the content store; one folder for each image being fetched.
const FOLDER: &str = "images";

/// The verified parts of an image on disk.
#[derive(Debug, Clone)]
pub struct ImageParts {
    pub config: (Digest, PathBuf),
    pub layers: Vec<(Digest, PathBuf)>,
}

impl Artifacts {
    /// Whether downloads are limited.
    pub fn is_rate_limited(&self) -> bool {
        self.rate_limit.is_limited()
    }

    fn image_folder(&self, name: &str) -> PathBuf {
        self.folder.join(FOLDER).join(Digest::of(name.as_bytes()).hex())
    }

    /// Fetches the image that the engine will know as `name`.
    pub async fn fetch_image(&self, place: &Reference, name: &str) -> Result<ImageParts, ArtifactError> {
        let mut registry = self.registries.connect(&place.host)?;
        let manifest = manifest_for_here(&mut registry, place).await?;
        let folder = self.image_folder(name);
        crate::disk::create_private_dir(&folder).map_err(|error| crate::disk::DiskError::at(&folder, error))?;
        let mut parts = Vec::new();
        for blob in &manifest.blobs {
            let path = folder.join(blob.digest.hex());
            self.check_room(blob.size, &path)?;
            if !is_there(&path, &blob.digest) {
                let repository = place.repository.as_str();
                download::blob(&mut registry, repository, &blob.digest, blob.size, &path, &self.rate_limit).await?;
            }
            parts.push((blob.digest.clone(), path));
        }
        let mut parts = parts.into_iter();
        let empty =
            || ArtifactError::Unusable(format!("`{place}` is not an image: its manifest names no configuration"));
        let config = parts.next().ok_or_else(empty)?;
        Ok(ImageParts { config, layers: parts.collect() })
    }

    /// The engine has the image now.
    pub fn forget_image(&self, name: &str) {
        let _ = std::fs::remove_dir_all(self.image_folder(name));
    }

    /// Removes partial downloads of images that no component needs.
    pub fn keep_images<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let kept: HashSet<PathBuf> = names.map(|name| self.image_folder(name)).collect();
        let Ok(folders) = std::fs::read_dir(self.folder.join(FOLDER)) else { return };
        for folder in folders.flatten().map(|entry| entry.path()).filter(|path| !kept.contains(path)) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn is_there(path: &Path, digest: &Digest) -> bool {
    let digest_of = |path: &Path| Digest::of_reader(&mut std::fs::File::open(path)?);
    digest_of(path).is_ok_and(|actual| actual == *digest)
}

/// The manifest of an image; of a multi-platform image, the one for this machine.
pub(crate) async fn manifest_for_here(registry: &mut Registry, place: &Reference) -> Result<Manifest, ArtifactError> {
    let odd = |reason: String| ArtifactError::Unusable(format!("`{place}`: {reason}"));
    let fetched = registry.manifest(place).await?;
    let manifest = Manifest::read(fetched.media_type.as_deref(), &fetched.bytes).map_err(odd)?;
    if !manifest.is_index() {
        return Ok(manifest);
    }
    let is_match =
        |platform: &margrave_oci::Platform| platform.os == "linux" && platform.architecture == architecture();
    let one = manifest.manifests.iter().find(|one| one.platform.as_ref().is_some_and(is_match));
    let one = one.ok_or_else(|| odd(format!("there is no image for linux/{}", architecture())))?;
    let place = Reference { tag: Tag::Digest(one.digest.clone()), ..place.clone() };
    let fetched = registry.manifest(&place).await?;
    Manifest::read(fetched.media_type.as_deref(), &fetched.bytes).map_err(odd)
}

/// The architecture in OCI spelling.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

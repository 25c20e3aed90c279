//! Lists: tags of a repository, repositories, referrers of a manifest, and usage.

use super::Registry;
use super::document;
use super::error::{RegistryError, Result};
use super::manifests;
use super::names::{Digest, RepositoryName, Tag};
use serde_json::{Value, json};
use std::ops::Bound;
use std::sync::atomic::Ordering;

/// Default and maximum entries per page.
pub(super) const PAGE_MAX: usize = 1_000;
/// A list of referrers is an index, and clients accept an index of at most 4 MiB.
const REFERRERS_BYTES_MAX: usize = 3 << 20;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    pub more: bool,
}

impl<T> Listed<T> {
    /// `items` yields one beyond the page if there are more.
    fn of(items: impl Iterator<Item = T>, limit: usize) -> Self {
        let mut items: Vec<T> = items.take(limit + 1).collect();
        let more = items.len() > limit;
        items.truncate(limit);
        Self { items, more }
    }
}

/// Usage of a repository or the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub bytes: u64,
    pub blobs: usize,
    pub manifests: usize,
    pub tags: usize,
}

impl Registry {
    pub fn tags(&self, repository: &RepositoryName, after: Option<&Tag>, limit: usize) -> Result<Listed<Tag>> {
        let index = self.inner.index.read();
        let held = index.repositories.get(repository);
        let held = held.ok_or_else(|| RegistryError::RepositoryUnknown(repository.to_string()))?;
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        Ok(Listed::of(held.tags.range::<Tag, _>(range).map(|(tag, _)| tag.clone()), limit))
    }

    pub fn repositories(&self, after: Option<&RepositoryName>, limit: usize) -> Listed<RepositoryName> {
        let index = self.inner.index.read();
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let names = index.repositories.range::<RepositoryName, _>(range).map(|(name, _)| name.clone());
        Listed::of(names, limit)
    }

    /// Descriptors of the manifests that refer to `subject`, after `after`, in the order of their digests.
    pub async fn referrers(
        &self,
        repository: &RepositoryName,
        subject: &Digest,
        artifact_type: Option<&str>,
        after: Option<&Digest>,
    ) -> Result<Listed<Value>> {
        let requested: Vec<Digest> = {
            let index = self.inner.index.read();
            let Some(held) = index.repositories.get(repository) else {
                return Ok(Listed { items: vec![], more: false });
            };
            let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
            let referrers = held.referrers.get(subject).into_iter().flat_map(|set| set.range::<Digest, _>(range));
            let is_match = |digest: &&Digest| {
                artifact_type.is_none()
                    || held.manifests.get(digest).and_then(|found| found.artifact_type.as_deref()) == artifact_type
            };
            referrers.filter(is_match).take(PAGE_MAX + 1).cloned().collect()
        };
        let repository = repository.clone();
        self.blocking(move |inner| {
            let (mut items, mut bytes) = (Vec::new(), 0);
            for digest in &requested {
                // Deleted since the index was read: then it refers to nothing any more.
                let Ok(file) = std::fs::read(inner.layout.manifest(&repository, digest)) else { continue };
                let Some(descriptor) = descriptor(digest, &file) else { continue };
                bytes += descriptor.to_string().len();
                if items.len() == PAGE_MAX || bytes > REFERRERS_BYTES_MAX && !items.is_empty() {
                    return Ok(Listed { items, more: true });
                }
                items.push(descriptor);
            }
            Ok(Listed { items, more: false })
        })
        .await
    }

    /// Usage of a repository, or of the whole registry.
    pub fn usage(&self, repository: Option<&RepositoryName>) -> Option<Usage> {
        let index = self.inner.index.read();
        let Some(repository) = repository else {
            let count = |of: fn(&super::index::Repository) -> usize| index.repositories.values().map(of).sum();
            return Some(Usage {
                bytes: index.bytes + self.inner.uploading.load(Ordering::Relaxed),
                blobs: index.blobs.len(),
                manifests: count(|held| held.manifests.len()),
                tags: count(|held| held.tags.len()),
            });
        };
        index.repositories.get(repository).map(|held| Usage {
            bytes: held.bytes,
            blobs: held.blobs.len(),
            manifests: held.manifests.len(),
            tags: held.tags.len(),
        })
    }
}

fn descriptor(digest: &Digest, file: &[u8]) -> Option<Value> {
    let (media_type, bytes) = manifests::split(file)?;
    let document = document::read(Some(&media_type), bytes).ok()?;
    let mut descriptor = json!({ "mediaType": media_type, "digest": digest.to_string(), "size": bytes.len() });
    if let Some(artifact_type) = document.artifact_type {
        descriptor["artifactType"] = json!(artifact_type);
    }
    if !document.annotations.is_empty() {
        descriptor["annotations"] = json!(document.annotations);
    }
    Some(descriptor)
}

//! Manifests and their tags.

use super::disk;
use super::document::{self, Document, MANIFEST_BYTES_MAX};
use super::error::{Attempt as _, RegistryError, Result};
use super::index::Manifest;
use super::names::{Algorithm, Digest, Reference, RepositoryName, Tag};
use super::{Inner, Registry};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutManifest {
    pub digest: Digest,
    pub subject: Option<Digest>,
}

/// A manifest as it was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredManifest {
    pub digest: Digest,
    pub media_type: String,
    pub bytes: Bytes,
}

/// The first line of a manifest's file; the exact bytes follow.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    media_type: String,
}

/// Media type and bytes of a manifest's file.
pub(super) fn split(file: &[u8]) -> Option<(String, &[u8])> {
    let end = file.iter().position(|byte| *byte == b'\n')?;
    let header: Header = serde_json::from_slice(&file[..end]).ok()?;
    Some((header.media_type, &file[end + 1..]))
}

impl Registry {
    /// Adds a manifest under its digest, and under a tag when the reference is one.
    pub async fn put_manifest(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
        content_type: Option<&str>,
        bytes: Bytes,
    ) -> Result<PutManifest> {
        self.put(repository, reference, content_type, bytes, true).await
    }

    /// Like [`Self::put_manifest`], but an index may refer to missing manifests: a copy for some platforms.
    pub async fn put_partly(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
        content_type: Option<&str>,
        bytes: Bytes,
    ) -> Result<PutManifest> {
        self.put(repository, reference, content_type, bytes, false).await
    }

    async fn put(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
        content_type: Option<&str>,
        bytes: Bytes,
        whole: bool,
    ) -> Result<PutManifest> {
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(RegistryError::ManifestTooLarge { limit: MANIFEST_BYTES_MAX });
        }
        let (digest, tag) = match reference {
            Reference::Digest(digest) => (Digest::of(digest.algorithm(), &bytes), None),
            Reference::Tag(tag) => (Digest::of(Algorithm::Sha256, &bytes), Some(tag.clone())),
        };
        if let Reference::Digest(expected) = reference
            && *expected != digest
        {
            return Err(RegistryError::DigestMismatch { expected: expected.clone(), actual: digest });
        }
        let document = document::read(content_type, &bytes)?;
        let repository = repository.clone();
        self.blocking(move |inner| {
            let _commit = inner.commit.lock();
            inner.check_references(&repository, &document, whole)?;
            inner.write_manifest(&repository, &digest, &document, &bytes)?;
            if let Some(tag) = tag {
                inner.write_tag(&repository, tag, &digest)?;
            }
            Ok(PutManifest { digest, subject: document.subject })
        })
        .await
    }

    /// Digest, media type and size, from memory.
    pub fn stat_manifest(&self, repository: &RepositoryName, reference: &Reference) -> Result<(Digest, String, u64)> {
        let index = self.inner.index.read();
        let held = index.repositories.get(repository).and_then(|held| held.resolve(reference));
        let (digest, manifest) = held.ok_or_else(|| RegistryError::ManifestUnknown(reference.to_string()))?;
        Ok((digest, manifest.media_type.clone(), manifest.size))
    }

    pub async fn manifest(&self, repository: &RepositoryName, reference: &Reference) -> Result<StoredManifest> {
        let (digest, ..) = self.stat_manifest(repository, reference)?;
        let unknown = RegistryError::ManifestUnknown(reference.to_string());
        let repository = repository.clone();
        self.blocking(move |inner| {
            let file = match std::fs::read(inner.layout.manifest(&repository, &digest)) {
                // Deleted since the index was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown),
                read => Bytes::from(read.attempt("read a manifest")?),
            };
            let whole = split(&file).filter(|(_, bytes)| Digest::of(digest.algorithm(), bytes) == digest);
            let (media_type, bytes) =
                whole.ok_or_else(|| io::Error::other("a stored manifest is damaged")).attempt("read a manifest")?;
            let bytes = file.slice_ref(bytes);
            Ok(StoredManifest { digest, media_type, bytes })
        })
        .await
    }

    /// Fails when there is nothing to delete.
    pub(super) fn check_manifest_deletable(&self, repository: &RepositoryName, reference: &Reference) -> Result<()> {
        let index = self.inner.index.read();
        let known = index.repositories.get(repository).is_some_and(|held| match reference {
            Reference::Tag(tag) => held.tags.contains_key(tag),
            Reference::Digest(digest) => held.manifests.contains_key(digest) || held.damaged.contains(digest),
        });
        known.then_some(()).ok_or_else(|| RegistryError::ManifestUnknown(reference.to_string()))
    }

    /// Deletes a tag, or a manifest with all its tags.
    pub async fn delete_manifest(&self, repository: &RepositoryName, reference: &Reference) -> Result<()> {
        let (repository, reference) = (repository.clone(), reference.clone());
        self.blocking(move |inner| {
            let _commit = inner.commit.lock();
            let unknown = || RegistryError::ManifestUnknown(reference.to_string());
            match &reference {
                Reference::Tag(tag) => inner.remove_tag(&repository, tag)?.then_some(()).ok_or_else(unknown),
                Reference::Digest(digest) => {
                    inner.remove_manifest(&repository, digest)?.then_some(()).ok_or_else(unknown)
                }
            }
        })
        .await
    }
}

impl Inner {
    /// Everything that a manifest refers to must be present, with the stated size. Its subject may be added later, and
    /// unless
    /// `whole` is set, so may the manifests of an index.
    fn check_references(&self, repository: &RepositoryName, document: &Document, whole: bool) -> Result<()> {
        let index = self.index.read();
        let held = index.repositories.get(repository);
        let manifest_size = |digest: &Digest| held.and_then(|held| held.manifests.get(digest)).map(|found| found.size);
        let blobs = document.blobs.iter().map(|(digest, size)| (digest, size, index.size_of(repository, digest)));
        let manifests = document.manifests.iter().map(|(digest, size)| (digest, size, manifest_size(digest)));
        let manifests = manifests.filter(|(_, _, actual)| whole || actual.is_some());
        let mut missing = Vec::new();
        for (digest, stated, actual) in blobs.chain(manifests) {
            match actual {
                None => missing.push(digest.clone()),
                Some(actual) if actual != *stated => {
                    let message = format!("it states that `{digest}` has {stated} bytes, but it has {actual}");
                    return Err(RegistryError::ManifestInvalid(message));
                }
                Some(_) => {}
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(RegistryError::ManifestBlobUnknown(missing)) }
    }

    fn write_manifest(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        document: &Document,
        bytes: &[u8],
    ) -> Result<()> {
        let manifest = Manifest::of(document, bytes.len() as u64);
        let held = {
            let index = self.index.read();
            index.repositories.get(repository).and_then(|held| held.manifests.get(digest)).cloned()
        };
        if held.as_ref() == Some(&manifest) {
            return Ok(());
        }
        if held.is_none() {
            self.check_total(manifest.size)?;
            self.check_repository(repository, manifest.size)?;
        }
        let header = Header { media_type: document.media_type.clone() };
        let mut header = serde_json::to_vec(&header).expect("a string can be written as JSON");
        header.push(b'\n');
        let path = self.layout.manifest(repository, digest);
        self.layout.write(&path, &[&header, bytes]).attempt("write a manifest")?;
        self.index.write().put_manifest(repository, digest, manifest);
        Ok(())
    }

    fn write_tag(&self, repository: &RepositoryName, tag: Tag, digest: &Digest) -> Result<()> {
        let current = {
            let index = self.index.read();
            index.repositories.get(repository).and_then(|held| held.tags.get(&tag)).cloned()
        };
        if current.as_ref() == Some(digest) {
            return Ok(());
        }
        let text = digest.to_string();
        self.layout.write(&self.layout.tag(repository, &tag), &[text.as_bytes()]).attempt("write a tag")?;
        if let Some(held) = self.index.write().repositories.get_mut(repository) {
            held.tags.insert(tag, digest.clone());
        }
        Ok(())
    }

    fn remove_tag(&self, repository: &RepositoryName, tag: &Tag) -> Result<bool> {
        let known = |held: &super::index::Repository| held.tags.contains_key(tag);
        if !self.index.read().repositories.get(repository).is_some_and(known) {
            return Ok(false);
        }
        disk::remove(&self.layout.tag(repository, tag)).attempt("remove a tag")?;
        if let Some(held) = self.index.write().repositories.get_mut(repository) {
            held.tags.remove(tag);
        }
        Ok(true)
    }

    fn remove_manifest(&self, repository: &RepositoryName, digest: &Digest) -> Result<bool> {
        let tags: Vec<Tag> = {
            let index = self.index.read();
            let Some(held) = index.repositories.get(repository) else { return Ok(false) };
            if !held.manifests.contains_key(digest) && !held.damaged.contains(digest) {
                return Ok(false);
            }
            held.tags.iter().filter(|(_, tagged)| *tagged == digest).map(|(tag, _)| tag.clone()).collect()
        };
        // Tags first: a kill in between leaves a manifest without tags, never a tag without a manifest.
        for tag in &tags {
            self.remove_tag(repository, tag)?;
        }
        disk::remove(&self.layout.manifest(repository, digest)).attempt("remove a manifest")?;
        self.index.write().remove_manifest(repository, digest);
        Ok(true)
    }
}

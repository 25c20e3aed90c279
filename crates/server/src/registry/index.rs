//! The content of the registry, in memory. The files are authoritative; this index is built from them when the registry
//! opens and updated after them.

use super::document::Document;
use super::names::{Digest, Reference, RepositoryName, Tag};
use margrave_core::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) blobs: HashMap<Digest, Blob>,
    pub(super) repositories: BTreeMap<RepositoryName, Repository>,
    /// Blobs and manifests on disk, without uploads in progress.
    pub(super) bytes: u64,
    /// There is an unknown folder next to the repositories: it may need any blob, so no blob is deleted from disk.
    pub(super) incomplete: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) size: u64,
    /// Repositories that have it; without any the file is not needed.
    pub(super) links: usize,
}

#[derive(Debug, Default)]
pub(super) struct Repository {
    /// When each blob was last pushed, mounted or checked: the grace period counts from there.
    pub(super) blobs: HashMap<Digest, Timestamp>,
    pub(super) manifests: HashMap<Digest, Manifest>,
    /// Manifests with damaged files: which blobs they need is unknown.
    pub(super) damaged: HashSet<Digest>,
    pub(super) tags: BTreeMap<Tag, Digest>,
    /// Subject to the manifests that name it.
    pub(super) referrers: HashMap<Digest, BTreeSet<Digest>>,
    /// Blobs it has, shared or not, and manifests.
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) media_type: String,
    pub(super) size: u64,
    pub(super) blobs: Vec<Digest>,
    pub(super) subject: Option<Digest>,
    pub(super) artifact_type: Option<String>,
}

impl Manifest {
    pub(super) fn of(document: &Document, size: u64) -> Self {
        Self {
            media_type: document.media_type.clone(),
            size,
            blobs: document.blobs.iter().map(|(digest, _)| digest.clone()).collect(),
            subject: document.subject.clone(),
            artifact_type: document.artifact_type.clone(),
        }
    }
}

impl Repository {
    pub(super) fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.manifests.is_empty() && self.damaged.is_empty()
    }

    pub(super) fn resolve(&self, reference: &Reference) -> Option<(Digest, &Manifest)> {
        let digest = match reference {
            Reference::Digest(digest) => digest,
            Reference::Tag(tag) => self.tags.get(tag)?,
        };
        Some((digest.clone(), self.manifests.get(digest)?))
    }

    /// All blobs that some manifest here needs.
    pub(super) fn referenced(&self) -> HashSet<&Digest> {
        self.manifests.values().flat_map(|manifest| &manifest.blobs).collect()
    }
}

impl Index {
    pub(super) fn size_of(&self, repository: &RepositoryName, blob: &Digest) -> Option<u64> {
        self.repositories.get(repository)?.blobs.get(blob)?;
        self.blobs.get(blob).map(|blob| blob.size)
    }

    /// Adds a blob to a repository; its file and its link are on disk.
    pub(super) fn link(&mut self, repository: &RepositoryName, digest: &Digest, size: u64, at: Timestamp) {
        let blob = self.blobs.entry(digest.clone()).or_insert_with(|| {
            self.bytes += size;
            Blob { size, links: 0 }
        });
        let entry = self.repositories.entry(repository.clone()).or_default();
        if entry.blobs.insert(digest.clone(), at).is_none() {
            blob.links += 1;
            entry.bytes += size;
        }
    }

    /// Removes a blob from a repository; returns whether no repository has it any more.
    pub(super) fn unlink(&mut self, repository: &RepositoryName, digest: &Digest) -> bool {
        let Some(entry) = self.repositories.get_mut(repository) else { return false };
        let Some(blob) = self.blobs.get_mut(digest) else { return false };
        if entry.blobs.remove(digest).is_none() {
            return false;
        }
        entry.bytes -= blob.size;
        blob.links -= 1;
        if blob.links > 0 {
            return false;
        }
        self.bytes -= blob.size;
        self.blobs.remove(digest);
        true
    }

    pub(super) fn put_manifest(&mut self, repository: &RepositoryName, digest: &Digest, manifest: Manifest) {
        let entry = self.repositories.entry(repository.clone()).or_default();
        entry.damaged.remove(digest);
        if let Some(subject) = &manifest.subject {
            entry.referrers.entry(subject.clone()).or_default().insert(digest.clone());
        }
        let size = manifest.size;
        if entry.manifests.insert(digest.clone(), manifest).is_none() {
            entry.bytes += size;
            self.bytes += size;
        }
    }

    /// Removes a manifest and its tags.
    pub(super) fn remove_manifest(&mut self, repository: &RepositoryName, digest: &Digest) {
        let Some(entry) = self.repositories.get_mut(repository) else { return };
        entry.damaged.remove(digest);
        entry.tags.retain(|_, tagged| tagged != digest);
        let Some(manifest) = entry.manifests.remove(digest) else { return };
        entry.bytes -= manifest.size;
        self.bytes -= manifest.size;
        if let Some(subject) = manifest.subject
            && let Some(referrers) = entry.referrers.get_mut(&subject)
        {
            referrers.remove(digest);
            if referrers.is_empty() {
                entry.referrers.remove(&subject);
            }
        }
    }
}

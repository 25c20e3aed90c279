//! Blobs of a repository: add, read, mount, remove.

use super::disk;
use super::error::{Attempt as _, RegistryError, Result};
use super::names::{Digest, RepositoryName};
use super::{Inner, Registry};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

impl Registry {
    /// The size of a blob in this repository. The caller may be about to refer to it, so its grace period restarts.
    pub fn blob_size(&self, repository: &RepositoryName, digest: &Digest) -> Result<u64> {
        self.inner.touch(repository, digest).ok_or_else(|| RegistryError::BlobUnknown(digest.clone()))
    }

    /// A blob to read from, and its size.
    pub async fn open_blob(&self, repository: &RepositoryName, digest: &Digest) -> Result<(tokio::fs::File, u64)> {
        let unknown = || RegistryError::BlobUnknown(digest.clone());
        let size = self.inner.index.read().size_of(repository, digest).ok_or_else(unknown)?;
        match tokio::fs::File::open(self.inner.layout.blob(digest)).await {
            Ok(file) => Ok((file, size)),
            // Garbage-collected since the index was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unknown()),
            Err(source) => Err(RegistryError::Storage { attempt: "open a blob", source }),
        }
    }

    /// Adds small content from memory.
    pub async fn put_blob(&self, repository: &RepositoryName, content: bytes::Bytes) -> Result<Digest> {
        let repository = repository.clone();
        self.blocking(move |inner| {
            let digest = Digest::sha256(&content);
            if inner.touch(&repository, &digest).is_some() {
                return Ok(digest);
            }
            let size = content.len() as u64;
            inner.admit(&repository, 0, size)?;
            let temporary = inner.layout.temporary().join(uuid::Uuid::new_v4().to_string());
            inner.layout.write(&temporary, &[content.as_ref()]).attempt("write a blob")?;
            let entered = inner.commit_blob(&repository, &digest, size, &temporary);
            if entered.is_err() {
                disk::discard(&temporary);
            }
            entered.map(|()| digest)
        })
        .await
    }

    /// A repository that has this blob.
    pub fn holder(&self, digest: &Digest) -> Option<RepositoryName> {
        let index = self.inner.index.read();
        index.blobs.get(digest)?;
        let has = |held: &super::index::Repository| held.blobs.contains_key(digest);
        index.repositories.iter().find(|(_, held)| has(held)).map(|(name, _)| name.clone())
    }

    /// Whether the repository exists.
    pub fn knows(&self, repository: &RepositoryName) -> bool {
        self.inner.index.read().repositories.contains_key(repository)
    }

    /// Mounts a blob of another repository; returns whether that one has it.
    pub async fn mount(&self, repository: &RepositoryName, digest: &Digest, from: &RepositoryName) -> Result<bool> {
        let (repository, digest, from) = (repository.clone(), digest.clone(), from.clone());
        self.blocking(move |inner| {
            let _commit = inner.commit.lock();
            let Some(size) = inner.index.read().size_of(&from, &digest) else { return Ok(false) };
            if inner.touch(&repository, &digest).is_none() {
                inner.check_repository(&repository, size)?;
                inner.link(&repository, &digest, size)?;
            }
            Ok(true)
        })
        .await
    }

    /// Removes a blob from a repository, unless a manifest there needs it.
    pub async fn delete_blob(&self, repository: &RepositoryName, digest: &Digest) -> Result<()> {
        let (repository, digest) = (repository.clone(), digest.clone());
        self.blocking(move |inner| {
            let _commit = inner.commit.lock();
            inner.check_blob_deletable(&repository, &digest)?;
            inner.unlink(&repository, &digest)?;
            Ok(())
        })
        .await
    }

    /// Fails when there is nothing to delete, or a manifest needs it.
    pub(super) fn check_blob_deletable(&self, repository: &RepositoryName, digest: &Digest) -> Result<()> {
        self.inner.check_blob_deletable(repository, digest)
    }
}

impl Inner {
    fn check_blob_deletable(&self, repository: &RepositoryName, digest: &Digest) -> Result<()> {
        let index = self.index.read();
        let held = index.repositories.get(repository).filter(|held| held.blobs.contains_key(digest));
        let held = held.ok_or_else(|| RegistryError::BlobUnknown(digest.clone()))?;
        match held.manifests.iter().find(|(_, manifest)| manifest.blobs.contains(digest)) {
            Some((manifest, _)) => Err(RegistryError::BlobInUse { blob: digest.clone(), manifest: manifest.clone() }),
            None => Ok(()),
        }
    }

    /// The size of a blob in the repository, whose grace period restarts.
    pub(super) fn touch(&self, repository: &RepositoryName, digest: &Digest) -> Option<u64> {
        let now = self.clock.now();
        let mut index = self.index.write();
        *index.repositories.get_mut(repository)?.blobs.get_mut(digest)? = now;
        index.blobs.get(digest).map(|blob| blob.size)
    }

    /// Adds a blob whose complete, verified and durable content is at `source`.
    pub(super) fn commit_blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        size: u64,
        source: &Path,
    ) -> Result<()> {
        let _commit = self.commit.lock();
        if self.touch(repository, digest).is_some() {
            return disk::remove(source).attempt("remove a blob that is there already");
        }
        self.check_repository(repository, size)?;
        if self.index.read().blobs.contains_key(digest) {
            disk::remove(source).attempt("remove a blob that is there already")?;
        } else {
            disk::place(source, &self.layout.blob(digest)).attempt("store a blob")?;
        }
        self.link(repository, digest, size)
    }

    fn link(&self, repository: &RepositoryName, digest: &Digest, size: u64) -> Result<()> {
        let now = self.clock.now();
        let since = now.0.to_string();
        self.layout.write(&self.layout.link(repository, digest), &[since.as_bytes()]).attempt("link a blob")?;
        self.index.write().link(repository, digest, size, now);
        Ok(())
    }

    /// Removes a blob from a repository, and from disk when no other repository has it. Returns the freed bytes.
    pub(super) fn unlink(&self, repository: &RepositoryName, digest: &Digest) -> Result<u64> {
        disk::remove(&self.layout.link(repository, digest)).attempt("unlink a blob")?;
        let (size, last) = {
            let mut index = self.index.write();
            (index.size_of(repository, digest).unwrap_or(0), index.unlink(repository, digest))
        };
        if !last || self.index.read().incomplete {
            return Ok(0);
        }
        // A kill before this line leaves an unknown file, which the next start removes.
        disk::remove(&self.layout.blob(digest)).attempt("remove a blob")?;
        Ok(size)
    }

    /// Whether a repository may grow; called with the commit lock held, so the answer stays true.
    pub(super) fn check_repository(&self, repository: &RepositoryName, more: u64) -> Result<()> {
        let index = self.index.read();
        let held = index.repositories.get(repository).map(|held| held.bytes);
        if held.is_none() && index.repositories.len() >= self.options.repositories_max {
            let limit = self.options.repositories_max;
            return Err(RegistryError::Denied(format!("the registry has reached its limit of {limit} repositories")));
        }
        let needed = held.unwrap_or(0).saturating_add(more);
        within(self.options.repository_bytes_max, needed, || format!("repository `{repository}`"))
    }

    /// Whether the registry as a whole may grow.
    pub(super) fn check_total(&self, more: u64) -> Result<()> {
        let held = self.index.read().bytes + self.uploading.load(Ordering::Relaxed);
        let needed = held.saturating_add(more);
        within(self.options.bytes_max, needed, || "the registry".to_owned())
    }

    /// Whether an upload of `size` bytes so far may take `more`.
    pub(super) fn admit(&self, repository: &RepositoryName, size: u64, more: u64) -> Result<()> {
        let whole = size.saturating_add(more);
        if whole > self.options.blob_bytes_max {
            return Err(RegistryError::BlobTooLarge { limit: self.options.blob_bytes_max });
        }
        self.check_total(more)?;
        self.check_repository(repository, whole)
    }
}

fn within(limit: Option<u64>, needed: u64, scope: impl FnOnce() -> String) -> Result<()> {
    match limit {
        Some(limit) if needed > limit => Err(RegistryError::Quota { scope: scope(), limit, needed }),
        _ => Ok(()),
    }
}

//! Garbage collection: removes blobs without a manifest in their repository after their grace period, and
//! abandoned uploads. Pushes continue meanwhile: blobs are selected and removed in small steps under the lock that
//! adding a manifest takes.

use super::disk;
use super::error::{Attempt as _, Result};
use super::names::{Digest, RepositoryName};
use super::{Inner, Registry};
use tokio_util::sync::CancellationToken;

/// Blobs removed per step, while others wait: some tens of milliseconds on a slow disk.
const STEP_BLOBS: usize = 32;

/// The result of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Blobs removed from a repository.
    pub blobs: usize,
    /// Freed bytes; a blob in another repository frees none.
    pub bytes: u64,
    pub uploads: usize,
    pub repositories: usize,
}

impl Registry {
    /// Runs garbage collection once.
    pub async fn collect(&self) -> Result<Collected> {
        let mut collected = Collected { uploads: self.expire_uploads().await?, ..Collected::default() };
        let names: Vec<RepositoryName> = self.inner.index.read().repositories.keys().cloned().collect();
        for name in names {
            loop {
                let name = name.clone();
                let (blobs, bytes) = self.blocking(move |inner| inner.sweep(&name)).await?;
                collected.blobs += blobs;
                collected.bytes += bytes;
                if blobs < STEP_BLOBS {
                    break;
                }
            }
            let emptied = self.blocking(move |inner| inner.drop_if_empty(&name)).await?;
            collected.repositories += usize::from(emptied);
        }
        Ok(collected)
    }
}

impl Inner {
    /// Marks and sweeps a few blobs of one repository.
    fn sweep(&self, name: &RepositoryName) -> Result<(usize, u64)> {
        let _commit = self.commit.lock();
        let limit = self.clock.now().minus(self.options.grace);
        let garbage: Vec<Digest> = {
            let index = self.index.read();
            // A damaged manifest may need any blob.
            let whole = index.repositories.get(name).filter(|held| held.damaged.is_empty());
            let Some(held) = whole else { return Ok((0, 0)) };
            let referenced = held.referenced();
            let dead = held.blobs.iter().filter(|(digest, since)| **since <= limit && !referenced.contains(digest));
            dead.take(STEP_BLOBS).map(|(digest, _)| digest.clone()).collect()
        };
        let mut bytes = 0;
        for digest in &garbage {
            bytes += self.unlink(name, digest)?;
        }
        Ok((garbage.len(), bytes))
    }

    fn drop_if_empty(&self, name: &RepositoryName) -> Result<bool> {
        let _commit = self.commit.lock();
        if !self.index.read().repositories.get(name).is_some_and(super::index::Repository::is_empty) {
            return Ok(false);
        }
        disk::remove_folder(&self.layout.repository(name)).attempt("remove an empty repository")?;
        self.index.write().repositories.remove(name);
        Ok(true)
    }
}

/// Runs garbage collection periodically until stopped.
pub async fn run_collector(registry: Registry, stop: CancellationToken) {
    let every = registry.inner.options.gc_every;
    while stop.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
        match registry.collect().await {
            Ok(collected) if collected == Collected::default() => {}
            Ok(Collected { blobs, bytes, uploads, repositories }) => {
                tracing::info!(blobs, bytes, uploads, repositories, "ran garbage collection in the registry");
            }
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(%error, source, "cannot run garbage collection in the registry");
            }
        }
    }
}

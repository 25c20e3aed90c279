//! Opens a registry: reads its content and cleans up after an interrupted run.

use super::disk::{self, Layout};
use super::document;
use super::index::{Index, Manifest};
use super::manifests;
use super::names::{Digest, RepositoryName, Tag};
use super::uploads::Session;
use super::{Inner, Registry, RegistryOptions};
use margrave_core::time::{Clock, Timestamp};
use parking_lot::{Mutex, RwLock};
use rustix::fs::{FlockOperation, flock};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::Semaphore;
use uuid::Uuid;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("registry folder `{0}` is used by another process")]
    InUse(PathBuf),
    #[error("open the registry in `{folder}`")]
    Io {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Registry {
    /// Opens the folder, or creates it. Reads every manifest, so call it before the server answers.
    pub async fn open(options: RegistryOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let folder = options.folder.clone();
        let opened = tokio::task::spawn_blocking(move || open(options, clock)).await;
        match opened.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(inner) => Ok(Self { inner: Arc::new(inner) }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(OpenError::InUse(folder)),
            Err(source) => Err(OpenError::Io { folder, source }),
        }
    }
}

fn open(options: RegistryOptions, clock: Arc<dyn Clock>) -> io::Result<Inner> {
    let layout = Layout::new(options.folder.clone());
    disk::make_folder(&options.folder)?;
    let lock = File::create(layout.lock())?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    disk::remove_folder(&layout.temporary())?;
    disk::make_folder(&layout.temporary())?;

    let mut index = Index::default();
    let sizes = blob_sizes(&layout)?;
    for entry in disk::entries(&layout.repositories())? {
        match entry.file_name().to_str().and_then(RepositoryName::from_folder) {
            Some(name) => repository(&layout, &name, &sizes, &mut index, clock.now())?,
            None => {
                tracing::warn!(path = %entry.path().display(), "not a repository; ignored");
                index.incomplete |= entry.file_type()?.is_dir();
            }
        }
    }
    if index.incomplete {
        tracing::warn!("keeping all blobs on disk while there are unknown folders");
    } else {
        for digest in sizes.keys().filter(|digest| !index.blobs.contains_key(digest)) {
            // A kill happened between a blob and its first link.
            disk::remove(&layout.blob(digest))?;
        }
    }
    let sessions = sessions(&layout, clock.now())?;
    let uploading = sessions.values().map(|session| session.size()).sum();
    Ok(Inner {
        bodies: Arc::new(Semaphore::new(options.uploads_at_once)),
        options,
        layout,
        clock,
        index: RwLock::new(index),
        commit: Mutex::new(()),
        sessions: Mutex::new(sessions),
        uploading: AtomicU64::new(uploading),
        _lock: lock,
    })
}

fn blob_sizes(layout: &Layout) -> io::Result<HashMap<Digest, u64>> {
    let mut sizes = HashMap::new();
    for algorithm in disk::entries(&layout.blobs())? {
        // The folders in between are named by the first digits, which the digest repeats.
        for prefix in disk::entries(&algorithm.path())? {
            for entry in disk::entries(&prefix.path())? {
                let names = (algorithm.file_name(), entry.file_name());
                let digest =
                    names.0.to_str().zip(names.1.to_str()).and_then(|(name, hex)| Digest::from_parts(name, hex));
                if let Some(digest) = digest {
                    sizes.insert(digest, entry.metadata()?.len());
                }
            }
        }
    }
    Ok(sizes)
}

fn repository(
    layout: &Layout,
    name: &RepositoryName,
    sizes: &HashMap<Digest, u64>,
    index: &mut Index,
    now: Timestamp,
) -> io::Result<()> {
    let folder = layout.repository(name);
    for (digest, path) in disk::digests(&folder.join("blobs"))? {
        // An unreadable link counts as old as this start.
        let since = fs::read_to_string(&path)?.trim().parse().map_or(now, Timestamp);
        match sizes.get(&digest) {
            Some(size) => index.link(name, &digest, *size, since),
            None => tracing::error!(repository = %name, %digest, "a blob is missing from the registry's folder"),
        }
    }
    for (digest, path) in disk::digests(&folder.join("manifests"))? {
        match manifest(&path, &digest)? {
            Some(manifest) => index.put_manifest(name, &digest, manifest),
            None => {
                tracing::error!(repository = %name, %digest, "a manifest in the registry's folder is damaged; \
                    no blob of its repository is collected until it is pushed again or deleted");
                index.repositories.entry(name.clone()).or_default().damaged.insert(digest);
            }
        }
    }
    for entry in disk::entries(&folder.join("tags"))? {
        let tag = entry.file_name().to_str().and_then(|tag| tag.parse::<Tag>().ok());
        let digest = fs::read_to_string(entry.path())?.trim().parse::<Digest>().ok();
        let Some((tag, digest)) = tag.zip(digest) else { continue };
        match index.repositories.get_mut(name) {
            Some(held) if held.manifests.contains_key(&digest) || held.damaged.contains(&digest) => {
                held.tags.insert(tag, digest);
            }
            _ => tracing::warn!(repository = %name, tag = %tag, "a tag refers to a missing manifest"),
        }
    }
    Ok(())
}

fn manifest(path: &Path, digest: &Digest) -> io::Result<Option<Manifest>> {
    let file = fs::read(path)?;
    let Some((media_type, bytes)) = manifests::split(&file) else { return Ok(None) };
    if Digest::of(digest.algorithm(), bytes) != *digest {
        return Ok(None);
    }
    let document = document::read(Some(&media_type), bytes).ok();
    Ok(document.map(|document| Manifest::of(&document, bytes.len() as u64)))
}

fn sessions(layout: &Layout, now: Timestamp) -> io::Result<HashMap<Uuid, Arc<Session>>> {
    disk::make_folder(&layout.uploads())?;
    let mut sessions = HashMap::new();
    for entry in disk::entries(&layout.uploads())? {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<Uuid>().ok());
        let session = id.and_then(|id| {
            let repository = fs::read_to_string(layout.upload_owner(id)).ok()?.parse().ok()?;
            let received = fs::metadata(layout.upload_data(id)).ok()?.len();
            Some((id, Arc::new(Session::resumed(id, repository, received, now))))
        });
        match session {
            Some((id, session)) => {
                sessions.insert(id, session);
            }
            // Ended, or not started completely.
            None => disk::remove_folder(&entry.path())?,
        }
    }
    Ok(sessions)
}

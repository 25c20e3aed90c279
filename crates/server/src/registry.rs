//! The embedded OCI registry: distribution specification 1.1 over files in one folder, without a database.
//!
//! ```text
//! registry/
//!   blobs/sha256/ab/ab…       content by digest, shared by all repositories
//!   repositories/a,b/         the repository `a/b`
//!     blobs/sha256/ab…        "this repository has that blob", with the time it was added
//!     manifests/sha256/cd…    one line of JSON about the manifest, then its exact bytes
//!     tags/1.0                the digest that the tag refers to
//!   uploads/<uuid>/           an upload in progress: its data and its repository
//!   tmp/                      incomplete files; emptied when the registry opens
//!   pull-secret               the secret from which device credentials are derived
//!   pull-generations.json     which of them were replaced, and how often
//! ```
//!
//! Referrers are not stored: they are derived from the manifests when the registry opens.
//! A write is acknowledged after it is on disk. Content is added in the order blob, link, manifest, tag, so
//! that a kill at any instant leaves no dangling reference; unreferenced content is garbage-collected.
//!
//! **Authorization** is behind [`RegistryAuth`]. Operators push, delete and pull with their API
//! tokens (any user name, the token as password, or as a bearer token), and accepted clients pull with credentials that
//! are derived instead of stored (see [`pull`] and `docs/adr/0009-registry-pull-credentials.md`).

// Suggested reading order.
mod names;
mod disk;
mod document;
mod index;
mod load;
mod blobs;
mod uploads;
mod manifests;
mod listing;
mod collect;
mod package;
mod error;
mod range;
pub mod auth;
pub mod pull;
mod routes;
pub mod hosted;

pub use auth::{Access, Action, Credentials, RegistryAuth, Rollout};
pub use collect::{Collected, run_collector};
pub use document::{MANIFEST_BYTES_MAX, OCI_INDEX, OCI_MANIFEST};
pub use error::RegistryError;
pub use listing::{Listed, Usage};
pub use load::OpenError;
pub use manifests::{PutManifest, StoredManifest};
pub use names::{Algorithm, Digest, NameError, Reference, RepositoryName, Tag};
pub use package::Descriptor;
pub use pull::Raise;
pub use routes::router;
pub use uploads::Chunk;

use disk::Layout;
use error::Result;
use index::Index;
use margrave_core::time::Clock;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Semaphore;
use uploads::Session;
use uuid::Uuid;

/// Limits and folder of a registry.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    pub folder: PathBuf,
    /// Total bytes, including uploads in progress; `None`: limited by the disk only.
    pub bytes_max: Option<u64>,
    /// Bytes of one repository, including blobs it shares with others.
    pub repository_bytes_max: Option<u64>,
    pub blob_bytes_max: u64,
    /// Limits the memory of the index.
    pub repositories_max: usize,
    /// Requests with a body received at the same time; further ones are asked to retry later.
    pub uploads_at_once: usize,
    /// Uploads started and not yet completed.
    pub uploads_open_max: usize,
    /// An upload without activity for this long is deleted.
    pub upload_expiry: Duration,
    /// How long a blob without a manifest is kept, for a push whose manifest has not arrived yet.
    pub grace: Duration,
    pub gc_every: Duration,
    /// Longest pause in the middle of a body.
    pub body_idle_timeout: Duration,
}

impl RegistryOptions {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            bytes_max: None,
            repository_bytes_max: None,
            // Larger than any image layer seen in the field; keeps one push from filling a disk unnoticed.
            blob_bytes_max: 64 << 30,
            repositories_max: 100_000,
            uploads_at_once: 64,
            uploads_open_max: 1_000,
            upload_expiry: Duration::from_hours(24),
            grace: Duration::from_hours(24),
            gc_every: Duration::from_hours(1),
            body_idle_timeout: Duration::from_mins(1),
        }
    }
}

/// An open registry; cheap to clone.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    options: RegistryOptions,
    layout: Layout,
    clock: Arc<dyn Clock>,
    /// Locked only briefly, never while a file is written.
    index: RwLock<Index>,
    /// Every change of files outside `uploads/` takes this lock, on a blocking thread.
    commit: Mutex<()>,
    sessions: Mutex<HashMap<Uuid, Arc<Session>>>,
    /// Bytes in uploads in progress; they count against the quota.
    uploading: AtomicU64,
    bodies: Arc<Semaphore>,
    /// Locks out a second process while this one has the folder open.
    _lock: File,
}

impl Registry {
    /// Runs on a blocking thread, to its end even if the caller was dropped.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> Result<T> + Send + 'static) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|error| {
            Err(RegistryError::Storage { attempt: "finish a registry operation", source: io::Error::other(error) })
        })
    }
}

//! The embedded OCI registry: distribution specification 1.1 over files in one folder, without a database.
//!
//! ```text
//! registry/
//!   blobs/sha256/ab/ab…       content by digest, shared by all repositories
//!   repositories/a,b/         the repository `a/b`
//!     blobs/sha256/ab…        "this repository has that blob", with the time it came
//!     manifests/sha256/cd…    one line of JSON about the manifest, then its exact bytes
//!     tags/1.0                the digest the tag stands for
//!   uploads/<uuid>/           an upload under way: its data and the repository it is for
//!   tmp/                      files not yet whole; emptied when the registry opens
//!   pull-secret               what device credentials are derived from
//!   pull-generations.json     which of them were replaced, and how often
//! ```
//!
//! Referrers are not written down: they follow from the manifests and are worked out when the registry opens.
//! A write is acknowledged after it has reached the disk. Content is entered in the order blob, link, manifest, tag, so
//! that a kill at any instant leaves nothing that refers to something missing; what nothing refers to is collected.
//!
//! **Who may do what** is behind [`RegistryAuth`]. The server lets operators push, delete and pull with their API
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

pub use auth::{Access, Action, Change, Credentials, RegistryAuth};
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

/// Bounds and places of a registry.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    pub folder: PathBuf,
    /// Bytes of everything together, uploads under way included; `None` leaves it to the disk.
    pub bytes_max: Option<u64>,
    /// Bytes of one repository, blobs it shares with others included.
    pub repository_bytes_max: Option<u64>,
    pub blob_bytes_max: u64,
    /// A bound on what the index holds in memory.
    pub repositories_max: usize,
    /// Requests with a body that are received at the same time; further ones are told to come back.
    pub uploads_at_once: usize,
    /// Uploads begun and not yet ended.
    pub uploads_open_max: usize,
    /// An upload nobody touched for this long is dropped.
    pub upload_expiry: Duration,
    /// A blob that no manifest refers to stays this long, for a push that has not come to its manifest yet.
    pub grace: Duration,
    pub collect_every: Duration,
    /// The longest silence in the middle of a body.
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
            collect_every: Duration::from_hours(1),
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
    /// Held for moments only, never while a file is written.
    index: RwLock<Index>,
    /// Whoever changes files outside `uploads/` holds this, on a thread that may block.
    commit: Mutex<()>,
    sessions: Mutex<HashMap<Uuid, Arc<Session>>>,
    /// Bytes in uploads under way; they count against the quota.
    uploading: AtomicU64,
    bodies: Arc<Semaphore>,
    /// Keeps a second process out for as long as this one has the folder open.
    _lock: File,
}

impl Registry {
    /// Runs on a thread that may block, to its end even when whoever asked has gone away.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> Result<T> + Send + 'static) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|error| {
            Err(RegistryError::Storage { attempt: "finish a registry operation", source: io::Error::other(error) })
        })
    }
}

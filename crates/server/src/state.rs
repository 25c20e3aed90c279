//! The state shared by all handlers.

use crate::app::events::streams::Streams;
use crate::app::explain::CompatibilityCache;
use crate::app::fleet::DeviceCountCache;
use crate::app::notices::Notices;
use crate::app::overview::OverviewCache;
use crate::app::passwords::{Hashing, PasswordRateLimit};
use crate::app::publisher::Publisher;
use crate::app::reviews::Reviews;
use crate::app::sorting::SortCache;
use crate::catalog::{Descriptions, RegistryChecks};
use crate::config::Config;
use crate::devices::{CapabilityQueue, LongPolls, StatusQueue, UnacceptedClients};
use crate::identity::Identity;
use crate::manifest_cache::ManifestCache;
use crate::registry::hosted::Hosted;
use crate::telemetry::Metrics;
use margrave_core::time::{Clock, Timestamp};
use margrave_store::Store;
use std::ops::Deref;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Reference-counted: every request clones it several times.
#[derive(Clone)]
pub struct ServerState(Arc<Shared>);

/// One per process.
pub struct Shared {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub config: Arc<Config>,
    /// Per client: state, version, digest. Answers unchanged polls without the database (invariant 3).
    pub heads: Arc<ManifestCache>,
    /// Open long polls.
    pub long_polls: Arc<LongPolls>,
    /// Records unaccepted clients that connect.
    pub unaccepted: UnacceptedClients,
    /// The embedded identity service.
    pub identity: Arc<Identity>,
    /// Publishes rollouts in batches.
    pub publisher: Publisher,
    /// Descriptions in the catalog, parsed once.
    pub descriptions: Arc<Descriptions>,
    pub metrics: Arc<Metrics>,
    /// Group-commits status reports.
    pub statuses: StatusQueue,
    /// Group-commits capability reports.
    pub capabilities: CapabilityQueue,
    /// Event streams open now.
    pub streams: Arc<Streams>,
    /// Change notifications for open pages.
    pub notices: Arc<Notices>,
    /// The overview as last counted.
    pub board: Arc<OverviewCache>,
    /// Number of matching devices of recent searches, where counting is slow.
    pub fleet_counts: Arc<DeviceCountCache>,
    /// Hashes passwords, a few at a time.
    pub hashing: Hashing,
    /// Rate limit for password attempts.
    pub password_rate_limit: PasswordRateLimit,
    /// Cached results for drafts.
    pub reviews: Arc<Reviews>,
    pub compatibility_cache: Arc<CompatibilityCache>,
    pub sorts: Arc<SortCache>,
    /// Results of registry checks for the components of applications.
    pub served: RegistryChecks,
    /// The embedded OCI registry, unless it is off.
    pub registry: Option<Arc<Hosted>>,
    /// Addresses as seen from outside.
    pub urls: Arc<ExternalUrls>,
    /// Cancelled when the server begins to stop; long responses should end then.
    pub stopping: CancellationToken,
}

/// Base URLs without a trailing slash.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExternalUrls {
    /// Of the device API, with its path prefix.
    pub devices: String,
    pub trust: String,
    pub operators: String,
}

impl From<Shared> for ServerState {
    fn from(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }
}

impl Deref for ServerState {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Shared {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
    /// Clients last seen before this instant count as offline.
    pub fn offline_before(&self) -> Timestamp {
        self.now().minus(self.config.offline_after())
    }
}

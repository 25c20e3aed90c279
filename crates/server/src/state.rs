//! What every handler of the server shares.

use crate::app::events::streams::Streams;
use crate::app::explain::Fits;
use crate::app::fleet::KeptCounts;
use crate::app::notices::Notices;
use crate::app::overview::Board;
use crate::app::passwords::{Hashing, Pace};
use crate::app::publisher::Publisher;
use crate::app::reviews::Reviews;
use crate::catalog::{Descriptions, Served};
use crate::config::Config;
use crate::devices::{CapabilityQueue, Holds, StatusQueue, Strangers};
use crate::heads::Heads;
use crate::identity::Identity;
use crate::registry::hosted::Hosted;
use crate::telemetry::Metrics;
use margrave_core::time::{Clock, Timestamp};
use margrave_store::Store;
use std::ops::Deref;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What is shared, behind one count of its users: every request clones it several times.
#[derive(Clone)]
pub struct ServerState(Arc<Shared>);

/// One per process.
pub struct Shared {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub config: Arc<Config>,
    /// Per client: state, version, digest. Answers unchanged polls without the database (invariant 3).
    pub heads: Arc<Heads>,
    /// Polls that wait for a change.
    pub holds: Arc<Holds>,
    /// Records who asks and is not known.
    pub strangers: Strangers,
    /// The embedded identity service.
    pub identity: Arc<Identity>,
    /// Carries out changes in batches.
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
    /// What has changed, for the pages that are open.
    pub notices: Arc<Notices>,
    /// The fleet at a glance, as it was counted last.
    pub board: Arc<Board>,
    /// How many devices match what was looked for, where that takes long to count.
    pub fleet_counts: Arc<KeptCounts>,
    /// Hashes passwords, a few at a time.
    pub hashing: Hashing,
    /// How often passwords may be tried.
    pub pace: Pace,
    /// What drafts come to, as it was worked out last.
    pub reviews: Arc<Reviews>,
    pub fits: Arc<Fits>,
    /// What registries said about the components of applications.
    pub served: Served,
    /// The embedded OCI registry, unless it is off.
    pub registry: Option<Arc<Hosted>>,
    /// Addresses as seen from outside.
    pub urls: Arc<ExternalUrls>,
    /// Cancelled when the server begins to stop; long answers should end then.
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
    /// Clients last seen before this instant count as silent.
    pub fn silent_since(&self) -> Timestamp {
        self.now().minus(self.config.silent_after())
    }
}

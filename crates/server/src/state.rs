//! What every handler of the server shares.

use crate::app::publisher::Publisher;
use crate::catalog::Descriptions;
use crate::config::Config;
use crate::heads::Heads;
use crate::identity::Identity;
use crate::telemetry::Metrics;
use margrave_core::time::{Clock, Timestamp};
use margrave_store::Store;
use std::sync::Arc;

/// Cheap to clone; one per process.
#[derive(Clone)]
pub struct ServerState {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub config: Arc<Config>,
    /// Per client: state, version, digest. Answers unchanged polls without the database (invariant 3).
    pub heads: Arc<Heads>,
    /// The embedded identity service.
    pub identity: Arc<Identity>,
    /// Carries out changes in batches.
    pub publisher: Publisher,
    /// Descriptions in the catalog, parsed once.
    pub descriptions: Arc<Descriptions>,
    pub metrics: Arc<Metrics>,
}

impl ServerState {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
    /// Clients last seen before this instant count as silent.
    pub fn silent_since(&self) -> Timestamp {
        self.now().minus(self.config.silent_after())
    }
}

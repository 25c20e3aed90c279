//! Starts and stops the server.

mod bootstrap;
mod loops;
mod offline;
mod addresses;
mod seal_key;

pub use addresses::ADDRESSES_FILE;
pub use bootstrap::{ADMIN_PASSWORD_FILE, ADMIN_TOKEN_FILE};
pub use offline::set_password;
pub use seal_key::{SEAL_KEY_PREFIX, SealKeyError};

use crate::app::error::AppError;
use crate::app::events::streams::Streams;
use crate::app::passwords::{Hashing, PasswordRateLimit};
use crate::app::publisher;
use crate::catalog::{Descriptions, RegistryChecks};
use crate::config::{Config, Problem};
use crate::devices::{self, Capabilities, CapabilityQueue, LongPolls, StatusQueue, Statuses, UnacceptedClients};
use crate::identity::{Identity, IdentityError};
use crate::manifest_cache::ManifestCache;
use crate::net::serve::{CLOSE_GRACE, REST_AFTER};
use crate::net::tls::{self, Kind};
use crate::net::{Bound, Options, Site, Tls};
use crate::precedence::Precedence;
use crate::registry::hosted::{HostError, Hosted};
use crate::state::{ServerState, Shared};
use crate::telemetry::Metrics;
use crate::{operators, trust};
use addresses::Place;
use margrave_core::time::Clock;
use margrave_store::{Store, StoreError, StoreOptions};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("invalid configuration: {}", list(.0))]
    Config(Vec<Problem>),
    #[error("cannot write to the data folder `{}`: make it writable for this user or use another one with --data", path.display())]
    DataFolder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("another server is using the data folder `{}`: stop it or use another folder with --data", path.display())]
    InUse { path: PathBuf },
    #[error("cannot set the password")]
    Password(#[source] AppError),
    #[error("cannot open the store")]
    Store(#[from] StoreError),
    #[error(transparent)]
    SealKey(#[from] SealKeyError),
    #[error("cannot set up this server's identity")]
    Identity(#[from] IdentityError),
    #[error("cannot open the registry")]
    Registry(#[from] HostError),
    #[error("cannot listen for {listener} on {address}: {hint}")]
    Listen {
        listener: &'static str,
        address: SocketAddr,
        hint: &'static str,
        #[source]
        source: std::io::Error,
    },
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("`{}`: {}", problem.key, problem.text)).collect::<Vec<_>>().join("; ")
}

/// The addresses actually bound; `None` for a listener that is off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    pub devices: Option<SocketAddr>,
    pub trust: Option<SocketAddr>,
    pub operators: Option<SocketAddr>,
}

/// A running server.
pub struct Running {
    pub addresses: Addresses,
    pub state: ServerState,
    connections: TaskTracker,
    /// Stops the loops, after the connections are drained.
    stop_loops: CancellationToken,
    loops: TaskTracker,
    publisher: JoinHandle<()>,
    reports: [JoinHandle<()>; 2],
    /// Held while the server runs: one server per data folder.
    _lock: File,
}

/// Starts everything; returns when every listener answers.
pub async fn start(config: Config, clock: Arc<dyn Clock>) -> Result<Running, StartError> {
    let problems = config.problems();
    if !problems.is_empty() {
        return Err(StartError::Config(problems));
    }
    let config = Arc::new(config);
    // Without a folder nothing is written before the ports are known to be free.
    let (lock, bound) = if config.data_dir.exists() {
        let lock = addresses::take(&config)?;
        (lock, bind(&config).await?)
    } else {
        let bound = bind(&config).await?;
        (addresses::take(&config)?, bound)
    };
    let store = Store::open(&StoreOptions { url: config.store_url(), readers: config.store.readers }).await?;
    let store = seal_key::load_key(store, &config, clock.now()).await?;
    let descriptions = Arc::new(Descriptions::default());
    let identity = Arc::new(Identity::open(Arc::clone(&config), Arc::clone(&clock))?);
    let hashing = Hashing::default();
    bootstrap::admin_token(&store, &config, clock.now()).await?;
    // The position first: everything recorded after it is read again.
    let place_read = store.audit_newest_seq().await?;
    let heads = Arc::new(ManifestCache::load(&store).await?);
    let registry = Hosted::open(&config, &clock).await?;
    let place = Place::new(&config, &bound);
    place.write(&config)?;
    bootstrap::admin(&store, &config, &hashing, clock.now()).await?;

    let metrics = Arc::new(Metrics::default());
    let long_polls = Arc::new(LongPolls::new(&config, Arc::clone(&metrics)));
    let stop_loops = CancellationToken::new();
    let precedence = Precedence::default();
    let group = Statuses { store: store.clone(), heads: Arc::clone(&heads), metrics: Arc::clone(&metrics) };
    let (statuses, status_task) = StatusQueue::start(group, precedence.clone());
    let group = Capabilities { store: store.clone(), metrics: Arc::clone(&metrics) };
    let (capabilities, capability_task) = CapabilityQueue::start(group, precedence.clone());
    let parts = publisher::Parts {
        store: store.clone(),
        heads: Arc::clone(&heads),
        clock: Arc::clone(&clock),
        descriptions: Arc::clone(&descriptions),
        metrics: Arc::clone(&metrics),
    };
    let (publisher, publisher_task) = publisher::start(parts, precedence, stop_loops.clone());
    let streams = Arc::new(Streams::new(config.limits.event_streams, config.limits.event_streams_per_token));
    let state = ServerState::from(Shared {
        store,
        clock,
        config,
        heads,
        long_polls,
        unaccepted: UnacceptedClients::default(),
        identity,
        publisher,
        descriptions,
        metrics,
        statuses,
        capabilities,
        streams,
        notices: Arc::default(),
        board: Arc::default(),
        fleet_counts: Arc::default(),
        hashing,
        password_rate_limit: PasswordRateLimit::default(),
        reviews: Arc::default(),
        compatibility_cache: Arc::default(),
        sorts: Arc::new(crate::app::sorting::SortCache::until_renewed()),
        served: RegistryChecks::default(),
        registry,
        urls: Arc::new(place.urls),
        stopping: CancellationToken::new(),
    });
    bootstrap::announce(&state).await?;
    let loops = TaskTracker::new();
    loops::start(&state, place_read, &stop_loops, &loops);
    let connections = TaskTracker::new();
    listen(&state, bound, &connections)?;
    tracing::info!(
        devices = place.addresses.devices.map(tracing::field::display),
        trust = place.addresses.trust.map(tracing::field::display),
        operators = place.addresses.operators.map(tracing::field::display),
        wfm = %state.identity.wfm(),
        "server started"
    );
    Ok(Running {
        addresses: place.addresses,
        state,
        connections,
        stop_loops,
        loops,
        publisher: publisher_task,
        reports: [status_task, capability_task],
        _lock: lock,
    })
}

impl Running {
    /// Returns when the server begins to stop.
    pub async fn wait(&self) {
        self.state.stopping.cancelled().await;
    }

    /// Stops accepting, drains requests in progress, stops the loops, closes the store.
    pub async fn shutdown(self) {
        let Self { state, connections, stop_loops, loops, publisher, reports, addresses: _, _lock } = self;
        let limit = state.config.limits.drain_timeout.0;
        state.stopping.cancel();
        connections.close();
        if tokio::time::timeout(limit, connections.wait()).await.is_err() {
            tracing::warn!(connections = connections.len(), "drain timeout reached, closing open connections");
        }
        stop_loops.cancel();
        loops.close();
        loops.wait().await;
        if let Err(error) = publisher.await {
            tracing::error!(%error, "the publishing loop panicked");
        }
        // Every answered report is committed; the others will be sent again.
        for task in reports {
            task.abort();
            let _ = task.await;
        }
        state.store.close().await;
        tracing::info!("server stopped");
    }
}

/// Sockets by listener, bound before anything is served.
struct Sockets {
    devices: Option<Bound>,
    trust: Option<Bound>,
    operators: Option<Bound>,
}

async fn bind(config: &Config) -> Result<Sockets, StartError> {
    let listeners = &config.listeners;
    let one = async |listener: &'static str, enabled: bool, address: SocketAddr| {
        if !enabled {
            return Ok(None);
        }
        Bound::to(address).await.map(Some).map_err(|source| StartError::Listen {
            listener,
            address,
            hint: addresses::listen_hint(source.kind()),
            source,
        })
    };
    Ok(Sockets {
        devices: one("devices", listeners.devices.enabled, listeners.devices.address).await?,
        trust: one("trust", listeners.trust.enabled, listeners.trust.address).await?,
        operators: one("operators", listeners.operators.enabled, listeners.operators.address).await?,
    })
}

fn listen(state: &ServerState, sockets: Sockets, connections: &TaskTracker) -> Result<(), StartError> {
    let https = |kind| tls::follow(kind, &state.identity, &state.clock).map(Some);
    let Sockets { devices, trust, operators } = sockets;
    if let Some(bound) = devices {
        let site =
            Site { router: devices::router(state.clone()), fast_path: Some(Arc::new(devices::FastPath::new(state))) };
        spawn(state, "devices", bound, https(Kind::Devices)?, site, connections);
    }
    if let Some(bound) = trust {
        spawn(state, "trust", bound, https(Kind::Https)?, trust::router(state.clone()).into(), connections);
    }
    if let Some(bound) = operators {
        let tls = if state.config.listeners.operators.speaks_tls() { https(Kind::Https)? } else { None };
        spawn(state, "operators", bound, tls, operators::router(state.clone()).into(), connections);
    }
    Ok(())
}

fn spawn(
    state: &ServerState,
    name: &'static str,
    bound: Bound,
    tls: Option<Tls>,
    site: Site,
    connections: &TaskTracker,
) {
    let limits = &state.config.limits;
    let options = Options {
        name,
        http1_only: name == "devices",
        connections_max: limits.connections,
        handshake_timeout: limits.handshake_timeout.0,
        idle_timeout: limits.idle_timeout.0,
        connection_age_max: limits.connection_age_max.0,
        rest_after: REST_AFTER,
        close_grace: CLOSE_GRACE,
        clock: Arc::clone(&state.clock),
        metrics: Arc::clone(&state.metrics),
    };
    connections.spawn(bound.serve(options, tls, site, state.stopping.clone(), connections.clone()));
}

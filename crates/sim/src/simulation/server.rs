//! The server as a process that can crash: the real store on a real SQLite file, the real device API without sockets,
//! the real group commit, the real publisher.
//!
//! Only the file is durable; everything else is lost with the process.

mod device_api;

use super::cast;
use super::violation::Violation;
use super::{Bug, Options};
use axum::Router;
use margo::spiffe::ClientIdentity;
use margo::{ClientId, DeploymentId};
use margrave_agent::machine::io::{Request, Response};
use margrave_core::model::{Actor, ClientState, Reported, Rollout};
use margrave_core::time::{Clock, Timestamp};
use margrave_server::app::events::streams::Streams;
use margrave_server::app::publisher::{self, Publisher};
use margrave_server::catalog::{Descriptions, RegistryChecks};
use margrave_server::config::Config;
use margrave_server::devices::{
    self, Capabilities, CapabilityQueue, LongPolls, StatusQueue, Statuses, UnacceptedClients,
};
use margrave_server::identity::Identity;
use margrave_server::manifest_cache::ManifestCache;
use margrave_server::precedence::Precedence;
use margrave_server::state::{ServerState, Shared};
use margrave_server::telemetry::Metrics;
use margrave_store::{Store, StoreError, StoreOptions};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio_util::sync::CancellationToken;

/// So few that even a small rollout takes several batches.
const BATCH_TARGETS: usize = 2;

/// Manifests that a stale cache between agent and server could still contain.
const CACHE_PER_CLIENT: usize = 4;

/// Shared by all runs: keys are slow to generate and irrelevant here.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    config: Arc<Config>,
    identity: Arc<Identity>,
}

impl Installation {
    pub(crate) fn new(folder: &Path) -> anyhow::Result<Self> {
        let config = Arc::new(Config { data_dir: folder.to_owned(), ..Config::default() });
        let clock = Arc::new(SimulatedClock::default());
        clock.0.store(super::world::BEGINNING.0, Ordering::Relaxed);
        let identity = Arc::new(Identity::open(Arc::clone(&config), clock)?);
        Ok(Self { config, identity })
    }
}

pub(crate) struct Server {
    installation: Installation,
    url: String,
    process: Option<Process>,
    clock: Arc<SimulatedClock>,
    /// Earlier responses, for a stale cache.
    cache: HashMap<ClientId, VecDeque<Response>>,
}

struct Process {
    parts: publisher::Parts,
    /// The routes of the device API.
    devices: Router,
    /// Rollouts that the publisher has taken up.
    queue: VecDeque<Rollout>,
}

#[derive(Debug, Default)]
struct SimulatedClock(AtomicI64);

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) fn actor(name: &str) -> Actor {
    Actor { name: name.to_owned(), comment: None, request_id: None }
}

/// A store error without an injected fault is a violation.
pub(crate) fn unexpected(error: StoreError) -> Violation {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Violation::new("the store fails only on injected faults", text)
}

/// An empty database with its schema, created once: copying is faster than migrating a thousand times.
pub(crate) async fn template(folder: &Path) -> Result<PathBuf, Violation> {
    let path = folder.join("template.db");
    let store = Store::open(&options_for(&path)).await.map_err(unexpected)?;
    for shipped in cast::catalog() {
        let blobs = [(shipped.version.description_digest.clone(), shipped.bytes)];
        store.version_add(&actor("simulation"), &shipped.version, &blobs).await.map_err(unexpected)?;
    }
    store.close().await;
    Ok(path)
}

fn options_for(path: &Path) -> StoreOptions {
    StoreOptions { url: format!("sqlite://{}", path.display()), readers: 1 }
}

/// The device API over an empty store with one accepted client, to measure the cost of a poll.
pub(crate) async fn routes_for(folder: &Path, client: &ClientId) -> anyhow::Result<Router> {
    let failed = |violation: Violation| anyhow::anyhow!("{violation:?}");
    let clock = Arc::new(SimulatedClock::default());
    let url = options_for(&folder.join("counts.db")).url;
    let installation = Installation::new(folder)?;
    let mut server = Server { installation, url, process: None, clock, cache: HashMap::new() };
    server.start().await.map_err(failed)?;
    server.accept(client, Timestamp(0)).await.map_err(failed)?;
    Ok(server.process.expect("just started").devices)
}

impl Server {
    /// Installs a new database and starts.
    pub(crate) async fn install(options: &Options, now: Timestamp) -> Result<Self, Violation> {
        let clock = Arc::new(SimulatedClock::default());
        clock.0.store(now.0, Ordering::Relaxed);
        let url = options_for(&options.database).url;
        let installation = options.installation.clone();
        let mut server = Self { installation, url, process: None, clock, cache: HashMap::new() };
        server.start().await?;
        Ok(server)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    pub(crate) async fn start(&mut self) -> Result<(), Violation> {
        let options = StoreOptions { url: self.url.clone(), readers: 1 };
        let store = Store::open(&options).await.map_err(unexpected)?;
        let heads = Arc::new(ManifestCache::load(&store).await.map_err(unexpected)?);
        let clock: Arc<dyn Clock> = Arc::<SimulatedClock>::clone(&self.clock);
        let metrics = Arc::new(Metrics::default());
        let descriptions = Arc::new(Descriptions::default());
        let group = Statuses { store: store.clone(), heads: Arc::clone(&heads), metrics: Arc::clone(&metrics) };
        let (statuses, _) = StatusQueue::start(group, Precedence::default());
        let group = Capabilities { store: store.clone(), metrics: Arc::clone(&metrics) };
        let (capabilities, _) = CapabilityQueue::start(group, Precedence::default());
        let state = ServerState::from(Shared {
            store: store.clone(),
            clock: Arc::clone(&clock),
            config: Arc::clone(&self.installation.config),
            heads: Arc::clone(&heads),
            unaccepted: UnacceptedClients::default(),
            long_polls: Arc::new(LongPolls::new(&self.installation.config, Arc::clone(&metrics))),
            identity: Arc::clone(&self.installation.identity),
            publisher: Publisher::default(),
            descriptions: Arc::clone(&descriptions),
            metrics: Arc::clone(&metrics),
            statuses,
            capabilities,
            // No subscribers.
            streams: Arc::new(Streams::new(0, 0)),
            notices: Arc::default(),
            board: Arc::default(),
            fleet_counts: Arc::default(),
            hashing: margrave_server::app::passwords::Hashing::default(),
            password_rate_limit: margrave_server::app::passwords::PasswordRateLimit::default(),
            reviews: Arc::default(),
            compatibility_cache: Arc::default(),
            sorts: Arc::default(),
            served: RegistryChecks::default(),
            registry: None,
            urls: Arc::default(),
            stopping: CancellationToken::new(),
        });
        let parts = publisher::Parts { store, heads, clock, descriptions, metrics };
        self.process = Some(Process { parts, devices: devices::router(state), queue: VecDeque::new() });
        Ok(())
    }

    /// Crashes; everything uncommitted is lost.
    pub(crate) fn die(&mut self) {
        self.process = None;
    }

    /// Stops and closes the database.
    pub(crate) async fn die_and_wait(&mut self) {
        if let Some(process) = self.process.take() {
            process.parts.store.close().await;
        }
    }

    pub(crate) async fn accept(&mut self, client: &ClientId, now: Timestamp) -> Result<(), Violation> {
        let (_, head) = self
            .store()
            .client_create(&actor("operator"), client, ClientState::Accepted, None, now)
            .await
            .map_err(unexpected)?;
        self.parts().heads.put(head);
        Ok(())
    }

    pub(crate) async fn set_state(
        &mut self,
        client: &ClientId,
        state: ClientState,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let changed = self.store().client_set_state(&actor("operator"), client, state, None, now).await;
        let (_, head) = changed.map_err(unexpected)?;
        self.parts().heads.put(head);
        Ok(())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.parts().store
    }

    pub(crate) fn parts(&self) -> &publisher::Parts {
        &self.process.as_ref().expect("called only while the server is up").parts
    }

    pub(crate) fn set_clock(&self, now: Timestamp) {
        self.clock.0.store(now.0, Ordering::Relaxed);
    }

    /// Takes up unfinished rollouts and publishes one batch of the next. Returns the rollout.
    pub(crate) async fn publish(&mut self) -> Result<Option<Rollout>, Violation> {
        let process = self.process.as_mut().expect("called only while the server is up");
        if process.queue.is_empty() {
            process.queue = process.parts.store.rollouts_unfinished(8).await.map_err(unexpected)?.into();
        }
        let Some(rollout) = process.queue.pop_front() else { return Ok(None) };
        let done = publisher::step(&process.parts, &rollout, BATCH_TARGETS).await.map_err(unexpected)?;
        process.queue.extend(done.map(|done| Rollout { done, ..rollout.clone() }));
        Ok(Some(rollout))
    }

    /// The same batch by a stale publisher: must change nothing.
    pub(crate) async fn publish_again(&mut self, stale: &Rollout) -> Result<(), Violation> {
        let process = self.process.as_ref().expect("called only while the server is up");
        publisher::step(&process.parts, stale, BATCH_TARGETS).await.map_err(unexpected)?;
        Ok(())
    }

    pub(crate) async fn reported(&self, deployment: DeploymentId) -> Result<Option<Reported>, Violation> {
        let view = self.store().deployment_get(deployment).await.map_err(unexpected)?;
        Ok(view.and_then(|view| view.reported))
    }

    pub(crate) async fn handle(
        &mut self,
        client: &ClientId,
        request: &Request,
        now: Timestamp,
        options: &Options,
    ) -> Result<Response, Violation> {
        if options.bug == Some(Bug::StatusForgotten)
            && let Request::PostStatus { .. } = request
        {
            return Ok(Response { status: 200, ..Response::default() });
        }
        self.set_clock(now);
        let process = self.process.as_ref().expect("called only while the server is up");
        let identity = ClientIdentity { wfm: self.installation.identity.wfm().clone(), client_id: client.clone() };
        let mut response = device_api::handle(&process.devices, identity, request).await;
        if options.bug == Some(Bug::VersionReused)
            && let (Request::Poll { .. }, 200) = (request, response.status)
        {
            pin_version(&mut response);
        }
        if let (Request::Poll { .. }, 200) = (request, response.status) {
            let cache = self.cache.entry(client.clone()).or_default();
            if cache.back() != Some(&response) {
                cache.push_back(response.clone());
            }
            if cache.len() > CACHE_PER_CLIENT {
                cache.pop_front();
            }
        }
        Ok(response)
    }

    pub(crate) fn older_manifest(&self, client: &ClientId) -> Option<Response> {
        self.cache.get(client)?.front().cloned()
    }
}

/// The deliberate bug of a server that gives every manifest the same version.
fn pin_version(response: &mut Response) {
    if let Ok(read) = margo::manifest::StateManifest::read(&response.body) {
        let mut manifest = read.document;
        manifest.manifest_version = 1;
        response.body = manifest.to_json();
        response.etag = Some(margo::Digest::of(&response.body).etag());
    }
}

//! The server as a process that can die: the real store on a real SQLite file, the real device API without sockets, the
//! real group commit, the real publisher.
//!
//! What is durable is in the file; everything else goes with the process.

mod device_api;

use super::cast;
use super::violation::Violation;
use super::{Bug, Options};
use axum::Router;
use margo::spiffe::ClientIdentity;
use margo::{ClientId, DeploymentId};
use margrave_agent::machine::io::{Request, Response};
use margrave_core::model::{Actor, Change, ClientState, Reported};
use margrave_core::time::{Clock, Timestamp};
use margrave_server::app::events::streams::Streams;
use margrave_server::app::publisher::{self, Publisher};
use margrave_server::catalog::{Descriptions, Served};
use margrave_server::config::Config;
use margrave_server::devices::{self, Capabilities, CapabilityQueue, Holds, StatusQueue, Statuses, Strangers};
use margrave_server::heads::Heads;
use margrave_server::identity::Identity;
use margrave_server::precedence::Precedence;
use margrave_server::state::{ServerState, Shared};
use margrave_server::telemetry::Metrics;
use margrave_store::{Store, StoreError, StoreOptions};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio_util::sync::CancellationToken;

/// So few that even a small change takes several batches.
const BATCH_TARGETS: usize = 2;

/// Manifests a stale cache between agent and server could still hold.
const CACHE_PER_CLIENT: usize = 4;

/// What outlives every process of every world: keys take long to make and play no part here.
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
    /// What went out before, for a cache that answers with it.
    cache: HashMap<ClientId, VecDeque<Response>>,
}

struct Process {
    parts: publisher::Parts,
    /// The routes of the device API.
    devices: Router,
    /// Changes the publisher has taken up.
    queue: VecDeque<Change>,
}

#[derive(Debug, Default)]
struct SimulatedClock(AtomicI64);

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) fn actor(name: &str) -> Actor {
    Actor { name: name.to_owned(), reason: None, request_id: None }
}

/// A store that fails where nothing was injected is a finding.
pub(crate) fn unexpected(error: StoreError) -> Violation {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Violation::new("the store does not fail by itself", text)
}

/// An empty database with its schema, made once: copying it is faster than migrating a thousand times.
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

/// The device API over an empty store with one accepted client, for counting what a poll costs.
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
    /// Puts a fresh database in place and starts.
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
        let heads = Arc::new(Heads::load(&store).await.map_err(unexpected)?);
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
            strangers: Strangers::default(),
            holds: Arc::new(Holds::new(&self.installation.config, Arc::clone(&metrics))),
            identity: Arc::clone(&self.installation.identity),
            publisher: Publisher::default(),
            descriptions: Arc::clone(&descriptions),
            metrics: Arc::clone(&metrics),
            statuses,
            capabilities,
            // Nobody watches.
            streams: Arc::new(Streams::new(0, 0)),
            notices: Arc::default(),
            board: Arc::default(),
            fleet_counts: Arc::default(),
            hashing: margrave_server::app::passwords::Hashing::default(),
            pace: margrave_server::app::passwords::Pace::default(),
            reviews: Arc::default(),
            fits: Arc::default(),
            served: Served::default(),
            registry: None,
            urls: Arc::default(),
            stopping: CancellationToken::new(),
        });
        let parts = publisher::Parts { store, heads, clock, descriptions, metrics };
        self.process = Some(Process { parts, devices: devices::router(state), queue: VecDeque::new() });
        Ok(())
    }

    /// Everything that was not committed is gone.
    pub(crate) fn die(&mut self) {
        self.process = None;
    }

    /// Ends for good, with the database closed.
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
        &self.process.as_ref().expect("asked only while the server is up").parts
    }

    pub(crate) fn set_clock(&self, now: Timestamp) {
        self.clock.0.store(now.0, Ordering::Relaxed);
    }

    /// Takes up what is unfinished and carries out one batch of the next change in turn. Says which clients got a manifest.
    pub(crate) async fn publish(&mut self) -> Result<Option<Change>, Violation> {
        let process = self.process.as_mut().expect("asked only while the server is up");
        if process.queue.is_empty() {
            process.queue = process.parts.store.changes_unfinished(8).await.map_err(unexpected)?.into();
        }
        let Some(change) = process.queue.pop_front() else { return Ok(None) };
        let done = publisher::step(&process.parts, &change, BATCH_TARGETS).await.map_err(unexpected)?;
        process.queue.extend(done.map(|done| Change { done, ..change.clone() }));
        Ok(Some(change))
    }

    /// The same batch by a publisher that has not noticed that it was done: must change nothing.
    pub(crate) async fn publish_again(&mut self, stale: &Change) -> Result<(), Violation> {
        let process = self.process.as_ref().expect("asked only while the server is up");
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
        let process = self.process.as_ref().expect("asked only while the server is up");
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

/// The planted mistake of a server that gives every manifest the same number.
fn pin_version(response: &mut Response) {
    if let Ok(read) = margo::manifest::StateManifest::read(&response.body) {
        let mut manifest = read.document;
        manifest.manifest_version = 1;
        response.body = manifest.to_json();
        response.etag = Some(margo::Digest::of(&response.body).etag());
    }
}

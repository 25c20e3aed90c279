//! A server for one test, and clients for it.

pub(crate) mod client;
pub(crate) mod fleet;
pub(crate) mod held;
pub(crate) mod pki;
pub(crate) mod postgres;

use client::Device;
use margo::ids::ClientId;
use margrave_core::model::{Actor, ClientState};
use margrave_core::time::{Clock, Timestamp};
use margrave_server::config::{Config, Span};
use margrave_server::run::{self, Running, StartError};
use margrave_server::state::ServerState;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for a condition; reaching it is a failure.
const PATIENCE: Duration = Duration::from_mins(1);

/// A clock that moves only when a test moves it.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        // 21 September 2026; any time will do.
        Arc::new(Self(AtomicI64::new(1_790_000_000_000_000)))
    }
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) struct TestServer {
    pub(crate) running: Running,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) data: TempDir,
}

/// Settings for a test: loopback, free ports, text logs.
pub(crate) fn config(data: &TempDir) -> Config {
    let mut config = Config::default();
    let free: SocketAddr = ([127, 0, 0, 1], 0).into();
    config.data_dir = data.path().join("data");
    config.listeners.devices.address = free;
    config.listeners.trust.address = free;
    config.listeners.operators.address = free;
    // Unless a test is about it, registries of the samples are not checked.
    config.catalog.check_registries = false;
    config.limits.drain_timeout = Span(Duration::from_secs(2));
    config
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts with other settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = config(&data);
        change(&mut config);
        Self::start_in(data, TestClock::new(), config).await.unwrap()
    }

    pub(crate) async fn start_in(data: TempDir, clock: Arc<TestClock>, config: Config) -> Result<Self, StartError> {
        let running = run::start(config, clock.clone()).await?;
        Ok(Self { running, clock, data })
    }

    /// Stops the server and starts another one on the same folder.
    pub(crate) async fn restart(self) -> Self {
        let config = Config::clone(&self.running.state.config);
        let (data, clock) = self.stop().await;
        Self::start_in(data, clock, config).await.unwrap()
    }

    /// Stops the server; its data stays as long as the folder is held.
    pub(crate) async fn stop(self) -> (TempDir, Arc<TestClock>) {
        let Self { running, clock, data } = self;
        running.shutdown().await;
        (data, clock)
    }

    pub(crate) fn state(&self) -> &ServerState {
        &self.running.state
    }

    pub(crate) fn devices(&self) -> SocketAddr {
        self.running.addresses.devices.unwrap()
    }

    pub(crate) fn trust_url(&self, path: &str) -> String {
        format!("https://{}{path}", self.running.addresses.trust.unwrap())
    }

    pub(crate) fn operators_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.addresses.operators.unwrap())
    }

    /// The initial admin token.
    pub(crate) fn admin_token(&self) -> String {
        let path = self.state().config.data_dir.join(run::ADMIN_TOKEN_FILE);
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// The initial password.
    pub(crate) fn admin_password(&self) -> String {
        let path = self.state().config.data_dir.join(run::ADMIN_PASSWORD_FILE);
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// An accepted client with an SVID of this server.
    pub(crate) async fn accepted(&self, id: &str) -> Device {
        self.create(id, ClientState::Accepted).await;
        self.device(id)
    }

    pub(crate) async fn create(&self, id: &str, state: ClientState) {
        let (_, head) =
            self.state().store.client_create(&actor(), &client_id(id), state, None, self.clock.now()).await.unwrap();
        self.state().heads.put(head);
    }

    pub(crate) async fn set_state(&self, id: &str, state: ClientState) {
        let (_, head) =
            self.state().store.client_set_state(&actor(), &client_id(id), state, None, self.clock.now()).await.unwrap();
        self.state().heads.put(head);
    }

    /// A client with an SVID of this server, accepted or not.
    pub(crate) fn device(&self, id: &str) -> Device {
        let key = pki::key();
        let issued = self.state().identity.issue(&client_id(id), &pki::csr(&key), None).unwrap();
        Device::new(self, &issued.certificate_pem, &key)
    }
}

pub(crate) fn client_id(text: &str) -> ClientId {
    text.parse().unwrap()
}

pub(crate) fn actor() -> Actor {
    Actor { name: "token:test".to_owned(), comment: Some("a test".to_owned()), request_id: None }
}

/// Waits until a condition holds.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

//! An agent under test: short periods, its own folder, stopped at the end.

use crate::fake::Fake;
use crate::pki::{Authority, WFM, client_id, provision};
use margo::{DeploymentId, Digest};
use margrave_agent::AgentConfig;
use margrave_agent::machine::report::Report;
use margrave_agent::runtimes::Runtime;
use margrave_agent::runtimes::simulated::Simulated;
use margrave_agent::runtimes::simulated::script::Script;
use margrave_core::publish::{self, Publication, ServedDeployment};
use margrave_core::time::Clock;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far above any normal duration; reached only on failure.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) fake: Fake,
}

impl World {
    pub(crate) async fn new() -> Self {
        let authority = Authority::new("plant");
        let fake = Fake::start(&authority.svid(WFM), &authority).await;
        fake.publish(&publish::next(0, &[]).unwrap(), &[]);
        Self { authority, fake }
    }

    pub(crate) fn agent(&self) -> Agent {
        Agent::start(self, |_| {})
    }
}

pub(crate) struct Agent {
    pub(crate) folder: TempDir,
    pub(crate) runtime: Arc<Simulated>,
    cancel: CancellationToken,
    task: Option<JoinHandle<Result<(), margrave_agent::AgentError>>>,
}

/// Settings that make a test quick.
pub(crate) fn quick(config: &mut AgentConfig, state_dir: &Path) {
    state_dir.clone_into(&mut config.state_dir);
    config.poll.period = Duration::from_millis(100);
    config.poll.forbidden_period = Duration::from_millis(100);
    config.retry.first = Duration::from_millis(50);
    config.retry.max = Duration::from_millis(200);
    config.observe_period = Duration::from_millis(100);
    config.http.request_timeout = Duration::from_secs(5);
}

/// A provisioned client of this world with its state in `folder`.
fn provisioned(world: &World, folder: &Path) -> AgentConfig {
    let leaf = world.authority.svid(&client_id("press-07"));
    let [certificate, key, bundle] = provision(folder, &leaf, &world.authority.pem);
    let mut config = AgentConfig { server: Some(world.fake.url()), ..AgentConfig::default() };
    quick(&mut config, &folder.join("state"));
    config.identity.certificate = Some(certificate);
    config.identity.key = Some(key);
    config.identity.trust_bundle = Some(bundle);
    config
}

impl Agent {
    pub(crate) fn start(world: &World, change: impl FnOnce(&mut AgentConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = provisioned(world, folder.path());
        change(&mut config);
        Self::with(config, folder)
    }

    pub(crate) fn with(config: AgentConfig, folder: TempDir) -> Self {
        let runtime = Arc::new(Simulated::in_memory(Script::default()));
        let mut agent = Self { folder, runtime, cancel: CancellationToken::new(), task: None };
        agent.begin(config, Arc::new(margrave_agent::SystemClock));
        agent
    }

    fn begin(&mut self, config: AgentConfig, clock: Arc<dyn Clock>) {
        self.cancel = CancellationToken::new();
        let engine: Arc<dyn Runtime> = self.runtime.clone();
        self.task = Some(tokio::spawn(margrave_agent::run(config, engine, clock, self.cancel.clone())));
    }

    /// Restarts the agent with the same folder and workloads.
    pub(crate) fn start_again(&mut self, world: &World) {
        self.start_again_with(world, |_| {});
    }

    pub(crate) fn start_again_with(&mut self, world: &World, change: impl FnOnce(&mut AgentConfig)) {
        let mut config = provisioned(world, self.folder.path());
        change(&mut config);
        self.begin(config, Arc::new(margrave_agent::SystemClock));
    }

    /// Reboots the machine: no workloads run, and it has the given clock.
    pub(crate) fn reboot(&mut self, world: &World, clock: Arc<dyn Clock>) {
        self.runtime = Arc::new(Simulated::in_memory(Script::default()));
        self.begin(provisioned(world, self.folder.path()), clock);
    }

    pub(crate) fn state_dir(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) async fn stop(&mut self) {
        self.cancel.cancel();
        if let Some(task) = self.task.take() {
            task.await.unwrap().unwrap();
        }
    }

    pub(crate) fn report(&self) -> Option<Report> {
        let json = std::fs::read(self.state_dir().join("report.json")).ok()?;
        serde_json::from_slice(&json).ok()
    }

    /// Waits for a problem; the agent writes its report every two seconds.
    pub(crate) async fn in_trouble(&self, code: &str) -> Report {
        let has = |report: &Report| report.troubles.iter().any(|trouble| trouble.code.number() == code);
        eventually(&format!("trouble {code}"), || self.report().as_ref().is_some_and(has)).await;
        self.report().unwrap()
    }

    pub(crate) fn accepted(&self) -> Option<u64> {
        margrave_agent::disk::load(&self.state_dir()).loaded.accepted.map(|accepted| accepted.version)
    }

    /// What runs, by deployment, with the revision of each.
    pub(crate) async fn running(&self) -> Vec<(DeploymentId, Digest)> {
        let seen = self.runtime.observe().await.unwrap();
        let digest = |seen: &margrave_agent::machine::io::ObservedDeployment| match seen {
            margrave_agent::machine::io::ObservedDeployment::Known { components, .. } => {
                components["web"].digest.clone()
            }
            margrave_agent::machine::io::ObservedDeployment::Unknown { .. } => Digest::of(b"unknown"),
        };
        let mut running: Vec<_> = seen.deployments.iter().map(|(id, seen)| (*id, digest(seen))).collect();
        running.sort();
        running
    }

    pub(crate) async fn runs(&self, deployments: &[ServedDeployment]) {
        let mut wanted: Vec<_> = deployments.iter().map(|served| (served.id, served.digest.clone())).collect();
        wanted.sort();
        let start = Instant::now();
        while self.running().await != wanted {
            assert!(start.elapsed() < PATIENCE, "runs {:?}, should run {wanted:?}", self.running().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

pub(crate) fn deployment(number: u8, revision: &str) -> ServedDeployment {
    let id: DeploymentId = format!("00000000-0000-4000-8000-0000000000{number:02x}").parse().unwrap();
    let yaml = format!(
        "id: {id}\nmetadata:\n  name: app-{number}\n  namespace: plant\n  deviceId: press-07\nspec:\n  applicationId: app-{number}\n  deploymentProfile:\n    type: compose\n    components:\n      - name: web\n        properties:\n          repository: oci://registry.example/web\n          revision: {revision}\n"
    )
    .into_bytes();
    ServedDeployment { id, digest: Digest::of(&yaml), yaml }
}

pub(crate) fn set(count: u8, revision: &str) -> Vec<ServedDeployment> {
    (1..=count).map(|number| deployment(number, revision)).collect()
}

pub(crate) fn version(previous: u64, deployments: &[ServedDeployment]) -> Publication {
    publish::next(previous, deployments).unwrap()
}

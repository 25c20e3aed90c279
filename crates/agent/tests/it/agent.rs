//! The agent as a separate process, with a manager that serves what the test publishes.

use crate::fake::Fake;
use crate::pki::{Authority, WFM, client_id, provision};
use margo::DeploymentId;
use margo::status::{DeploymentStatus, State};
use margrave_core::publish::{self, ServedDeployment};
use margrave_testbed::tools::{PATIENCE, wait_for};
use std::fs::{self, File};
use std::ops::DerefMut;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

static DEPLOYMENTS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Agent {
    pub(crate) fake: Fake,
    /// Signs the certificates of manager and device.
    pub(crate) authority: Authority,
    folder: TempDir,
    pub(crate) state_dir: PathBuf,
    child: Option<Child>,
    pub(crate) version: u64,
    pub(crate) observe_period: &'static str,
    /// Further tables of the configuration.
    pub(crate) tables: String,
    /// The unique id of the deployment under test.
    pub(crate) id: DeploymentId,
}

impl Agent {
    /// With a manager on this address of the machine.
    pub(crate) async fn new(address: &str) -> Self {
        let authority = Authority::new("plant");
        let fake = Fake::start_on(address, &authority.svid(WFM), &authority).await;
        fake.publish(&publish::next(0, &[]).unwrap(), &[]);
        let folder = tempfile::tempdir().unwrap();
        let number = DEPLOYMENTS.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id()).parse().unwrap();
        let state_dir = folder.path().join("state");
        Self {
            fake,
            authority,
            folder,
            state_dir,
            child: None,
            version: 1,
            observe_period: "2s",
            tables: String::new(),
            id,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A configuration for this engine; `see` is where the agent will find the files of the test.
    pub(crate) fn config(&self, engine: &str, state_dir: &Path, see: impl Fn(&Path) -> PathBuf) -> String {
        let leaf = self.authority.svid(&client_id("press-07"));
        let files = provision(self.folder.path(), &leaf, &self.authority.pem);
        let [certificate, key, bundle] = files.map(|file| show(&see(&file)));
        format!(
            "server = \"{}\"\nstate_dir = {}\nobserve_period = \"{}\"\n\
             [poll]\nperiod = \"200ms\"\nlong_poll = \"0s\"\nstart_spread = \"0s\"\n\
             [retry]\nfirst = \"300ms\"\nmax = \"2s\"\n\
             [identity]\ncertificate = {certificate}\nkey = {key}\ntrust_bundle = {bundle}\n{engine}\n{}\n",
            self.fake.url(),
            show(state_dir),
            self.observe_period,
            self.tables,
        )
    }

    /// Starts the agent as an operator would, for this engine.
    pub(crate) fn start_with(&mut self, engine: &str) {
        assert!(self.child.is_none());
        let path = self.path("agent.toml");
        fs::write(&path, self.config(engine, &self.state_dir, Path::to_path_buf)).unwrap();
        let log = File::options().create(true).append(true).open(self.path("agent.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_margrave-agent"))
            .arg("run")
            .arg("--config")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it if it runs.
    pub(crate) fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("agent.log")).unwrap_or_default()
    }

    pub(crate) fn publish(&mut self, deployments: &[ServedDeployment]) {
        let publication = publish::next(self.version, deployments).unwrap();
        self.version = publication.version;
        self.fake.publish(&publication, deployments);
    }

    /// The last status of the deployment for the current manifest.
    pub(crate) fn status(&self) -> Option<DeploymentStatus> {
        self.fake.reported(self.id).pop().filter(|status| status.adopted_manifest_version >= self.version)
    }

    pub(crate) async fn reaches(&self, state: State) -> DeploymentStatus {
        let start = Instant::now();
        loop {
            let status = self.status();
            if let Some(status) = status.clone().filter(|status| status.state == state) {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "never {state:?}: {status:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn until(&self, what: &str, condition: impl FnMut() -> bool) {
        wait_for(&format!("{what}\n{}", self.path("agent.log").display()), condition).await;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), self.log().as_bytes());
        }
    }
}

/// Kills the agent of a device as soon as a condition holds.
pub(crate) async fn kill_when<D: DerefMut<Target = Agent>>(device: &mut D, what: &str, condition: impl Fn(&D) -> bool) {
    let start = Instant::now();
    while !condition(device) {
        assert!(start.elapsed() < PATIENCE, "never: {what}\n{}", device.log());
        tokio::task::yield_now().await;
    }
    device.kill();
}

/// As a string of the configuration.
pub(crate) fn show(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

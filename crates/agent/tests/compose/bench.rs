//! A device under test: engine, registry, manager, and the agent as a process of its own.

use crate::fake::Fake;
use crate::pki::{Authority, WFM, client_id, provision};
use margo::status::{DeploymentStatus, State};
use margo::{DeploymentId, Digest};
use margrave_core::publish::{self, ServedDeployment};
use margrave_testbed::tools::{PATIENCE, tool, wait_for};
use margrave_testbed::{Docker, Registry, Tokens, User};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::Mutex;

pub(crate) const USER: User = User { name: "device", password: "first secret" };
/// Of the component whose archive the tests push.
pub(crate) const REPOSITORY: &str = "components/web";

/// One engine for the tests that leave it running; it ends with the last of them.
static SHARED: Mutex<Weak<Docker>> = Mutex::const_new(Weak::new());
static DEPLOYMENTS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Device {
    pub(crate) docker: Arc<Docker>,
    pub(crate) registry: Registry,
    pub(crate) fake: Fake,
    authority: Authority,
    folder: TempDir,
    pub(crate) state_dir: PathBuf,
    agent: Option<Child>,
    pub(crate) version: u64,
    pub(crate) observe_period: &'static str,
    /// Further tables of the configuration.
    pub(crate) tables: String,
    pub(crate) id: DeploymentId,
}

/// A compose file with one service that writes to a volume and says what it was told.
pub(crate) fn web(image: &str) -> String {
    format!(
        r#"services:
  web:
    image: {image}
    command: ["/bin/sh", "-c", "echo $${{MODE}} > /data/mode; echo x >> /data/starts; echo mode is $${{MODE}}; sleep 1000000"]
    environment: {{ MODE: "${{MODE:-none}}" }}
    scale: ${{COUNT:-1}}
    volumes: ["data:/data"]
volumes:
  data: {{}}
"#
    )
}

/// What a deployment document says beyond its usual content.
#[derive(Default)]
pub(crate) struct Wish<'a> {
    pub(crate) revision: &'a str,
    pub(crate) parameters: &'a [(&'a str, &'a str)],
    /// More lines below `properties`, `spec`.
    pub(crate) properties: &'a str,
    pub(crate) spec: &'a str,
}

impl Device {
    async fn shared() -> Arc<Docker> {
        let mut shared = SHARED.lock().await;
        if let Some(docker) = shared.upgrade() {
            return docker;
        }
        let docker = Arc::new(Docker::start().await);
        *shared = Arc::downgrade(&docker);
        docker
    }

    pub(crate) async fn new() -> Self {
        let docker = Self::shared().await;
        Self::with(docker).await
    }

    /// With a registry that sends for tokens.
    pub(crate) async fn with_tokens(tokens: Tokens) -> Self {
        let docker = Self::shared().await;
        let registry = Registry::start_with_tokens(docker.address(), USER, tokens).await;
        Self::with_registry(docker, registry).await
    }

    /// With an engine of its own, to be ended and started.
    pub(crate) async fn alone() -> Self {
        Self::with(Arc::new(Docker::start().await)).await
    }

    /// With an engine whose data lies below this folder.
    pub(crate) async fn alone_in(folder: &Path) -> Self {
        Self::with(Arc::new(Docker::start_in(folder).await)).await
    }

    /// On Podman, through its socket.
    pub(crate) async fn on_podman() -> Self {
        Self::with(Arc::new(Docker::start_podman().await)).await
    }

    async fn with(docker: Arc<Docker>) -> Self {
        // On the bridge, where the engine insists on a certificate it trusts.
        let registry = Registry::start(docker.address(), Some(USER)).await;
        Self::with_registry(docker, registry).await
    }

    async fn with_registry(docker: Arc<Docker>, registry: Registry) -> Self {
        let authority = Authority::new("plant");
        let fake = Fake::start(&authority.svid(WFM), &authority).await;
        fake.publish(&publish::next(0, &[]).unwrap(), &[]);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("password"), USER.password).unwrap();
        let number = DEPLOYMENTS.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id()).parse().unwrap();
        let state_dir = folder.path().join("state");
        Self {
            docker,
            registry,
            fake,
            authority,
            folder,
            state_dir,
            agent: None,
            version: 1,
            observe_period: "2s",
            tables: String::new(),
            id,
        }
    }

    /// Who signs as the manager of this device.
    pub(crate) fn manager(&self) -> crate::pki::Leaf {
        self.authority.svid(WFM)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_config(&self) -> PathBuf {
        let leaf = self.authority.svid(&client_id("press-07"));
        let [certificate, key, bundle] = provision(self.folder.path(), &leaf, &self.authority.pem);
        let show = |path: &Path| format!("{:?}", path.display().to_string());
        let text = format!(
            "server = \"{}\"\nstate_dir = {}\nobserve_period = \"{}\"\n\
             [poll]\nperiod = \"200ms\"\nhold = \"0s\"\nstart_spread = \"0s\"\n\
             [retry]\nfirst = \"300ms\"\nmax = \"2s\"\n\
             [identity]\ncertificate = {}\nkey = {}\ntrust_bundle = {}\n\
             [compose]\nsocket = {}\ncommand = [{}]\ncertificates = {}\n\
             [[registry]]\nhost = \"{}\"\nca_file = {}\nusername = \"{}\"\npassword_file = {}\n{}\n",
            self.fake.url(),
            show(&self.state_dir),
            self.observe_period,
            show(&certificate),
            show(&key),
            show(&bundle),
            show(&self.docker.socket()),
            show(&tool("docker-compose")),
            show(&self.docker.certificates()),
            self.registry.host(),
            show(&self.registry.ca_file()),
            USER.name,
            show(&self.path("password")),
            self.tables,
        );
        let path = self.path("agent.toml");
        fs::write(&path, text).unwrap();
        path
    }

    /// Starts the agent as an operator would.
    pub(crate) fn start(&mut self) {
        assert!(self.agent.is_none());
        let log = File::options().create(true).append(true).open(self.path("agent.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_margrave-agent"))
            .arg("run")
            .arg("--config")
            .arg(self.write_config())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.agent = Some(child);
    }

    /// Ends it at this instant, wherever it is.
    pub(crate) fn kill(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("agent.log")).unwrap_or_default()
    }

    /// The deployment document of one component `web`.
    pub(crate) fn document(&self, wish: &Wish<'_>) -> ServedDeployment {
        let source = format!(
            "          repository: {}\n          revision: {}\n",
            self.registry.repository(REPOSITORY),
            wish.revision
        );
        self.document_from(&source, wish)
    }

    pub(crate) fn document_from(&self, source: &str, wish: &Wish<'_>) -> ServedDeployment {
        let id = self.id;
        let mut yaml = format!(
            "id: {id}\nmetadata:\n  name: app\n  namespace: plant\n  deviceId: press-07\nspec:\n  applicationId: app\n  \
             deploymentProfile:\n    type: compose\n    components:\n      - name: web\n        properties:\n{source}{}",
            wish.properties
        );
        if !wish.parameters.is_empty() {
            yaml.push_str("  parameters:\n");
            for (name, value) in wish.parameters {
                let lower = name.to_lowercase();
                let text = format!(
                    "    {lower}:\n      value: {value}\n      targets:\n        - pointer: {name}\n          components: [web]\n"
                );
                yaml.push_str(&text);
            }
        }
        yaml.push_str(wish.spec);
        ServedDeployment { id, digest: Digest::of(yaml.as_bytes()), yaml: yaml.into_bytes() }
    }

    pub(crate) fn publish(&mut self, deployments: &[ServedDeployment]) {
        let publication = publish::next(self.version, deployments).unwrap();
        self.version = publication.version;
        self.fake.publish(&publication, deployments);
    }

    pub(crate) fn publish_wish(&mut self, wish: &Wish<'_>) {
        let served = self.document(wish);
        self.publish(&[served]);
    }

    /// The last word about the deployment, said of the manifest that stands.
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

    /// Installs the component `web` from one image and waits for it.
    pub(crate) async fn install(&mut self, parameters: &[(&str, &str)]) -> String {
        let image = self.push_image("1").await;
        self.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
        self.publish_wish(&Wish { revision: "1.0.0", parameters, ..Wish::default() });
        self.start();
        self.reaches(State::Installed).await;
        image
    }

    pub(crate) async fn push_image(&self, tag: &str) -> String {
        self.registry.push_image("images/web", tag, &margrave_testbed::images::busybox(tag)).await
    }

    pub(crate) fn label(&self) -> String {
        format!("label=org.margrave.deployment={}", self.id)
    }

    /// Ids of the containers of the deployment that run, oldest number first.
    pub(crate) fn containers(&self) -> Vec<String> {
        self.list(&["ps", "--no-trunc", "--quiet", "--filter", &self.label()])
    }

    pub(crate) fn all_containers(&self) -> Vec<String> {
        self.list(&["ps", "--all", "--no-trunc", "--quiet", "--filter", &self.label()])
    }

    fn list(&self, arguments: &[&str]) -> Vec<String> {
        let mut lines: Vec<String> = self.docker.docker(arguments).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    pub(crate) fn project(&self) -> String {
        margrave_agent::runtimes::compose::names::project(self.id, "web")
    }

    pub(crate) fn volumes(&self) -> Vec<String> {
        let filter = format!("label=com.docker.compose.project={}", self.project());
        self.list(&["volume", "ls", "--quiet", "--filter", &filter])
    }

    /// Reads a file of the first running container.
    pub(crate) fn read(&self, path: &str) -> String {
        let containers = self.containers();
        let container = containers.first().expect("a container runs");
        self.docker.docker(&["exec", container, "/bin/cat", path])
    }

    pub(crate) async fn until(&self, what: &str, condition: impl FnMut() -> bool) {
        wait_for(&format!("{what}\n{}", self.path("agent.log").display()), condition).await;
    }

    /// Nothing of ours is left for the next test.
    fn clean(&self) {
        let containers = self.docker.try_docker(&["ps", "--all", "--quiet", "--filter", &self.label()]);
        for container in containers.1.lines().filter(|_| containers.0) {
            self.docker.try_docker(&["rm", "--force", container]);
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        self.clean();
    }
}

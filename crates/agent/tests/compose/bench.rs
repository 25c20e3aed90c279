//! A device under test: engine, registry, manager, and the agent as a separate process.

use crate::agent::{Agent, show};
use margo::Digest;
use margo::status::State;
use margrave_core::publish::ServedDeployment;
use margrave_testbed::tools::tool;
use margrave_testbed::{Docker, Registry, Tokens, User};
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Weak};
use tokio::sync::Mutex;

pub(crate) const USER: User = User { name: "device", password: "first secret" };
/// Of the component whose archive the tests push.
pub(crate) const REPOSITORY: &str = "components/web";

/// One engine shared by the tests that do not stop it; it stops with the last of them.
static SHARED: Mutex<Weak<Docker>> = Mutex::const_new(Weak::new());

pub(crate) struct Device {
    pub(crate) docker: Arc<Docker>,
    pub(crate) registry: Registry,
    agent: Agent,
}

impl Deref for Device {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.agent
    }
}

impl DerefMut for Device {
    fn deref_mut(&mut self) -> &mut Agent {
        &mut self.agent
    }
}

/// A compose file with one service that writes to a volume and logs its mode.
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

/// Additional content of a deployment document.
#[derive(Default)]
pub(crate) struct DocumentOptions<'a> {
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

    /// With a registry that requires tokens.
    pub(crate) async fn with_token_service(tokens: Tokens) -> Self {
        let docker = Self::shared().await;
        let registry = Registry::start_with_tokens(docker.address(), USER, tokens).await;
        Self::with_registry(docker, registry).await
    }

    /// With its own engine, to be stopped and started.
    pub(crate) async fn alone() -> Self {
        Self::with(Arc::new(Docker::start().await)).await
    }

    /// With an engine whose data is in this folder.
    pub(crate) async fn alone_in(folder: &Path) -> Self {
        Self::with(Arc::new(Docker::start_in(folder).await)).await
    }

    /// On Podman, through its socket.
    #[cfg(feature = "soak")]
    pub(crate) async fn on_podman() -> Self {
        Self::with(Arc::new(Docker::start_podman().await)).await
    }

    async fn with(docker: Arc<Docker>) -> Self {
        // On the bridge, where the engine requires a trusted certificate.
        let registry = Registry::start(docker.address(), Some(USER)).await;
        Self::with_registry(docker, registry).await
    }

    async fn with_registry(docker: Arc<Docker>, registry: Registry) -> Self {
        let agent = Agent::new("127.0.0.1").await;
        fs::write(agent.path("password"), USER.password).unwrap();
        Self { docker, registry, agent }
    }

    /// Starts the agent as an operator would.
    pub(crate) fn start(&mut self) {
        let engine = format!(
            "[compose]\nsocket = {}\ncommand = [{}]\ncertificates = {}\n\
             [[registry]]\nhost = \"{}\"\nca_file = {}\nusername = \"{}\"\npassword_file = {}\n",
            show(&self.docker.socket()),
            show(&tool("docker-compose")),
            show(&self.docker.certificates()),
            self.registry.host(),
            show(&self.registry.ca_file()),
            USER.name,
            show(&self.path("password")),
        );
        self.agent.start_with(&engine);
    }

    /// The deployment document of one component `web`.
    pub(crate) fn document(&self, patch: &DocumentOptions<'_>) -> ServedDeployment {
        let source = format!(
            "          repository: {}\n          revision: {}\n",
            self.registry.repository(REPOSITORY),
            patch.revision
        );
        self.document_from(&source, patch)
    }

    pub(crate) fn document_from(&self, source: &str, patch: &DocumentOptions<'_>) -> ServedDeployment {
        let id = self.id;
        let mut yaml = format!(
            "id: {id}\nmetadata:\n  name: app\n  namespace: plant\n  deviceId: press-07\nspec:\n  applicationId: app\n  \
             deploymentProfile:\n    type: compose\n    components:\n      - name: web\n        properties:\n{source}{}",
            patch.properties
        );
        if !patch.parameters.is_empty() {
            yaml.push_str("  parameters:\n");
            for (name, value) in patch.parameters {
                let lower = name.to_lowercase();
                let text = format!(
                    "    {lower}:\n      value: {value}\n      targets:\n        - pointer: {name}\n          components: [web]\n"
                );
                yaml.push_str(&text);
            }
        }
        yaml.push_str(patch.spec);
        ServedDeployment { id, digest: Digest::of(yaml.as_bytes()), yaml: yaml.into_bytes() }
    }

    pub(crate) fn publish_document(&mut self, patch: &DocumentOptions<'_>) {
        let served = self.document(patch);
        self.publish(&[served]);
    }

    /// Installs the component `web` from one image and waits for it.
    pub(crate) async fn install(&mut self, parameters: &[(&str, &str)]) -> String {
        let image = self.push_image("1").await;
        self.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
        self.publish_document(&DocumentOptions { revision: "1.0.0", parameters, ..DocumentOptions::default() });
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

    /// Cleans up for the next test.
    fn clean(&self) {
        let containers = self.docker.try_docker(&["ps", "--all", "--quiet", "--filter", &self.label()]);
        for container in containers.1.lines().filter(|_| containers.0) {
            self.docker.try_docker(&["rm", "--force", container]);
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.agent.end();
        self.clean();
    }
}

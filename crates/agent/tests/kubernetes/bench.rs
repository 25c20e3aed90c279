//! A device under test: the shared cluster, a registry, a manager, and the agent as a separate process.

use crate::agent::{Agent, show};
use crate::charts;
use crate::token_service::service;
use margo::Digest;
use margo::status::State;
use margrave_core::publish::ServedDeployment;
use margrave_testbed::tools::tool;
use margrave_testbed::{Cluster, Registry, User, images};
use serde_json::Value;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) const USER: User = User { name: "device", password: "first secret" };
/// Two images that are loaded on the node.
pub(crate) const IMAGE: &str = "margrave.test/shell:1";
pub(crate) const OTHER_IMAGE: &str = "margrave.test/shell:2";

/// One cluster for all tests; it ends with the process.
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
/// A test that stops the cluster waits until no other test uses it.
static USERS: RwLock<()> = RwLock::const_new(());

#[expect(dead_code, reason = "only its drop matters")]
enum Place {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

pub(crate) struct Device {
    pub(crate) cluster: &'static Cluster,
    pub(crate) registry: Registry,
    agent: Agent,
    /// `helm3` or `helm4`.
    pub(crate) helm: &'static str,
    /// As the documents name it; of this test alone.
    pub(crate) namespace: String,
    /// As in `deploymentProfile.type`.
    pub(crate) deployment_type: &'static str,
    /// A wrapper around helm that logs its arguments.
    helm_program: Option<PathBuf>,
    /// Further lines of `[kubernetes]`.
    pub(crate) settings: String,
    _place: Place,
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

/// Additional content of a deployment document.
#[derive(Default)]
pub(crate) struct DocumentOptions<'a> {
    pub(crate) revision: &'a str,
    /// Pointers and values as YAML has them.
    pub(crate) parameters: &'a [(&'a str, &'a str)],
    /// More lines below `properties`, `spec`.
    pub(crate) properties: &'a str,
    pub(crate) spec: &'a str,
}

async fn cluster() -> &'static Cluster {
    let start = async {
        let cluster = Cluster::start().await;
        cluster.load(IMAGE, &images::busybox("1"));
        cluster.load(OTHER_IMAGE, &images::busybox("2"));
        cluster
    };
    CLUSTER.get_or_init(|| start).await
}

impl Device {
    /// For Helm releases.
    pub(crate) async fn helm() -> Self {
        let place = Place::Shared(USERS.read().await);
        Self::with(place, "helm").await
    }

    /// For plain manifests.
    pub(crate) async fn manifests() -> Self {
        let place = Place::Shared(USERS.read().await);
        Self::with(place, "custom").await
    }

    /// With exclusive use of the cluster, to stop and start it.
    pub(crate) async fn alone(deployment_type: &'static str) -> Self {
        let place = Place::Alone(USERS.write().await);
        Self::with(place, deployment_type).await
    }

    async fn with(place: Place, deployment_type: &'static str) -> Self {
        let cluster = cluster().await;
        let registry = Registry::start(cluster.address(), Some(USER)).await;
        Self::with_registry(place, deployment_type, cluster, registry).await
    }

    /// With a registry that requires tokens, issued for this password.
    pub(crate) async fn with_token_service(password: Arc<Mutex<String>>) -> Self {
        let place = Place::Shared(USERS.read().await);
        let cluster = cluster().await;
        let tokens = service(cluster.address(), password).await;
        let registry = Registry::start_with_tokens(cluster.address(), USER, tokens).await;
        Self::with_registry(place, "helm", cluster, registry).await
    }

    async fn with_registry(
        place: Place,
        deployment_type: &'static str,
        cluster: &'static Cluster,
        registry: Registry,
    ) -> Self {
        cluster.trust(&registry);
        let agent = Agent::new(cluster.address()).await;
        fs::write(agent.path("password"), USER.password).unwrap();
        let namespace = format!("plant-{}", &agent.id.to_string()[30..]);
        let settings = String::new();
        Self {
            cluster,
            registry,
            agent,
            helm: "helm3",
            namespace,
            deployment_type,
            helm_program: None,
            settings,
            _place: place,
        }
    }

    /// Blocks of the configuration for the engines.
    pub(crate) fn engine(&self) -> String {
        format!(
            "[kubernetes]\nkubeconfig = {}\nhelm = {}\n{}\n{}",
            show(&self.cluster.kubeconfig()),
            show(self.helm_program.as_ref().unwrap_or(&tool(self.helm))),
            self.settings,
            self.registry_block(),
        )
    }

    pub(crate) fn registry_block(&self) -> String {
        format!(
            "[[registry]]\nhost = \"{}\"\nca_file = {}\nusername = \"{}\"\npassword_file = {}\n",
            self.registry.host(),
            show(&self.registry.ca_file()),
            USER.name,
            show(&self.path("password")),
        )
    }

    /// Logs the arguments of helm and the file mode of the values. Returns the log file.
    pub(crate) fn watch_helm(&mut self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let (log, script) = (self.path("helm.log"), self.path("helm.sh"));
        let text = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" >> {log}\nfor file; do case \"$file\" in\n  \
             *values.json) stat -c 'values have mode %a' \"$file\" >> {log};;\nesac; done\nexec {helm} \"$@\"\n",
            log = log.display(),
            helm = tool(self.helm).display(),
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        self.helm_program = Some(script);
        log
    }

    /// Starts the agent as an operator would.
    pub(crate) fn start(&mut self) {
        let engine = self.engine();
        self.agent.start_with(&engine);
    }

    /// The deployment document of one component `web`.
    pub(crate) fn document(&self, patch: &DocumentOptions<'_>) -> ServedDeployment {
        let component = self.component("web", patch.revision);
        self.document_of(&format!("{component}{}", patch.properties), patch)
    }

    /// A component from the repository of that name, as the document lists it.
    pub(crate) fn component(&self, name: &str, revision: &str) -> String {
        Self::component_at(name, &self.registry.repository(&format!("components/{name}")), revision)
    }

    pub(crate) fn component_at(name: &str, repository: &str, revision: &str) -> String {
        format!(
            "      - name: {name}\n        properties:\n          repository: {repository}\n          revision: {revision}\n"
        )
    }

    pub(crate) fn document_of(&self, components: &str, patch: &DocumentOptions<'_>) -> ServedDeployment {
        let id = self.id;
        let mut yaml = format!(
            "id: {id}\nmetadata:\n  name: app\n  namespace: {}\n  deviceId: press-07\nspec:\n  applicationId: app\n  \
             deploymentProfile:\n    type: {}\n    components:\n{components}",
            self.namespace, self.deployment_type,
        );
        if !patch.parameters.is_empty() {
            yaml.push_str("  parameters:\n");
        }
        for (number, (pointer, value)) in patch.parameters.iter().enumerate() {
            let text = format!(
                "    parameter{number}:\n      value: {value}\n      targets:\n        - pointer: '{pointer}'\n          components: [web]\n"
            );
            yaml.push_str(&text);
        }
        yaml.push_str(patch.spec);
        ServedDeployment { id, digest: Digest::of(yaml.as_bytes()), yaml: yaml.into_bytes() }
    }

    pub(crate) fn publish_document(&mut self, patch: &DocumentOptions<'_>) {
        let served = self.document(patch);
        self.publish(&[served]);
    }

    /// Publishes a revision without additional content.
    pub(crate) fn publish_revision(&mut self, revision: &str) {
        self.publish_document(&DocumentOptions { revision, ..DocumentOptions::default() });
    }

    /// Pushes the component `web` in its usual form, whatever the type.
    pub(crate) async fn push(&self, version: &str, image: &str) {
        if self.deployment_type == "helm" {
            let chart = charts::web(version, image);
            self.push_chart("web", &chart).await;
        } else {
            self.push_manifests("web", version, &charts::objects(image)).await;
        }
    }

    pub(crate) async fn push_chart(&self, name: &str, files: &[(&str, String)]) {
        let artifact = margrave_oci::build::chart(&charts::files(files)).unwrap();
        self.registry.push_artifact(&format!("components/{name}"), &artifact).await;
    }

    pub(crate) async fn push_manifests(&self, name: &str, version: &str, yaml: &str) {
        let files = charts::files(&[("manifests/all.yaml", yaml.to_owned())]);
        let artifact = margrave_oci::build::manifests(&files, name, version).unwrap();
        self.registry.push_artifact(&format!("components/{name}"), &artifact).await;
    }

    /// Installs the component `web` and waits for it.
    pub(crate) async fn install(&mut self, patch: &DocumentOptions<'_>) {
        self.push("1.0.0", IMAGE).await;
        self.publish_document(&DocumentOptions { revision: "1.0.0", ..*patch });
        self.start();
        self.reaches(State::Installed).await;
    }

    /// Publishes an empty manifest, and waits until everything is removed.
    pub(crate) async fn remove(&mut self) {
        self.publish(&[]);
        self.reaches(State::Removed).await;
    }

    pub(crate) fn instance(&self) -> String {
        margrave_agent::runtimes::kubernetes::names::instance(self.id, "web")
    }

    /// Objects of a kind that belong to the deployment: `pods`, `apps/deployments`.
    pub(crate) fn ours(&self, kind: &str) -> Vec<Value> {
        let api = match kind.split_once('/') {
            Some((group, plural)) => format!("apis/{group}/v1/namespaces/{}/{plural}", self.namespace),
            None => format!("api/v1/namespaces/{}/{kind}", self.namespace),
        };
        let path = format!("/{api}?labelSelector=org.margrave.deployment%3D{}", self.id);
        let list = self.cluster.object(&path).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Pods that run and are not terminating.
    pub(crate) fn pods(&self) -> Vec<String> {
        let is_up =
            |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
        let mut names: Vec<String> = self.ours("pods").iter().filter(is_up).map(name_of).collect();
        names.sort();
        names
    }

    /// The one Deployment of the component `web`.
    pub(crate) fn workload(&self) -> Value {
        let mut found = self.ours("apps/deployments");
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    /// Runs something in the first pod.
    pub(crate) fn exec(&self, command: &[&str]) -> String {
        let pods = self.pods();
        let pod = pods.first().expect("a pod runs");
        self.kubectl(&[&["exec", pod, "--"], command].concat())
    }

    /// Runs `kubectl` in the namespace of the deployment.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster.kubectl(&[&["-n", self.namespace.as_str()], arguments].concat())
    }

    /// Runs the Helm of the device by hand.
    pub(crate) fn run_helm(&self, arguments: &[&str]) -> String {
        let output = self.helm_command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn helm_command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(tool(self.helm));
        command
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig())
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .env("HOME", self.path("helm-home"));
        command
    }

    /// The last messages of the deployment and its first component.
    pub(crate) fn message(&self) -> String {
        let status = self.status().unwrap();
        let component = status.components.first().and_then(|component| component.error.clone());
        [status.error, component].into_iter().flatten().map(|error| error.message).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.agent.end();
        // Cleans up for the next test without waiting.
        self.cluster.try_kubectl(&["delete", "namespace", "--wait=false", &self.namespace]);
    }
}

pub(crate) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

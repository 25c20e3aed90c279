//! A Kubernetes cluster of the test's own: a control plane on a bridge, and one node with real pods.
//!
//! The node lives in namespaces of its own for processes, mounts and network, so ending its first process ends every
//! pod, and its mounts, rules and bridges are invisible to the machine and to other engines on it.
//! The binaries are those of scripts/kubernetes.sh.

mod control;
mod janitor;
mod node;

use crate::authority::Authority;
use crate::images::Image;
use crate::network::{ip, make_bridge};
use crate::registry::{Registry, User};
use crate::tools::{PATIENCE, tool};
use janitor::Janitor;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Makes names of clusters in one process unique.
static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// The pause image of every pod, loaded before the node is ready.
const PAUSE: &str = "margrave.test/pause:1";

pub struct Cluster {
    folder: PathBuf,
    /// Names its bridge, network namespace and control group.
    tag: String,
    /// Of the machine on the bridge; the node has the next one.
    address: String,
    node_address: String,
    pods: String,
    janitor: Janitor,
}

impl Cluster {
    /// Starts a cluster and waits until its node is ready for pods.
    pub async fn start() -> Self {
        janitor::remove_leftovers();
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let tag = format!("mk{process:x}{number:x}");
        let seed = process.wrapping_mul(8).wrapping_add(number);
        // Ranges kept for tests, apart from those of Docker engines.
        let network = |first: u32, many: u32| format!("10.{}.{}", first + (seed >> 8) % many, seed % 256);
        let (bridge, pods) = (network(200, 10), network(150, 40));
        let (address, node_address) = (format!("{bridge}.1"), format!("{bridge}.2"));
        let janitor = Janitor::start(&tag);
        let folder = janitor.folder().to_owned();
        make_bridge(&tag, &address);
        let cluster = Self { folder, tag, address, node_address, pods: format!("{pods}.0/24"), janitor };
        cluster.write_identities();
        cluster.begin_control_plane().await;
        cluster.begin_node().await;
        cluster.load(PAUSE, &crate::images::busybox("pause"));
        cluster.until("the node is ready", &["get", "node", "node", "-o", NODE_READY], |ready| ready == "True").await;
        cluster.until("the default service account is there", &["get", "serviceaccount", "default"], |_| true).await;
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Of an administrator; a single file, without references to others.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path("admin.kubeconfig")
    }

    /// An address of the machine that pods, the node and the machine itself reach: for registries and managers.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on the node trusts the certificate of the registry; pull secrets control access.
    pub fn trust(&self, registry: &Registry) {
        let folder = self.path("certs.d").join(registry.host());
        fs::create_dir_all(&folder).unwrap();
        let host = registry.host();
        let ca = folder.join("ca.pem");
        fs::copy(registry.ca_file(), &ca).unwrap();
        let entry = format!("[host.\"https://{host}\"]\nca = \"{}\"\n", ca.display());
        fs::write(folder.join("hosts.toml"), format!("server = \"https://{host}\"\n{entry}")).unwrap();
    }

    /// From now on the node pulls images of `host` from this registry as a mirror.
    pub fn mirror(&self, host: &str, registry: &Registry, user: User) {
        use base64::Engine as _;
        let folder = self.path("certs.d").join(host);
        fs::create_dir_all(&folder).unwrap();
        let ca = folder.join("ca.pem");
        fs::copy(registry.ca_file(), &ca).unwrap();
        let place = margrave_oci::mirror::repository(host, "").unwrap();
        let place = format!("https://{}/v2/{}", registry.host(), place.trim_end_matches('/'));
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", user.name, user.password));
        let entry = format!(
            "[host.\"{place}\"]\ncapabilities = [\"pull\", \"resolve\"]\noverride_path = true\nca = \"{}\"\n\
             [host.\"{place}\".header]\nAuthorization = \"Basic {login}\"\n",
            ca.display()
        );
        fs::write(folder.join("hosts.toml"), format!("server = \"https://{host}\"\n{entry}")).unwrap();
    }

    /// Loads an image into the node without a registry.
    pub fn load(&self, name: &str, image: &Image) {
        let archive = self.path(&format!("{}.tar", name.replace(['/', ':'], "_")));
        fs::write(&archive, image.archive(name)).unwrap();
        self.load_archive(&archive);
        fs::remove_file(archive).unwrap();
    }

    /// The same with an archive that names its images itself.
    pub fn load_archive(&self, archive: &Path) {
        self.ctr(&["images", "import", archive.to_str().unwrap()]);
    }

    /// Removes images from the node, as a cleanup does.
    pub fn unload(&self, name: &str) {
        self.ctr(&["images", "remove", "--sync", name]);
    }

    fn ctr(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(tool("ctr"));
        command.arg("--address").arg(self.path("containerd.sock")).args(["--namespace", "k8s.io"]).args(arguments);
        let (ok, text) = output(&mut command);
        assert!(ok, "ctr {}: {text}", arguments.join(" "));
        text
    }

    /// Runs `kubectl` as an administrator, and fails with what it says when it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let (ok, text) = self.try_kubectl(arguments);
        assert!(ok, "kubectl {}: {text}", arguments.join(" "));
        text
    }

    pub fn try_kubectl(&self, arguments: &[&str]) -> (bool, String) {
        output(self.kubectl_command().args(arguments))
    }

    fn kubectl_command(&self) -> Command {
        let mut command = Command::new(tool("kubectl"));
        command.arg("--kubeconfig").arg(self.kubeconfig()).arg("--cache-dir").arg(self.path("kubectl"));
        command.env("HOME", &self.folder);
        command
    }

    /// Creates or changes objects like a user of `kubectl`.
    pub fn apply(&self, yaml: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), yaml).unwrap();
        self.kubectl(&["apply", "--validate=false", "-f", file.path().to_str().unwrap()]);
    }

    /// The object at an API path, or `None` if it does not exist. Faster than `kubectl`, so suitable for polling.
    pub fn object(&self, path: &str) -> Option<Value> {
        let mut command = Command::new(tool("curl"));
        command.args(["--silent", "--show-error", "--max-time", "20", "--write-out", "\n%{http_code}"]);
        for (option, file) in [("--cacert", "ca.crt"), ("--cert", "admin.crt"), ("--key", "admin.key")] {
            command.arg(option).arg(self.path(file));
        }
        let (ok, text) = output(command.arg(format!("{}{path}", control::api(&self.address))));
        assert!(ok, "{path}: {text}");
        let (body, status) = text.rsplit_once('\n').unwrap();
        assert!(matches!(status, "200" | "404"), "{path}: {text}");
        (status == "200").then(|| serde_json::from_str(body).unwrap())
    }

    /// Waits until `kubectl` prints the expected output.
    pub async fn until(&self, what: &str, arguments: &[&str], wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let (ok, text) = self.try_kubectl(arguments);
            if ok && wanted(&text) {
                return text;
            }
            assert!(start.elapsed() < PATIENCE, "never happened: {what}; last seen: {text}; logs: {}", self.logs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A power cut: everything is killed, and starts again from disk.
    pub async fn reboot(&self) {
        self.end_node();
        self.end_control_plane();
        self.begin_control_plane().await;
        self.begin_node().await;
    }

    fn logs(&self) -> String {
        self.path("log").display().to_string()
    }

    /// Certificates of all clients of the API server, signed by an authority of this cluster.
    fn write_identities(&self) {
        let authority = Authority::new("cluster authority");
        let write = |name: &str, text: &str| fs::write(self.path(name), text).unwrap();
        write("ca.crt", &authority.pem);
        write("ca.key", &authority.key);
        let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
        let server = authority.server(&[&self.address, control::FIRST_SERVICE, "127.0.0.1"], &names);
        write("apiserver.crt", &server.certificate);
        write("apiserver.key", &server.key);
        let tokens = rcgen::KeyPair::generate().unwrap();
        write("tokens.key", &tokens.serialize_pem());
        write("tokens.pub", &tokens.public_key_pem());
        for (name, user, group) in [
            ("admin", "admin", Some("system:masters")),
            ("controller-manager", "system:kube-controller-manager", None),
            ("scheduler", "system:kube-scheduler", None),
            ("kubelet", "system:node:node", Some("system:nodes")),
            ("proxy", "system:kube-proxy", None),
        ] {
            let leaf = authority.client(user, group);
            write(&format!("{name}.crt"), &leaf.certificate);
            write(&format!("{name}.key"), &leaf.key);
            let file = control::kubeconfig(&self.address, &authority.pem, &leaf);
            write(&format!("{name}.kubeconfig"), &file);
        }
    }
}

const NODE_READY: &str = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";

/// Whether a program succeeded, and its output.
fn output(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
}

/// A program of the cluster itself.
fn program(name: &str) -> PathBuf {
    let built = crate::tools::cache().map(|cache| cache.join("kubernetes-1.20.2/bin").join(name));
    built.filter(|path| Path::is_file(path)).unwrap_or_else(|| panic!("`{name}` is missing: run scripts/kubernetes.sh"))
}

/// Network of the node, created at each start.
impl Cluster {
    fn connect_node(&self) {
        let (tag, outside) = (self.tag.as_str(), format!("{}n", self.tag));
        let all = [
            vec!["netns", "add", tag],
            vec!["link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", tag],
            vec!["link", "set", &outside, "master", tag, "up"],
        ];
        let node_address = format!("{}/24", self.node_address);
        let inside = [
            vec!["link", "set", "lo", "up"],
            vec!["address", "add", &node_address, "dev", "eth0"],
            vec!["link", "set", "eth0", "up"],
            vec!["route", "add", "default", "via", &self.address],
        ];
        let inside = inside.into_iter().map(|arguments| [vec!["-n", tag], arguments].concat());
        for arguments in all.into_iter().chain(inside) {
            assert!(ip(&arguments), "ip {} failed", arguments.join(" "));
        }
        assert!(ip(&["route", "replace", &self.pods, "via", &self.node_address]), "no way to the pods");
    }

    fn disconnect_node(&self) {
        ip(&["link", "delete", &format!("{}n", self.tag)]);
        ip(&["netns", "delete", &self.tag]);
    }
}

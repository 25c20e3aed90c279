//! The control plane: etcd, API server, controllers, scheduler, as processes on the cluster's bridge.

use super::{Cluster, program};
use crate::authority::Leaf;
use crate::tools::{tool, wait_for};
use serde_json::json;
use std::net::TcpStream;
use std::process::Command;

/// Address range of services; only inside the node.
const SERVICES: &str = "10.96.0.0/16";
/// The address of the API server for pods.
pub(super) const FIRST_SERVICE: &str = "10.96.0.1";
const API_PORT: u16 = 6443;
/// In the order they start.
const PROGRAMS: [&str; 4] = ["etcd", "apiserver", "controller-manager", "scheduler"];

/// Where the API server is.
pub(super) fn api(address: &str) -> String {
    format!("https://{address}:{API_PORT}")
}

/// A kubeconfig without references to other files.
pub(super) fn kubeconfig(address: &str, ca: &str, leaf: &Leaf) -> String {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let server = api(address);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": { "server": server, "certificate-authority-data": encode(ca) } }],
        "users": [{ "name": "test", "user": {
            "client-certificate-data": encode(&leaf.certificate), "client-key-data": encode(&leaf.key),
        } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "current-context": "test",
    })
    .to_string()
}

impl Cluster {
    pub(super) async fn begin_control_plane(&self) {
        self.begin_etcd();
        self.begin_api_server().await;
        let path = |name: &str| self.path(name).display().to_string();
        let mut controllers = Command::new(program("kube-controller-manager"));
        controllers.args([
            format!("--kubeconfig={}", path("controller-manager.kubeconfig")),
            format!("--service-account-private-key-file={}", path("tokens.key")),
            format!("--root-ca-file={}", path("ca.crt")),
            format!("--cluster-signing-cert-file={}", path("ca.crt")),
            format!("--cluster-signing-key-file={}", path("ca.key")),
            "--use-service-account-credentials=true".to_owned(),
            // Deletes namespaces quickly.
            "--concurrent-namespace-syncs=5".to_owned(),
        ]);
        let mut scheduler = Command::new(program("kube-scheduler"));
        scheduler.arg(format!("--kubeconfig={}", path("scheduler.kubeconfig")));
        for (name, mut command) in [("controller-manager", controllers), ("scheduler", scheduler)] {
            command.args(["--leader-elect=false", "--port=0", "--secure-port=0"]);
            self.janitor.spawn(name, &mut command);
        }
    }

    fn begin_etcd(&self) {
        let url = |port: u16| format!("http://{}:{port}", self.address);
        let (clients, peers) = (url(2379), url(2380));
        let mut etcd = Command::new(tool("etcd"));
        etcd.arg(format!("--data-dir={}", self.path("etcd").display())).args([
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            "--unsafe-no-fsync".to_owned(),
        ]);
        self.janitor.spawn("etcd", &mut etcd);
    }

    /// Starts only the API server and waits until it answers.
    pub async fn begin_api_server(&self) {
        let path = |name: &str| self.path(name).display().to_string();
        let mut command = Command::new(program("kube-apiserver"));
        command.args([
            format!("--etcd-servers=http://{}:2379", self.address),
            format!("--bind-address={}", self.address),
            format!("--advertise-address={}", self.address),
            format!("--secure-port={API_PORT}"),
            "--insecure-port=0".to_owned(),
            format!("--cert-dir={}", path("apiserver")),
            format!("--tls-cert-file={}", path("apiserver.crt")),
            format!("--tls-private-key-file={}", path("apiserver.key")),
            format!("--client-ca-file={}", path("ca.crt")),
            format!("--service-cluster-ip-range={SERVICES}"),
            format!("--service-account-key-file={}", path("tokens.pub")),
            format!("--service-account-signing-key-file={}", path("tokens.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--api-audiences=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--kubelet-client-certificate={}", path("admin.crt")),
            format!("--kubelet-client-key={}", path("admin.key")),
        ]);
        self.janitor.spawn("apiserver", &mut command);
        let address = format!("{}:{API_PORT}", self.address);
        wait_for(&format!("the API server listens; {}", self.logs()), || TcpStream::connect(&address).is_ok()).await;
        self.until("the API server is ready", &["get", "--raw", "/readyz"], |text| text == "ok").await;
    }

    /// Stops the API server until `begin_api_server`; pods keep running.
    pub fn end_api_server(&self) {
        self.janitor.end("apiserver");
    }

    pub(super) fn end_control_plane(&self) {
        for name in PROGRAMS.iter().rev() {
            self.janitor.end(name);
        }
    }
}

//! The node: containerd, kubelet and kube-proxy in namespaces of their own.

use super::{Cluster, PAUSE, program};
use crate::tools::{tool, wait_for};
use serde_json::json;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the kubelet listens on.
const KUBELET_PORT: u16 = 10250;

/// The first process of the node. What these programs write to fixed places of the machine goes into the folder of
/// the cluster instead (`/var/lib`, `/var/log`) or ends with the node (`/run`).
const START: &str = r#"
set -e
cd "$FOLDER"
mount --make-rshared /
mount -t tmpfs tmpfs /run
for place in lib log; do
  mkdir -p "var/$place" "var/$place.work"
  mount -t overlay overlay -o "lowerdir=/var/$place,upperdir=$FOLDER/var/$place,workdir=$FOLDER/var/$place.work" "/var/$place"
done
rm -f containerd.sock containerd.sock.ttrpc
# As an init does: what ends is started again.
keep() {
  log="$1"
  shift
  while :; do "$@" >> "log/$log" 2>&1; echo "$log ended with $?" >> "log/$log"; sleep 0.5; done &
}
keep containerd "$CONTAINERD" --config containerd.toml
until [ -S containerd.sock ]; do sleep 0.05; done
keep kubelet "$KUBELET" --config kubelet.json --kubeconfig kubelet.kubeconfig --hostname-override node \
  --node-ip "$ADDRESS" --container-runtime remote --container-runtime-endpoint "unix://$FOLDER/containerd.sock" \
  --root-dir "$FOLDER/kubelet" --cert-dir "$FOLDER/kubelet-certificates"
keep proxy "$PROXY" --config proxy.json
wait
"#;

impl Cluster {
    /// Starts the node, and waits until its kubelet listens.
    pub(super) async fn begin_node(&self) {
        self.write_settings();
        self.connect_node();
        // The kubelet finds its own root of control groups and makes the rest below it.
        for controller in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            if controller.path().join("cgroup.procs").exists() {
                let _ = fs::create_dir_all(controller.path().join(&self.tag));
            }
        }
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.tag))
            .args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"])
            .arg(self.path("node.sh"))
            .env("FOLDER", &self.folder)
            .env("ADDRESS", &self.node_address)
            .env("CONTAINERD", tool("containerd"))
            .env("KUBELET", program("kubelet"))
            .env("PROXY", program("kube-proxy"))
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        self.janitor.spawn("node", &mut command);
        let kubelet = format!("{}:{KUBELET_PORT}", self.node_address);
        wait_for(&format!("the kubelet listens; {}", self.logs()), || TcpStream::connect(&kubelet).is_ok()).await;
    }

    /// Every process of the node ends at this instant.
    pub(super) fn end_node(&self) {
        self.janitor.end("node");
        self.disconnect_node();
    }

    fn write_settings(&self) {
        let write = |name: &str, text: &str| fs::write(self.path(name), text).unwrap();
        for folder in ["certs.d", "net.d", "log"] {
            fs::create_dir_all(self.path(folder)).unwrap();
        }
        write("node.sh", START);
        write("resolv.conf", "");
        write("containerd.toml", &self.containerd_settings());
        write("kubelet.json", &self.kubelet_settings());
        write("proxy.json", &self.proxy_settings());
        let network = json!({ "cniVersion": "0.4.0", "name": "pods", "plugins": [
            { "type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": {
                "type": "host-local", "ranges": [[{ "subnet": self.pods }]], "routes": [{ "dst": "0.0.0.0/0" }],
            } },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ] });
        write("net.d/pods.conflist", &network.to_string());
    }

    fn containerd_settings(&self) -> String {
        let show = |name: &str| format!("{:?}", self.path(name).display().to_string());
        format!(
            "version = 2\nroot = {}\nstate = \"/run/containerd\"\n[grpc]\naddress = {}\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"{PAUSE}\"\nrestrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = {:?}\nconf_dir = {}\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"overlayfs\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = {}\n",
            show("containerd"),
            show("containerd.sock"),
            network_plugins().display().to_string(),
            show("net.d"),
            show("certs.d"),
        )
    }

    fn kubelet_settings(&self) -> String {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.node_address,
            "port": KUBELET_PORT,
            "authentication": {
                "anonymous": { "enabled": false },
                "webhook": { "enabled": true },
                "x509": { "clientCAFile": self.path("ca.crt") },
            },
            "authorization": { "mode": "Webhook" },
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{}", self.tag),
            "failSwapOn": false,
            "clusterDNS": [],
            "resolvConf": self.path("resolv.conf"),
            "healthzPort": 0,
            "readOnlyPort": 0,
            "makeIPTablesUtilChains": false,
            "evictionHard": { "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
            // Short sync periods, so that tests do not wait for the kubelet.
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "5s",
            "serializeImagePulls": false,
            "maxPods": 200,
        })
        .to_string()
    }

    fn proxy_settings(&self) -> String {
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "bindAddress": self.node_address,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "clientConnection": { "kubeconfig": self.path("proxy.kubeconfig") },
            "clusterCIDR": self.pods,
            "mode": "iptables",
            // Responses between pods pass through the node even where bridges bypass its rules.
            "iptables": { "masqueradeAll": true },
            "hostnameOverride": "node",
            "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
        })
        .to_string()
    }
}

/// Where the machine keeps them.
fn network_plugins() -> PathBuf {
    let places = ["/usr/lib/cni", "/opt/cni/bin"].map(PathBuf::from);
    let found = places.into_iter().find(|folder| Path::is_file(&folder.join("bridge")));
    found.expect("network plugins are missing: run scripts/tools.sh")
}

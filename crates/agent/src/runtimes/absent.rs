//! Advice for an agent without a runtime: the lines to add to its configuration, by what this machine has.
//!
//! The agent never enables an engine on its own: access to an engine is equivalent to root.

use super::compose::socket::Socket;
use super::kubernetes::access::{self, Source};
use super::simulated;
use crate::config::{AgentConfig, ComposeConfig, DEFAULT_PATH};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Short, because a user waits for the result.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Where Kubernetes distributions store the kubeconfig of the administrator.
const KUBECONFIGS: [&str; 4] = [
    "/etc/rancher/k3s/k3s.yaml",
    "/etc/rancher/rke2/rke2.yaml",
    "/var/lib/k0s/pki/admin.conf",
    "/etc/kubernetes/admin.conf",
];

/// Where to look for engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub sockets: Vec<PathBuf>,
    pub kubeconfigs: Vec<PathBuf>,
    /// The agent runs in a pod with a service account.
    pub pod: bool,
}

/// A possible runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    /// ``a container engine answers at `/var/run/docker.sock` ``
    what: String,
    /// The lines that enable it.
    lines: Vec<String>,
}

/// The message and the lines to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    found: Vec<Found>,
    /// The file to add it to.
    file: PathBuf,
    /// The runtime was simulated until now.
    pretended: bool,
}

impl Places {
    pub fn of_this_machine() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let named = variable("DOCKER_HOST").and_then(|host| host.strip_prefix("unix://").map(PathBuf::from));
        let own = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        let own = own.iter().flat_map(|folder| [folder.join("docker.sock"), folder.join("podman/podman.sock")]);
        let usual = [ComposeConfig::default().socket, PathBuf::from("/run/podman/podman.sock")];
        let kubeconfig = variable("KUBECONFIG").map(PathBuf::from);
        let home = variable("HOME").map(|home| Path::new(&home).join(".kube/config"));
        Self {
            sockets: named.into_iter().chain(usual).chain(own).collect(),
            kubeconfigs: kubeconfig.into_iter().chain(KUBECONFIGS.map(PathBuf::from)).chain(home).collect(),
            pod: access::in_a_pod(),
        }
    }
}

/// `None` if the settings enable a runtime.
pub async fn advice(config: &AgentConfig, places: &Places) -> Option<Advice> {
    if config.compose.is_some() || config.kubernetes.is_some() || config.runtime.is_some() {
        return None;
    }
    let mut found = Vec::new();
    for socket in &places.sockets {
        if is_responding(socket).await {
            let mut lines = vec!["[compose]".to_owned()];
            if *socket != ComposeConfig::default().socket {
                lines.push(format!("socket = \"{}\"", socket.display()));
            }
            found.push(Found { what: format!("a container engine answers at `{}`", socket.display()), lines });
            break;
        }
    }
    if places.pod {
        let what = "the agent runs in a pod with a service account".to_owned();
        found.push(Found { what, lines: vec!["[kubernetes]".to_owned()] });
    } else if let Some(path) = places.kubeconfigs.iter().find(|path| is_usable(path)) {
        let what = format!("there is a kubeconfig `{}`", path.display());
        let lines = vec!["[kubernetes]".to_owned(), format!("kubeconfig = \"{}\"", path.display())];
        found.push(Found { what, lines });
    }
    let file = config.file.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_PATH));
    let pretended = config.state_dir.join(simulated::WORLD_FILE).exists();
    Some(Advice { found, file, pretended })
}

async fn is_responding(socket: &Path) -> bool {
    let requested = Socket::new(socket);
    let answer = requested.bytes("/_ping");
    matches!(tokio::time::timeout(PROBE_TIMEOUT, answer).await, Ok(Ok(_)))
}

fn is_usable(path: &Path) -> bool {
    Source::File { path: path.to_owned(), context: None }.read().is_ok()
}

impl Advice {
    fn before(&self) -> &'static str {
        if self.pretended {
            "; until now this agent only simulated workloads: what it reported as installed never ran \
             (`runtime = \"simulated\"` enables this again)"
        } else {
            ""
        }
    }

    /// Several lines for a terminal, with the configuration lines in separate blocks.
    pub fn terminal_text(&self) -> String {
        let file = self.file.display();
        let mut text = format!("This device cannot run applications: no runtime is enabled{}.\n", self.before());
        for Found { what, lines } in &self.found {
            let lines: Vec<_> = lines.iter().map(|line| format!("  {line}\n")).collect();
            let _ = writeln!(text, "Found: {what}. To use it, add to {file}:\n\n{}", lines.concat());
        }
        if self.found.is_empty() {
            let _ = writeln!(
                text,
                "No engine was found: install Docker or Podman with Compose and add `[compose]` to {file},\n\
                 or configure a cluster there with `[kubernetes]`."
            );
        }
        text + "Restart a running agent afterwards.\n"
    }
}

/// One line, for logs and reports.
impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        write!(f, "this device cannot run applications, every deployment for it fails{}: ", self.before())?;
        for Found { what, lines } in &self.found {
            let lines: Vec<_> = lines.iter().map(|line| format!("`{line}`")).collect();
            write!(f, "{what}, add {} to `{file}`; ", lines.join(" and below it "))?;
        }
        if self.found.is_empty() {
            write!(f, "install Docker or Podman with Compose and add `[compose]` to `{file}`, or `[kubernetes]`; ")?;
        }
        f.write_str("then restart the agent")
    }
}

#[cfg(test)]
mod tests;

//! `margrave client mirror-config`: container runtime configuration for pulling through the embedded registry.

use super::super::{Session, every};
use crate::failure::{Failure, Outcome};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use margrave_api::registry::PullCredentials;
use margrave_oci::mirror;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Mode of files that contain a password.
const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Runtime {
    /// Configuration blocks for `margrave-agent`, which pulls components and lets Docker pull images
    Agent,
    Containerd,
    Docker,
    K3s,
    Podman,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave client mirror-config press-07 --for agent --registry registry.example
  margrave client mirror-config press-07 --for k3s
  margrave client mirror-config press-07 --for containerd --registry registry.example
  margrave client mirror-config press-07 --for podman --write ./press-07   # files under ./press-07/etc/…

References stay unchanged: the runtime tries the embedded registry first, then the original one.
The output contains the client's password; `POST /api/clients/ID/pull-credentials` replaces it.")]
pub(crate) struct MirrorArgs {
    /// Client id, the last part of its SPIFFE ID
    id: String,
    /// Container runtime
    #[arg(long = "for", value_name = "RUNTIME")]
    runtime: Runtime,
    /// Registry to mirror; repeatable [default: all registries that applications were copied from]
    #[arg(long = "registry", value_name = "HOST")]
    registries: Vec<String>,
    /// Write the files below this folder instead of printing them
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Configuration {
    files: Vec<File>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct File {
    path: String,
    /// Whether it contains a password.
    secret: bool,
    content: String,
}

/// Input for the files.
struct Parts {
    credentials: PullCredentials,
    ca: String,
    hosts: BTreeSet<String>,
}

pub(super) async fn run(session: &Session, args: MirrorArgs) -> Outcome {
    let credentials = session.api.pull_credentials(&args.id).await?;
    let ca = session.api.trust().await?.https_ca;
    let hosts: BTreeSet<String> = if args.registries.is_empty() {
        let repositories = every(None, async |page| session.api.repositories(&page).await).await?;
        repositories.iter().filter_map(|repository| mirror::origin(&repository.name)).map(|(host, _)| host).collect()
    } else {
        args.registries.iter().map(|host| host.to_ascii_lowercase()).collect()
    };
    if hosts.is_empty() {
        return Err(Failure::usage("nothing to mirror yet")
            .because("no application was copied from another registry")
            .next("`margrave app import oci://… --with-images`, or select a registry with --registry"));
    }
    if let Some(odd) = hosts.iter().find(|host| mirror::repository(host, "x").is_none()) {
        return Err(Failure::usage(format!("`{odd}` cannot be mirrored"))
            .because("expected a host name or an IPv4 address, optionally with a port"));
    }
    let parts = Parts { credentials, ca, hosts };
    let configuration = match args.runtime {
        Runtime::Agent => agent(&parts),
        Runtime::Containerd => containerd(&parts),
        Runtime::Docker => docker(&parts),
        Runtime::K3s => k3s(&parts)?,
        Runtime::Podman => podman(&parts),
    };
    if let Some(folder) = &args.write {
        for file in &configuration.files {
            let path = folder.join(file.path.trim_start_matches('/'));
            write(&path, file)
                .map_err(|error| Failure::failed(format!("write `{}`", path.display())).caused_by(&error))?;
            session.out.say(format!("wrote {}", path.display()));
        }
        configuration.notes.iter().for_each(|note| session.out.say(note));
        return Ok(());
    }
    session.out.show(&configuration, |_| render(&configuration))
}

fn write(path: &Path, file: &File) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mode = if file.secret { SECRET } else { PUBLIC };
    let mut target = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    target.write_all(file.content.as_bytes())
}

fn render(configuration: &Configuration) -> String {
    let mut text = String::new();
    for file in &configuration.files {
        let secret = if file.secret { " (contains a password: mode 0600)" } else { "" };
        let _ = writeln!(text, "# ---- {}{secret}\n{}", file.path, file.content);
    }
    for note in &configuration.notes {
        let _ = writeln!(text, "# {note}");
    }
    text
}

impl Parts {
    fn address(&self) -> &str {
        &self.credentials.address
    }
    fn basic(&self) -> String {
        STANDARD.encode(format!("{}:{}", self.credentials.user, self.credentials.password))
    }
    fn authority(&self, path: String) -> File {
        File { path, secret: false, content: self.ca.clone() }
    }
}

/// The real address of a registry.
fn server(host: &str) -> &str {
    if host == mirror::DOCKER_HUB { "registry-1.docker.io" } else { host }
}

fn agent(parts: &Parts) -> Configuration {
    let (ca, password) = ("/etc/margrave/registry-ca.pem", "/etc/margrave/registry-password");
    let PullCredentials { address, user, .. } = &parts.credentials;
    let mut content = format!(
        "[[registry]]\nhost = \"{address}\"\nca_file = \"{ca}\"\nusername = \"{user}\"\npassword_file = \"{password}\"\n"
    );
    for host in &parts.hosts {
        let _ = write!(content, "\n[[registry]]\nhost = \"{host}\"\nmirror = \"{address}\"\n");
    }
    let files = vec![
        File { path: "/etc/margrave/agent-registries.toml".to_owned(), secret: false, content },
        File { path: password.to_owned(), secret: true, content: format!("{}\n", parts.credentials.password) },
        parts.authority(ca.to_owned()),
    ];
    let notes = vec!["add the blocks to the end of /etc/margrave/agent.toml, then restart the agent".to_owned()];
    Configuration { files, notes }
}

fn containerd(parts: &Parts) -> Configuration {
    let ca = "/etc/containerd/certs.d/margrave-ca.crt".to_owned();
    let (address, basic) = (parts.address(), parts.basic());
    let files = parts.hosts.iter().map(|host| File {
        path: format!("/etc/containerd/certs.d/{host}/hosts.toml"),
        secret: true,
        content: format!(
            "server = \"https://{}\"\n\n[host.\"https://{address}\"]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = \"{ca}\"\n  [host.\"https://{address}\".header]\n    authorization = \"Basic {basic}\"\n",
            server(host)
        ),
    });
    let mut files: Vec<File> = files.collect();
    files.push(parts.authority(ca));
    let notes = vec![
        "config.toml needs `config_path = \"/etc/containerd/certs.d\"` under [plugins.\"io.containerd.grpc.v1.cri\".registry]"
            .to_owned(),
    ];
    Configuration { files, notes }
}

fn k3s(parts: &Parts) -> Outcome<Configuration> {
    let ca = "/etc/rancher/k3s/margrave-ca.crt".to_owned();
    let url = format!("https://{}", parts.address());
    let mirrors: serde_json::Map<String, serde_json::Value> =
        parts.hosts.iter().map(|host| (host.clone(), serde_json::json!({ "endpoint": [url] }))).collect();
    let PullCredentials { address, user, password } = &parts.credentials;
    let registries = serde_json::json!({
        "mirrors": mirrors,
        "configs": { address: {
            "auth": { "username": user, "password": password },
            "tls": { "ca_file": ca },
        } },
    });
    let path = "/etc/rancher/k3s/registries.yaml".to_owned();
    let content = crate::output::to_yaml(&registries)?;
    let files = vec![File { path, secret: true, content }, parts.authority(ca)];
    Ok(Configuration { files, notes: vec!["restart k3s to apply it".to_owned()] })
}

fn podman(parts: &Parts) -> Configuration {
    let mut content = String::new();
    for host in &parts.hosts {
        let mirrored = mirror::repository(host, "").unwrap_or_default();
        let location = format!("{}/{}", parts.address(), mirrored.trim_end_matches('/'));
        let _ = writeln!(
            content,
            "[[registry]]\nprefix = \"{host}\"\nlocation = \"{host}\"\n\n[[registry.mirror]]\nlocation = \"{location}\"\n"
        );
    }
    let auth = serde_json::json!({ "auths": { parts.address(): { "auth": parts.basic() } } });
    let files = vec![
        File { path: "/etc/containers/registries.conf.d/margrave.conf".to_owned(), secret: false, content },
        File { path: "/etc/containers/margrave-auth.json".to_owned(), secret: true, content: format!("{auth}\n") },
        parts.authority(format!("/etc/containers/certs.d/{}/ca.crt", parts.address())),
    ];
    let notes = vec![
        "set REGISTRY_AUTH_FILE=/etc/containers/margrave-auth.json, or merge it into the current auth.json".to_owned(),
    ];
    Configuration { files, notes }
}

fn docker(parts: &Parts) -> Configuration {
    let address = parts.address();
    let daemon = serde_json::json!({ "registry-mirrors": [format!("https://{address}")] });
    // The engine sends a mirror the credentials of Docker Hub.
    let client = serde_json::json!({ "auths": {
        "https://index.docker.io/v1/": { "auth": parts.basic() },
        address: { "auth": parts.basic() },
    } });
    let files = vec![
        File { path: "/etc/docker/daemon.json".to_owned(), secret: false, content: format!("{daemon}\n") },
        File { path: "/root/.docker/config.json".to_owned(), secret: true, content: format!("{client}\n") },
        parts.authority(format!("/etc/docker/certs.d/{address}/ca.crt")),
    ];
    let mut notes = vec!["merge daemon.json into the current one, then restart the engine".to_owned()];
    for host in parts.hosts.iter().filter(|host| *host != mirror::DOCKER_HUB) {
        let mirrored = mirror::repository(host, "NAME:TAG").unwrap_or_default();
        notes.push(format!(
            "the engine mirrors docker.io only; for {host}: docker pull {address}/{mirrored} && docker tag {address}/{mirrored} {host}/NAME:TAG"
        ));
    }
    Configuration { files, notes }
}

//! This machine as a demo device: the real agent with the real Docker engine, next to the simulated devices.

use anyhow::Context as _;
use margrave_agent::config::{AgentConfig, ComposeConfig, RegistryConfig, TrustConfig};
use margrave_api::client::ApiClient;
use margrave_api::clients::Trust;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// The device id and client id.
pub const DEVICE: &str = "this-machine";
/// The registry named in the sample packages; the embedded registry mirrors it.
const SAMPLES_REGISTRY: &str = "registry.margrave.example";
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// A healthy engine responds at once.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A responding Docker engine and the Compose command for it.
#[derive(Debug, Clone)]
pub struct Engine {
    socket: PathBuf,
    command: Vec<String>,
}

impl Engine {
    /// The engine of this machine, or why it cannot be used.
    pub async fn find() -> Result<Self, String> {
        let host = match std::env::var("DOCKER_HOST") {
            Ok(host) if !host.is_empty() => Some(host),
            _ => context_host().await,
        };
        let socket = match &host {
            None => PathBuf::from(DEFAULT_SOCKET),
            Some(host) => {
                let path = host.strip_prefix("unix://");
                path.map(PathBuf::from).ok_or_else(|| format!("Docker is at `{host}`, which is not a local socket"))?
            }
        };
        if !is_responding(&socket).await {
            let socket = socket.display();
            return Err(format!(
                "no container engine responds at `{socket}`; check that it is running and that you have permission"
            ));
        }
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut candidates = vec![words(&["docker", "compose"]), words(&["docker-compose"])];
        candidates.extend(own_plugin().into_iter().chain(cached_compose()).map(|path| vec![path]));
        for command in candidates {
            if is_compose(&command).await {
                return Ok(Self { socket, command });
            }
        }
        Err("Docker runs, but `docker compose` version 2 is missing; install it".to_owned())
    }
}

/// The engine address in the user's Docker context: rootless and desktop engines do not use the default socket.
async fn context_host() -> Option<String> {
    let mut command = tokio::process::Command::new("docker");
    command.args(["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]);
    let requested = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(ANSWER_MAX, requested).await.ok()?.ok()?;
    let host = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !host.is_empty()).then_some(host)
}

/// The user's Compose plugin, which also runs standalone.
fn own_plugin() -> Option<String> {
    let path = PathBuf::from(std::env::var_os("HOME")?).join(".docker/cli-plugins/docker-compose");
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

impl Engine {
    /// A Compose command for this engine.
    pub fn compose(&self) -> std::process::Command {
        let (program, arguments) =
            self.command.split_first().map_or(("docker", &[][..]), |(program, rest)| (program, rest));
        let mut command = std::process::Command::new(program);
        command.args(arguments).env("DOCKER_HOST", format!("unix://{}", self.socket.display()));
        command
    }

    /// As a block of the agent configuration.
    pub fn settings(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| format!("{word:?}")).collect();
        format!("[compose]\nsocket = {:?}\ncommand = [{}]\n", self.socket.display().to_string(), words.join(", "))
    }
}

/// The copy installed by `scripts/tools.sh`.
fn cached_compose() -> Option<String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let path = cache.join("margrave/tools/bin/docker-compose");
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

async fn is_responding(socket: &Path) -> bool {
    let ask = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n").await?;
        let mut answer = [0; 16];
        stream.read_exact(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).contains(" 200"))
    };
    matches!(tokio::time::timeout(ANSWER_MAX, ask).await, Ok(Ok(true)))
}

/// Runs without a user configuration, as the agent does, so user plugins are ignored.
async fn is_compose(command: &[String]) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    let run = tokio::process::Command::new(program)
        .args(arguments)
        .args(["version", "--short"])
        .env("DOCKER_CONFIG", OsString::from("/nonexistent"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let Ok(Ok(output)) = tokio::time::timeout(ANSWER_MAX, run).await else { return false };
    let version = String::from_utf8_lossy(&output.stdout);
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    output.status.success() && major.is_some_and(|major| major >= 2)
}

/// The configuration of this machine's agent, with its state in `folder`.
pub(super) async fn configuration(
    api: &ApiClient,
    trust: &Trust,
    folder: &Path,
    engine: &Engine,
) -> anyhow::Result<AgentConfig> {
    // Absolute, because the engine mounts files from there.
    let folder = std::path::absolute(folder).context("find the folder of this machine's agent")?;
    std::fs::create_dir_all(&folder).with_context(|| format!("create the folder {}", folder.display()))?;
    let mut config = AgentConfig {
        server: Some(trust.wfm_url.parse().context("read the address of the device API")?),
        state_dir: folder.join("state"),
        observe_period: Duration::from_secs(5),
        compose: Some(ComposeConfig {
            socket: engine.socket.clone(),
            command: engine.command.clone(),
            ..ComposeConfig::default()
        }),
        ..AgentConfig::default()
    };
    config.trust = TrustConfig {
        url: Some(trust.trust_url.parse().context("read the address of the trust listener")?),
        pin: Some(trust.pin.clone()),
        ..TrustConfig::default()
    };
    config.device.id = Some(DEVICE.parse()?);
    config.poll.period = super::devices::POLL_PERIOD;
    config.poll.start_spread = Duration::ZERO;
    config.retry.first = Duration::from_secs(1);
    config.registry = registries(api, trust, &folder).await?;
    Ok(config)
}

/// The embedded registry, also as a mirror for the registry that the samples name.
async fn registries(api: &ApiClient, trust: &Trust, folder: &Path) -> anyhow::Result<Vec<RegistryConfig>> {
    let credentials = api.pull_credentials(DEVICE).await.context("get pull credentials")?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let written = std::fs::write(&path, text)
            .and_then(|()| std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)));
        written.with_context(|| format!("write {}", path.display())).map(|()| path)
    };
    Ok(vec![
        RegistryConfig {
            host: credentials.address.clone(),
            ca_file: Some(write("registry-ca.pem", &trust.https_ca)?),
            username: Some(credentials.user),
            password_file: Some(write("registry-password", &credentials.password)?),
            ..RegistryConfig::default()
        },
        RegistryConfig {
            host: SAMPLES_REGISTRY.to_owned(),
            mirror: Some(credentials.address),
            ..RegistryConfig::default()
        },
    ])
}

//! The simulated devices of the demo: the real agent with a real identity over mutual TLS, with a simulated runtime.

use super::fleet::DemoClient;
use anyhow::Context as _;
use margrave_agent::config::{AgentConfig, ChildConfig, TrustConfig};
use margrave_agent::enroll::{Enrollment, enroll};
use margrave_agent::runtimes::Runtime;
use margrave_agent::runtimes::simulated::Simulated;
use margrave_agent::{SystemClock, once, run};
use margrave_api::client::ApiClient;
use margrave_api::clients::{ClientState, CreateClient, CreateEnrollmentToken, Trust};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Fast enough to watch; real devices poll once a minute.
pub(super) const POLL_PERIOD: Duration = Duration::from_secs(2);
/// Maximum retry back-off, long enough for the failure to be visible.
const RETRY_MAX: Duration = Duration::from_mins(2);

/// Running devices. Dropping it does not stop them; [`DemoDevices::stop`] does.
#[derive(Debug)]
pub(super) struct DemoDevices {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl DemoDevices {
    pub(super) fn new() -> Self {
        Self { stop: CancellationToken::new(), tasks: TaskTracker::new() }
    }

    /// Starts a device; it runs until all are stopped.
    pub(super) fn start(&self, client: &DemoClient, config: AgentConfig) -> anyhow::Result<()> {
        let runtime = runtime(client, &config)?;
        self.start_with(&client.id, config, runtime);
        Ok(())
    }

    pub(super) fn start_with(&self, id: &str, config: AgentConfig, runtime: Arc<dyn Runtime>) {
        let (id, stop) = (id.to_owned(), self.stop.clone());
        self.tasks.spawn(async move {
            if let Err(error) = run(config, runtime, Arc::new(SystemClock), stop).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the device `{id}` failed");
            }
        });
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Reports the device once and disconnects: from then on it is offline.
pub(super) async fn visit(client: &DemoClient, config: AgentConfig) -> anyhow::Result<()> {
    let runtime = runtime(client, &config)?;
    let (settled, _) = once(config, runtime, Arc::new(SystemClock), CancellationToken::new()).await?;
    tracing::debug!(?settled, "the device `{}` has connected once", client.id);
    Ok(())
}

fn runtime(client: &DemoClient, config: &AgentConfig) -> anyhow::Result<Arc<Simulated>> {
    let script = config.simulated.script.clone();
    let runtime =
        Simulated::open(&config.state_dir, script).with_context(|| format!("open the runtime of {}", client.id))?;
    Ok(Arc::new(runtime))
}

/// Writes the device's files; enrolls it if it has no identity.
pub(super) async fn set_up(
    api: &ApiClient,
    trust: &Trust,
    folder: &Path,
    client: &DemoClient,
) -> anyhow::Result<AgentConfig> {
    let folder = folder.join(&client.id);
    let config = configuration(trust, &folder, client)?;
    if Enrollment::load(&config.state_dir).is_none() {
        accept(api, &client.id, "simulated").await?;
        enroll_with_token(api, &client.id, &config).await?;
    }
    Ok(config)
}

/// Creates an accepted client.
pub(super) async fn accept(api: &ApiClient, id: &str, note: &str) -> anyhow::Result<()> {
    let body = CreateClient {
        id: id.to_owned(),
        state: Some(ClientState::Accepted),
        note: Some(note.to_owned()),
        comment: Some("set up by the demo".to_owned()),
    };
    match api.create_client(&body).await {
        Ok(_) => Ok(()),
        // An interrupted start has already created it.
        Err(error) if error.code() == Some("exists") => Ok(()),
        Err(error) => Err(error).with_context(|| format!("create client {id}")),
    }
}

pub(super) async fn enroll_with_token(api: &ApiClient, id: &str, config: &AgentConfig) -> anyhow::Result<()> {
    let token = api
        // The files of the demo's devices may have been deleted.
        .create_enrollment_token(id, &CreateEnrollmentToken { again: true, ..CreateEnrollmentToken::default() })
        .await
        .with_context(|| format!("create an enrollment token for {id}"))?;
    let enrolled = enroll(config, &token.token.into(), true, Arc::new(SystemClock)).await;
    enrolled.map(drop).with_context(|| format!("enroll {id}"))
}

fn configuration(trust: &Trust, folder: &Path, client: &DemoClient) -> anyhow::Result<AgentConfig> {
    let capabilities = write_json(folder, "capabilities.json", &client.capabilities)?;
    let mut children = Vec::new();
    for (name, capabilities) in &client.children {
        children.push(ChildConfig {
            id: name.parse()?,
            capabilities: write_json(folder, &format!("{name}.json"), capabilities)?,
        });
    }
    let script = folder.join("behavior.toml");
    // Keep an existing file: users may edit it while the demo runs.
    if !script.exists() {
        std::fs::write(&script, &client.behavior).with_context(|| format!("write {}", script.display()))?;
    }
    let mut config = AgentConfig {
        // Addresses may differ from those at enrollment: the demo uses free ports if the defaults are in use.
        server: Some(trust.wfm_url.parse().context("read the address of the device API")?),
        state_dir: folder.join("state"),
        child: children,
        observe_period: Duration::from_secs(5),
        ..AgentConfig::default()
    };
    config.trust = TrustConfig {
        url: Some(trust.trust_url.parse().context("read the address of the trust listener")?),
        pin: Some(trust.pin.clone()),
        ..TrustConfig::default()
    };
    config.device.id = Some(client.id.parse()?);
    config.device.capabilities = Some(capabilities);
    config.device.discover = false;
    config.poll.period = POLL_PERIOD;
    config.poll.start_spread = POLL_PERIOD;
    config.poll.forbidden_period = POLL_PERIOD;
    config.retry.first = Duration::from_secs(1);
    config.retry.max = RETRY_MAX;
    config.simulated.script = Some(script);
    Ok(config)
}

fn write_json(folder: &Path, name: &str, value: &Value) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("create the folder {}", folder.display()))?;
    let path = folder.join(name);
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

//! The configuration file: TOML, unknown keys rejected, a default for every value except the server.

mod check;
pub mod duration;
mod workloads;

pub use workloads::{ArtifactsConfig, ComposeConfig, KubernetesConfig, RegistryConfig, TelemetryConfig};

use crate::machine::Settings;
use crate::machine::schedule::{Calendar, DayWindow, PollPolicy, RetryPolicy};
use margo::DeviceId;
use margrave_core::settings;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// The default path of the configuration file.
pub const DEFAULT_PATH: &str = "/etc/margrave/agent.toml";

/// Upper bound of a long poll.
const LONG_POLL_MAX: Duration = Duration::from_hours(1);

/// A commented example that is also the default.
pub const EXAMPLE: &str = include_str!("config/example.toml");

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("read the configuration `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the configuration cannot be used:{}", settings::list(path, problems))]
    Unusable { path: PathBuf, problems: Vec<settings::Problem> },
    #[error("{0}")]
    Invalid(String),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Base URL of the WFM, with a path if it has one (W-01). Default: the one from enrollment.
    pub server: Option<Url>,
    pub state_dir: PathBuf,
    /// Default: the engines that `compose` and `kubernetes` enable; none without both.
    pub runtime: Option<RuntimeKind>,
    pub device: DeviceConfig,
    /// Children of this gateway.
    pub child: Vec<ChildConfig>,
    pub poll: PollConfig,
    pub retry: RetryConfig,
    #[serde(with = "duration")]
    pub observe_period: Duration,
    #[serde(with = "duration")]
    pub component_timeout: Duration,
    pub boot: BootConfig,
    pub identity: IdentityConfig,
    pub trust: TrustConfig,
    pub proxy: Option<ProxyConfig>,
    pub http: HttpConfig,
    pub simulated: SimulatedConfig,
    pub registry: Vec<RegistryConfig>,
    pub artifacts: ArtifactsConfig,
    pub telemetry: TelemetryConfig,
    /// Enables compose deployments on Docker.
    pub compose: Option<ComposeConfig>,
    /// Enables Helm releases and plain manifests on Kubernetes.
    pub kubernetes: Option<KubernetesConfig>,
    /// The file it was read from.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeKind {
    /// Simulates workloads; only if configured explicitly.
    Simulated,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceConfig {
    /// Default: the client id of the SPIFFE ID.
    pub id: Option<DeviceId>,
    /// JSON or YAML, merged over the discovered capabilities.
    pub capabilities: Option<PathBuf>,
    /// Whether to discover the capabilities of this machine; otherwise only the file counts.
    #[serde(default = "yes")]
    pub discover: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildConfig {
    /// The part of the id after the id of the gateway.
    pub id: DeviceId,
    pub capabilities: PathBuf,
}

/// GEN-06
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PollConfig {
    #[serde(with = "duration")]
    pub period: Duration,
    /// `0s` disables it.
    #[serde(with = "duration")]
    pub long_poll: Duration,
    pub jitter: f64,
    #[serde(with = "duration")]
    pub start_spread: Duration,
    #[serde(with = "duration")]
    pub forbidden_period: Duration,
    pub hours: Vec<String>,
    pub downtime: Vec<String>,
    pub time_zone: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    #[serde(with = "duration")]
    pub first: Duration,
    #[serde(with = "duration")]
    pub max: Duration,
}

/// The first boot of a device without a desired state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BootConfig {
    /// A desired state signed by the manager, used on first boot; without it the device waits.
    pub preload: Option<PathBuf>,
}

/// Provisioned files; default: the files that enrollment wrote to the state folder (ONB-06).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentityConfig {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// PEM, or a SPIFFE JWK set.
    pub trust_bundle: Option<PathBuf>,
    /// The first line of each file distinguishes this machine from a copy of its disk.
    pub machine_files: Vec<PathBuf>,
}

/// The trust endpoint: enrollment and bundle refresh.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrustConfig {
    pub url: Option<Url>,
    pub ca_file: Option<PathBuf>,
    /// `sha256:` and the digest of the server's SubjectPublicKeyInfo.
    pub pin: Option<String>,
    /// A device without identity enrolls with the token in this file and then removes the file.
    pub token_file: Option<PathBuf>,
    /// Used where the bundle gives no refresh hint (TB-05).
    #[serde(with = "duration")]
    pub refresh: Duration,
}

/// An HTTP proxy, used with CONNECT.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    pub url: Url,
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    #[serde(with = "duration")]
    pub request_timeout: Duration,
    /// TLS-03: connections are not kept longer than this.
    #[serde(with = "duration")]
    pub connection_age_max: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulatedConfig {
    pub script: Option<PathBuf>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            server: None,
            state_dir: PathBuf::from("/var/lib/margrave-agent"),
            runtime: None,
            device: DeviceConfig { discover: true, ..DeviceConfig::default() },
            child: Vec::new(),
            poll: PollConfig::default(),
            retry: RetryConfig::default(),
            observe_period: settings.observe_period,
            component_timeout: settings.component_timeout,
            boot: BootConfig::default(),
            identity: IdentityConfig::default(),
            trust: TrustConfig::default(),
            proxy: None,
            http: HttpConfig::default(),
            simulated: SimulatedConfig::default(),
            registry: Vec::new(),
            artifacts: ArtifactsConfig::default(),
            telemetry: TelemetryConfig::default(),
            compose: None,
            kubernetes: None,
            file: None,
        }
    }
}

impl Default for PollConfig {
    fn default() -> Self {
        let PollPolicy { period, long_poll, jitter, start_spread, forbidden_period, calendar: _ } =
            Settings::default().poll;
        Self {
            period,
            long_poll,
            jitter,
            start_spread,
            forbidden_period,
            hours: Vec::new(),
            downtime: Vec::new(),
            time_zone: "UTC".to_owned(),
        }
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        let RetryPolicy { first, max } = Settings::default().retry;
        Self { first, max }
    }
}

impl Default for IdentityConfig {
    fn default() -> Self {
        let files = ["/sys/class/dmi/id/product_uuid", "/proc/device-tree/serial-number", "/etc/machine-id"];
        let machine_files = files.iter().map(PathBuf::from).collect();
        Self { certificate: None, key: None, trust_bundle: None, machine_files }
    }
}

impl Default for TrustConfig {
    fn default() -> Self {
        Self { url: None, ca_file: None, pin: None, token_file: None, refresh: Duration::from_hours(1) }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_mins(1),
            connection_age_max: Duration::from_mins(30),
        }
    }
}

impl AgentConfig {
    /// Reads a file; reports all its problems at once.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        check::read(path, &text, check::Depth::Settings)
    }

    /// Reads a file and checks the folders and files that it names on this machine.
    pub fn check(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        check::read(path, &text, check::Depth::Machine)
    }

    /// The validated settings of the machine.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let PollConfig { period, long_poll, jitter, start_spread, forbidden_period, hours, downtime, time_zone } =
            &self.poll;
        if let Some((key, text)) = check::odd(self).into_iter().next() {
            return Err(ConfigError::Invalid(format!("`{key}` {text}")));
        }
        let windows = |texts: &[String]| -> Vec<DayWindow> {
            // Checked above.
            texts.iter().filter_map(|text| text.parse().ok()).collect()
        };
        let zone = jiff::tz::TimeZone::get(time_zone).unwrap_or(jiff::tz::TimeZone::UTC);
        let calendar = Calendar { zone, hours: windows(hours), downtime: windows(downtime) };
        Ok(Settings {
            poll: PollPolicy {
                period: *period,
                long_poll: *long_poll,
                jitter: *jitter,
                start_spread: *start_spread,
                forbidden_period: *forbidden_period,
                calendar,
            },
            retry: RetryPolicy { first: self.retry.first, max: self.retry.max.max(self.retry.first) },
            observe_period: self.observe_period,
            component_timeout: self.component_timeout,
        })
    }
}

#[cfg(test)]
mod tests;

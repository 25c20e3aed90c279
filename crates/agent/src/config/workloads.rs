//! Settings for workloads: registries, the content store, telemetry, the engines.

use serde::Deserialize;
use std::path::PathBuf;
use url::Url;

/// A registry of components or images. Secrets are files, read at every use, so that they can be rotated at any time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegistryConfig {
    /// Host and port as in references; `*` for all registries without their own block.
    pub host: String,
    /// Certificate authorities to trust besides the system's, PEM.
    pub ca_file: Option<PathBuf>,
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    /// A token instead of a password; the username is optional.
    pub token_file: Option<PathBuf>,
    /// Used first: a host with the naming of the embedded registry, or a host and a path prefix.
    pub mirror: Option<String>,
    /// HTTP without encryption, for loopback addresses only.
    pub plain_http: bool,
}

/// The content store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArtifactsConfig {
    /// Limit in bytes per second for all downloads of components and images; 0 for no limit.
    pub bytes_per_second: u64,
}

/// Where workloads send telemetry (OBS-05).
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// `HTTP_OTEL_EXPORTER_OTLP_ENDPOINT`, as seen from inside a container.
    pub http_endpoint: Option<Url>,
    /// `GRPC_OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub grpc_endpoint: Option<Url>,
    /// A PEM file on this device; containers find it at `OTEL_EXPORTER_OTLP_CERTIFICATE`.
    pub certificate: Option<PathBuf>,
    /// `grpc` or `http/protobuf`.
    pub protocol: Option<String>,
}

/// Docker, or Podman through its socket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ComposeConfig {
    pub socket: PathBuf,
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// Where the engine looks for certificate authorities of registries; the agent copies each `ca_file` there.
    pub certificates: Option<PathBuf>,
}

impl Default for ComposeConfig {
    fn default() -> Self {
        Self {
            socket: PathBuf::from("/var/run/docker.sock"),
            command: vec!["docker".to_owned(), "compose".to_owned()],
            certificates: None,
        }
    }
}

/// Helm releases and plain manifests on Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KubernetesConfig {
    /// Default: the service account of the agent's pod.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; default: its current one.
    pub context: Option<String>,
    /// One existing namespace for all workloads; default: the namespace each deployment names.
    pub namespace: Option<String>,
    /// The program, version 3 or 4.
    pub helm: PathBuf,
    /// Enabled types: `helm`, `custom` (plain manifests).
    pub deployment_types: Vec<String>,
    /// Cluster-scoped kinds that manifests may contain; `*` for all.
    pub cluster_kinds: Vec<String>,
}

impl KubernetesConfig {
    pub fn runs(&self, deployment_type: &str) -> bool {
        self.deployment_types.iter().any(|known| known == deployment_type)
    }
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            namespace: None,
            helm: PathBuf::from("helm"),
            deployment_types: vec!["helm".to_owned(), "custom".to_owned()],
            cluster_kinds: Vec::new(),
        }
    }
}

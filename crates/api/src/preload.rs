//! Desired state that a device is given before it has heard from the server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /api/clients/{id}/preload`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePreload {
    /// Digest of the manifest the contents below were gathered for; refused when it is not the current one any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Components that travel along.
    #[serde(default)]
    pub artifacts: Vec<PreloadArtifact>,
    /// Container images that travel along.
    #[serde(default)]
    pub images: Vec<PreloadImage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreloadArtifact {
    /// Repository and revision as deployments name them: `oci://registry.example/web:1.0.0`.
    pub reference: String,
    /// Digest of the layer that holds the component.
    pub layer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreloadImage {
    /// As compose files name it.
    pub name: String,
    /// Digests of its configuration and its layers.
    pub config: String,
    pub layers: Vec<String>,
}

/// What goes into the file: a statement signed by the server, and the desired state it is about.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preload {
    /// The exact text that was signed; it names the client, the manifest and what travels along by digest.
    pub statement: String,
    /// TLS number of the signature scheme.
    pub scheme: u16,
    /// Base64.
    pub signature: String,
    /// Base64 of DER: the server's certificate, then those it leads through.
    pub certificates: Vec<String>,
    pub manifest_version: u64,
    /// Digest of the manifest.
    pub manifest_digest: String,
    /// The exact text of the manifest.
    pub manifest: String,
    pub deployments: Vec<PreloadDeployment>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreloadDeployment {
    pub id: String,
    pub digest: String,
    /// The exact text of the deployment, sensitive values included.
    pub yaml: String,
}

//! Desired state for a device before its first connection to the server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /api/clients/{id}/preload`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePreload {
    /// Digest of the manifest for which the contents below were collected; rejected when it is no longer current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Components included.
    #[serde(default)]
    pub artifacts: Vec<PreloadArtifact>,
    /// Container images included.
    #[serde(default)]
    pub images: Vec<PreloadImage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreloadArtifact {
    /// Repository and revision as in deployments: `oci://registry.example/web:1.0.0`.
    pub reference: String,
    /// Digest of the layer with the component.
    pub layer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreloadImage {
    /// As named in compose files.
    pub name: String,
    /// Digests of its configuration and its layers.
    pub config: String,
    pub layers: Vec<String>,
}

/// The content of the file: a statement signed by the server, and its desired state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preload {
    /// The exact text that was signed; it names the client, the manifest and the contents by digest.
    pub statement: String,
    /// TLS number of the signature scheme.
    pub scheme: u16,
    /// Base64.
    pub signature: String,
    /// Base64 of DER: the server's certificate, then its intermediates.
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

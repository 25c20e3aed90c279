//! The embedded OCI registry: what it holds, and the credentials clients pull with.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/registry`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Registry {
    /// What stands before a repository in an image reference: host and port.
    pub address: String,
    /// Blobs, manifests and uploads under way.
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_bytes_max: Option<u64>,
    pub blobs: u64,
    pub manifests: u64,
    pub tags: u64,
}

/// One repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    pub name: String,
    /// Blobs it has, shared with others or not, and manifests.
    pub bytes: u64,
    pub blobs: u64,
    pub manifests: u64,
    pub tags: u64,
}

/// `POST /api/registry/collection`: what garbage collection took away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Collection {
    /// Blobs taken from a repository.
    pub blobs: u64,
    /// Bytes that became free.
    pub bytes: u64,
    /// Uploads nobody came back for.
    pub uploads: u64,
    /// Repositories that were empty.
    pub repositories: u64,
}

/// What a client logs in to the registry with; it can pull and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullCredentials {
    /// Host and port, as for `docker login`.
    pub address: String,
    pub user: String,
    pub password: String,
}

/// `POST /api/clients/{id}/pull-credentials`: a new password; the old one ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplacePullCredentials {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

//! The embedded OCI registry: usage, and the pull credentials of clients.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/registry`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Registry {
    /// Prefix of a repository in an image reference: host and port.
    pub address: String,
    /// Blobs, manifests and uploads in progress.
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

/// `POST /api/registry/garbage-collection`: the result of a garbage collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Collection {
    /// Blobs removed from a repository.
    pub blobs: u64,
    /// Freed bytes.
    pub bytes: u64,
    /// Abandoned uploads.
    pub uploads: u64,
    /// Empty repositories.
    pub repositories: u64,
}

/// The credentials of a client for the registry; pull only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullCredentials {
    /// Host and port, as for `docker login`.
    pub address: String,
    pub user: String,
    pub password: String,
}

/// `POST /api/clients/{id}/pull-credentials`: a new password; the old one stops working.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplacePullCredentials {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

//! Copies: an application with its components and images, from an external registry into the embedded one.

use crate::applications::ApplicationVersion;
use crate::registries::RegistryUse;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /api/registry/copies`
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateCopy {
    /// The package: `oci://registry/repository:tag` or `oci://registry/repository@sha256:...`.
    pub source: String,
    /// Without user, password, CA or plain HTTP, the stored ones of a registry are used (`/api/registries`), also for
    /// further ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Used for this copy and this registry only; never stored, logged or shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "password")]
    pub password: Option<String>,
    /// For components and images in further registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logins: Vec<RegistryLogin>,
    /// Use HTTP instead of HTTPS with registries on loopback addresses.
    #[serde(default)]
    pub plain_http: bool,
    /// PEM of additional CAs to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Images to copy in addition to those that the components name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Only content for these platforms, such as `linux/amd64`; everything unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Credentials for another registry.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryLogin {
    /// Name and port.
    pub host: String,
    pub username: String,
    #[schema(format = "password")]
    pub password: String,
}

/// Passwords are for the registries only: they must not reach a log through `{:?}`.
impl std::fmt::Debug for CreateCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateCopy")
            .field("source", &self.source)
            .field("images", &self.images)
            .field("platforms", &self.platforms)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RegistryLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryLogin").field("host", &self.host).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopyState {
    /// Waiting for other copies.
    Waiting,
    Running,
    /// Everything was copied.
    Done,
    /// Something could not be copied; the rest was.
    Incomplete,
    /// It ended early; running it again continues where it ended.
    Failed,
    Cancelled,
}

impl CopyState {
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// `GET /api/registry/copies/{id}`: progress of a copy. Kept in memory: lost when the server restarts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Copy {
    pub id: String,
    pub source: String,
    pub state: CopyState,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Who requested it.
    pub actor: String,
    /// Bytes transferred over the network.
    pub bytes_copied: u64,
    /// Bytes that were already present.
    pub bytes_present: u64,
    pub artifacts: Vec<CopiedArtifact>,
    /// How each registry was used, so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<RegistryUse>,
    /// Images whose names are only known at run time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The application in the catalog, once added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationVersion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopiedKind {
    Package,
    Component,
    Image,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopiedState {
    Waiting,
    Copying,
    Copied,
    /// All of it was already present.
    Present,
    NotFound,
    Failed,
}

/// One artifact of a copy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CopiedArtifact {
    pub kind: CopiedKind,
    /// As named by descriptions, charts and compose files.
    pub reference: String,
    /// Its place in the embedded registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub state: CopiedState,
    pub bytes_copied: u64,
    pub bytes_present: u64,
    /// For an index: the copied platforms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<String>,
    /// Why it was not copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

//! The catalog and what fits where.

use crate::devices::DeviceRef;
use crate::registries::RegistryUse;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Application {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tagline: Option<String>,
    pub vendor: String,
    pub newest_version: String,
    pub versions: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationVersion {
    pub id: String,
    pub version: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tagline: Option<String>,
    pub vendor: String,
    pub package_digest: String,
    pub source: String,
    pub imported_at: String,
    pub profiles: Vec<Profile>,
    pub resources: Vec<Resource>,
    /// What is odd about the package, and which of its components no registry is known to have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What registries said about its components; left out where they were not asked since the server was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components_asked: Option<ComponentsAsked>,
    /// Files of the package that the catalog does not need, and has not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// When registries were asked for the components of an application, and what they said. `warnings` says it in words.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentsAsked {
    pub at: String,
    /// How many they were asked for.
    pub artifacts: u64,
    /// Those that are surely not where the package says.
    pub missing: u64,
    /// Those that nobody could be asked for; devices may reach what the server does not.
    pub unknown: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    pub id: String,
    #[serde(rename = "type")]
    pub profile_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Names in installation order.
    pub components: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    pub kind: String,
    pub path: String,
    pub media_type: String,
}

/// `GET /api/applications/{id}`: one application with all its versions and what runs of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationDetail {
    pub id: String,
    pub name: String,
    pub versions: Vec<ApplicationVersion>,
    /// Deployments by version, counted by convergence.
    #[schema(value_type = Object)]
    pub deployments: std::collections::BTreeMap<String, crate::summary::Counts>,
}

/// `POST /api/applications/import`: pull a package from an OCI registry.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportApplication {
    /// `oci://registry/repository:tag` or `oci://registry/repository@sha256:...`.
    pub source: String,
    /// Without user, password, CA or plain HTTP, those kept for the registry are used (`/api/registries`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Used for this import only; never stored, logged or shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "password")]
    pub password: Option<String>,
    /// Speak HTTP instead of HTTPS; accepted for loopback addresses only.
    #[serde(default)]
    pub plain_http: bool,
    /// PEM of a further CA to trust for this registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The password is for the registry alone: it must not reach a log by way of `{:?}`.
impl std::fmt::Debug for ImportApplication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportApplication")
            .field("source", &self.source)
            .field("username", &self.username)
            .field("plain_http", &self.plain_http)
            .finish_non_exhaustive()
    }
}

/// Answer to an import or an upload.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// False when exactly this package was there already.
    pub added: bool,
    pub application: ApplicationVersion,
    /// How the registry was asked, when it came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryUse>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FitOutcome {
    Fits,
    DoesNotFit,
    Unknown,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceFit {
    #[serde(flatten)]
    pub device: DeviceRef,
    pub outcome: FitOutcome,
    /// The profile that would be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub profiles: Vec<ProfileFit>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileFit {
    pub profile: String,
    #[serde(rename = "type")]
    pub profile_type: String,
    pub outcome: FitOutcome,
    pub reasons: Vec<FitReason>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FitReason {
    pub rule: String,
    pub outcome: FitOutcome,
    pub message: String,
}

/// `GET /api/applications/{id}/versions/{version}/questions`: settings by section, for all profiles or one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Questions {
    pub sections: Vec<QuestionSection>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionSection {
    pub name: String,
    pub questions: Vec<Question>,
}

#[expect(clippy::struct_excessive_bools, reason = "four independent facts about a setting")]
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    pub parameter: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub immutable: bool,
    pub sensitive: bool,
    pub data_type: String,
    /// Whether an empty answer is accepted.
    pub allow_empty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub default: Option<serde_json::Value>,
    /// The rules in words: `30 to 360`, `at most 45 characters`.
    pub rules: Vec<String>,
    /// The regular expression a text is held against; `rules` has words for it, or an example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub options: Option<Vec<serde_json::Value>>,
    pub multiselect: bool,
}

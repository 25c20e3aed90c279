//! The catalog and compatibility.

use crate::devices::DeviceName;
use crate::registries::RegistryUse;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    /// Warnings about the package, and its components that no registry is known to have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Result of the registry check of its components; absent if there was none since the start of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components_checked: Option<ComponentsChecked>,
    /// Files of the package that the catalog does not need and did not store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// When the registries were checked for the components of an application, and the result. `warnings` has the details.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentsChecked {
    pub at: String,
    /// Number of components checked.
    pub artifacts: u64,
    /// Components that are definitely missing.
    pub missing: u64,
    /// Components that could not be checked; devices may reach registries that the server does not.
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

/// `GET /api/applications/{id}`: one application with all its versions and its deployments.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationDetail {
    pub id: String,
    pub name: String,
    pub versions: Vec<ApplicationVersion>,
    /// Deployments by version, counted by state.
    #[schema(value_type = Object)]
    pub deployments: std::collections::BTreeMap<String, crate::summary::Counts>,
}

/// `POST /api/applications/import`: pull a package from an OCI registry.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportApplication {
    /// `oci://registry/repository:tag` or `oci://registry/repository@sha256:...`.
    pub source: String,
    /// Without user, password, CA or plain HTTP, the stored ones of the registry are used (`/api/registries`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Used for this import only; never stored, logged or shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "password")]
    pub password: Option<String>,
    /// Use HTTP instead of HTTPS; accepted for loopback addresses only.
    #[serde(default)]
    pub plain_http: bool,
    /// PEM of an additional CA to trust for this registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The password is for the registry only: it must not reach a log through `{:?}`.
impl std::fmt::Debug for ImportApplication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportApplication")
            .field("source", &self.source)
            .field("username", &self.username)
            .field("plain_http", &self.plain_http)
            .finish_non_exhaustive()
    }
}

/// Response of an import or an upload.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// False when this package already existed.
    pub added: bool,
    pub application: ApplicationVersion,
    /// How the registry was used, when it came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryUse>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compatibility {
    Compatible,
    Incompatible,
    Unknown,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCompatibility {
    #[serde(flatten)]
    pub device: DeviceName,
    pub outcome: Compatibility,
    /// The profile that would be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub profiles: Vec<ProfileCompatibility>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileCompatibility {
    pub profile: String,
    #[serde(rename = "type")]
    pub profile_type: String,
    pub outcome: Compatibility,
    pub reasons: Vec<CompatibilityReason>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompatibilityReason {
    pub rule: String,
    pub outcome: Compatibility,
    pub message: String,
}

/// `GET /api/applications/{id}/versions/{version}/parameters`: parameters by section, for all profiles or one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Parameters {
    pub sections: Vec<ParameterSection>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParameterSection {
    pub name: String,
    pub parameters: Vec<Parameter>,
}

#[expect(clippy::struct_excessive_bools, reason = "four independent facts about a setting")]
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Parameter {
    pub parameter: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub immutable: bool,
    pub sensitive: bool,
    pub data_type: String,
    /// Whether an empty value is accepted.
    pub allow_empty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub default: Option<Value>,
    /// The rules in words: `30 to 360`, `at most 45 characters`.
    pub rules: Vec<String>,
    /// The regular expression that a text must match; `rules` describes it or gives an example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Value>>)]
    pub options: Option<Vec<Value>>,
    pub multiselect: bool,
}

//! Differences between two revisions, between desired and reported state, between two versions.

use crate::deployments::Status;
use crate::rollouts::DiffLine;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// `GET /api/deployments/{id}/diff`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentDiff {
    pub deployment: String,
    pub from: DiffSide,
    pub to: DiffSide,
    /// Whether nothing differs.
    pub same: bool,
    /// Differences by field; sensitive values are masked.
    pub fields: Vec<FieldDiff>,
    /// The two documents line by line.
    pub lines: Vec<DiffLine>,
    /// The same as text, in the format of `diff -u`; empty when the documents are the same.
    pub unified: String,
    /// The last report of the device, where one side is `reported`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Components that are not as desired, where one side is `reported`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentDiff>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffSide {
    pub kind: DiffSideKind,
    /// In words: `revision 3 (1.0.0)`, `nothing`, ...
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_version: Option<u64>,
    /// When it was published or reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiffSideKind {
    /// A revision by its number.
    Revision,
    /// The revision that the device reports.
    Reported,
    /// The device reports nothing, or has not reported yet.
    Nothing,
    /// The reported revision is unknown or no longer kept.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldDiff {
    /// `version`, `profile`, `parameters.interval`, `components.vision`, ...
    pub field: String,
    /// Absent: the field is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub before: Option<Value>,
    /// Absent: the field was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub after: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentDiff {
    pub name: String,
    /// `installed` or `removed`.
    pub desired: String,
    /// Absent: the device has not reported on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<String>,
}

/// `GET /api/applications/{id}/diff`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationDiff {
    pub application: String,
    pub from: String,
    pub to: String,
    pub same: bool,
    pub fields: Vec<FieldDiff>,
    /// The two descriptions line by line; sensitive defaults are masked.
    pub lines: Vec<DiffLine>,
    pub unified: String,
}

//! What differs between two revisions, between what is desired and what is reported, between two versions.

use crate::changes::DiffLine;
use crate::deployments::Status;
use serde::{Deserialize, Serialize};
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
    /// What differs, field by field; sensitive values are masked.
    pub fields: Vec<FieldDiff>,
    /// The two documents line by line.
    pub lines: Vec<DiffLine>,
    /// The same as text, as `diff -u` writes it; empty when the documents are the same.
    pub unified: String,
    /// What the device said last, where one side is `reported`.
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
    /// The revision the device says it has adopted.
    Reported,
    /// The device says that it has nothing, or has not said anything yet.
    Nothing,
    /// The device does not say what it has, or what it has is no longer kept.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldDiff {
    /// `version`, `profile`, `parameters.interval`, `components.vision`, ...
    pub field: String,
    /// Absent: it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<serde_json::Value>,
    /// Absent: it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentDiff {
    pub name: String,
    /// `installed` or `removed`.
    pub desired: String,
    /// Absent: the device has not said anything about it.
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

//! What happens, as history and as a stream.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Counts up in the order things were committed; streams and lists resume by it.
    pub id: i64,
    pub at: String,
    /// The noun, then what became of it: `deployment.failed`, `client.accepted`, `change.finished`.
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Who did it: `operator:admin`, `token:ci`, `client:press-07`, `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// One sentence for people.
    pub message: String,
    /// A few names and numbers; which ones depends on the kind, and more may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub detail: Option<serde_json::Value>,
}

/// Sent as `event: gap`: what lies between is not kept any more, or never was on this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventGap {
    /// Where the reader was.
    pub after: i64,
    /// The first id it can still get.
    pub next: i64,
    /// One sentence for people.
    pub message: String,
}

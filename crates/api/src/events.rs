//! Events, as history and as a stream.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Increases in commit order; streams and lists resume by it.
    pub id: i64,
    pub at: String,
    /// The noun, then what happened: `deployment.failed`, `client.accepted`, `rollout.finished`.
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
    pub rollout: Option<String>,
    /// The actor: `operator:admin`, `token:ci`, `client:press-07`, `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// One sentence for people, rendered from the other members; its wording may change.
    pub message: String,
    /// A few names and numbers; they depend on the kind, and more may be added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub detail: Option<serde_json::Value>,
}

/// Sent as `event: gap`: the events in between are no longer kept, or never were on this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventGap {
    /// The position of the reader.
    pub after: i64,
    /// The first id that is still available.
    pub next: i64,
    /// One sentence for people.
    pub message: String,
}

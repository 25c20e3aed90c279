//! Status explained: the same facts and the same words for every reader.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Desired state, observed facts and since when, what it waits for, and next steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `deployment/<id>`, `device/<client>/<device>` or `application/<id>`.
    pub subject: String,
    /// A stable word: a deployment state; `online`, `waiting`, `failed`, `offline` or `blocked` for a device;
    /// `online`, `waiting`, `failed`, `blocked` or `unused` for an application.
    pub state: String,
    /// A summary in one sentence.
    pub summary: String,
    pub desired: Vec<Fact>,
    pub observed: Vec<Fact>,
    pub waiting_for: Vec<Fact>,
    pub next_steps: Vec<Fact>,
}

/// One fact, for programs and for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// Stable, for programs: `last-report`, `client-offline`, `next-poll`, ...
    pub code: String,
    pub sentence: String,
    /// Since when it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Its subject, if different: `client/<id>`, `rollout/<id>`, `deployment/<id>`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The command that does it or shows it; the sentence says the same without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The numbers and names in the sentence.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
}

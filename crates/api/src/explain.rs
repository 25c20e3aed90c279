//! Why something is as it is: the same facts and the same words for every reader.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is desired, what is known and since when, what is waited for, and what would change it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `deployment/<id>`, `device/<client>/<device>` or `application/<id>`.
    pub subject: String,
    /// One stable word: a convergence for a deployment; `fine`, `waiting`, `failing`, `silent` or `shut-out` for a device;
    /// `fine`, `waiting`, `failing`, `blocked` or `unused` for an application.
    pub state: String,
    /// One sentence that says it all.
    pub summary: String,
    pub desired: Vec<Fact>,
    pub known: Vec<Fact>,
    pub waiting_for: Vec<Fact>,
    pub would_change_it: Vec<Fact>,
}

/// One thing, for programs and for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// Stable, for programs: `last-report`, `client-silent`, `next-poll`, ...
    pub code: String,
    pub sentence: String,
    /// Since when it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What it is about, where that is something else: `client/<id>`, `change/<id>`, `deployment/<id>`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The command that does it or shows it, for somebody at a terminal; the sentence says the same without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The numbers and names in the sentence.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = Object)]
    pub values: IndexMap<String, serde_json::Value>,
}

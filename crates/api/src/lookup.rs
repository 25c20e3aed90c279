//! Resolves what an operator types: the beginning of an id, or a name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LookupKind {
    /// By its whole id.
    Application,
    /// By its whole id.
    Client,
    /// By the beginning of its id.
    Deployment,
    /// By its id, or `client/device`.
    Device,
    /// By the beginning of its id.
    Rollout,
    /// By the beginning of its id; only active sessions.
    Session,
    /// By the beginning of its id.
    Token,
}

impl LookupKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Client => "client",
            Self::Deployment => "deployment",
            Self::Device => "device",
            Self::Rollout => "rollout",
            Self::Session => "session",
            Self::Token => "token",
        }
    }
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lookup {
    /// The objects with this name, the first ones in order of id.
    pub matches: Vec<LookupMatch>,
    /// There are more than the listed ones.
    pub more: bool,
    /// Without matches: existing names that resemble it, the most similar first.
    pub similar: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LookupMatch {
    pub id: String,
    /// The client of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The application of a deployment or a rollout, the name of a token or an application, the owner of a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

//! DeploymentStatus: the report of a client about one deployment (requirements §6).

use crate::ids::{DeploymentId, DeviceId};
use crate::node::Limits;
use crate::tree::{Members, Tree};
use crate::{ReadResult, reader};

mod read;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Pending,
    Installing,
    Installed,
    Removing,
    Removed,
    Failed,
}

impl State {
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Installing, Self::Installed, Self::Removing, Self::Removed, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Installing => "installing",
            Self::Installed => "installed",
            Self::Removing => "removing",
            Self::Removed => "removed",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Higher wins: failed > removing > installing > pending > removed > installed (ST-03).
    fn severity(self) -> u8 {
        match self {
            Self::Failed => 5,
            Self::Removing => 4,
            Self::Installing => 3,
            Self::Pending => 2,
            Self::Removed => 1,
            Self::Installed => 0,
        }
    }

    /// The overall state of these component states (ST-03); `None` if there are none.
    pub fn overall(components: impl IntoIterator<Item = Self>) -> Option<Self> {
        components.into_iter().max_by_key(|state| state.severity())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentStatus {
    pub deployment_id: DeploymentId,
    pub device_id: Option<DeviceId>,
    /// 0 means unknown: some clients send it (W-12).
    pub adopted_manifest_version: u64,
    pub state: State,
    pub error: Option<StatusError>,
    pub components: Vec<ComponentStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentStatus {
    pub name: String,
    pub state: State,
    pub error: Option<StatusError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusError {
    pub code: String,
    pub source: String,
    pub message: String,
}

impl DeploymentStatus {
    /// Lenient: numeric strings, empty errors and missing sources are accepted (W-12, W-14).
    pub fn read(json: &[u8]) -> ReadResult<Self> {
        reader::read_json(json, Limits::DOCUMENT, read::status)
    }

    /// Always an integer version; an error only if there is one.
    pub fn to_json(&self) -> Vec<u8> {
        let status = Members::new()
            .with("state", self.state.as_str())
            .with_some("error", self.error.as_ref().map(StatusError::to_tree));
        let components = self.components.iter().map(|component| {
            Members::new()
                .with("name", &component.name)
                .with("state", component.state.as_str())
                .with_some("error", component.error.as_ref().map(StatusError::to_tree))
        });
        Members::new()
            .with("deploymentId", self.deployment_id.to_string())
            .with_some("deviceId", self.device_id.as_ref().map(DeviceId::as_str))
            .with("adoptedManifestVersion", self.adopted_manifest_version)
            .with("status", status)
            .with("components", Tree::list(components))
            .build()
            .to_json()
    }
}

impl StatusError {
    fn to_tree(&self) -> Tree {
        Members::new().with("code", &self.code).with("source", &self.source).with("message", &self.message).build()
    }
}

#[cfg(test)]
mod tests;

//! ApplicationDeployment: the unit of desired state (requirements §4).

use crate::ReadResult;
use crate::constraints::DeviceConstraints;
use crate::description::{Component, Extensions, ProfileType};
use crate::ids::{ApplicationId, DeploymentId, DeviceTarget};
use crate::parameters::Target;
use crate::{reader, yaml};
use indexmap::IndexMap;

mod read;
mod write;

#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationDeployment {
    pub id: DeploymentId,
    pub metadata: DeploymentMetadata,
    pub spec: DeploymentSpec,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentMetadata {
    pub name: String,
    pub namespace: String,
    /// Missing only in documents of generation A1, where the client has one device.
    pub device_id: Option<DeviceTarget>,
    pub labels: IndexMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentSpec {
    pub application_id: ApplicationId,
    pub deployment_profile: DeployedProfile,
    pub parameters: IndexMap<String, ParameterValue>,
    pub extensions: Extensions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeployedProfile {
    pub profile_type: ProfileType,
    pub components: Vec<Component>,
    pub device_constraints: Option<DeviceConstraints>,
    pub extensions: Extensions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ParameterValue {
    pub value: serde_json::Value,
    pub targets: Vec<Target>,
}

impl ApplicationDeployment {
    /// Reads YAML of generation B, or of A where it differs only in form.
    pub fn read(yaml: &[u8]) -> ReadResult<Self> {
        reader::read_yaml(yaml, read::deployment)
    }

    /// Writes YAML of generation B; the same value always gives the same bytes.
    pub fn to_yaml(&self) -> String {
        yaml::write(&write::deployment(self))
    }
}

#[cfg(test)]
mod tests;

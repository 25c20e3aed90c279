//! ApplicationDescription: how a supplier describes an application (requirements §3.3).

use crate::ReadResult;
use crate::constraints::DeviceConstraints;
use crate::ids::ApplicationId;
use crate::parameters::{Configuration, Parameter};
use crate::{reader, yaml};
use indexmap::IndexMap;
use std::fmt;

pub(crate) mod outline;
pub(crate) mod read;
pub(crate) mod write;

pub use outline::{Outline, OutlinedComponent, OutlinedResource};

/// `x-<name>-extensions` members, in the order of the document (EXT-01).
pub type Extensions = IndexMap<String, serde_json::Value>;

#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationDescription {
    pub id: ApplicationId,
    pub metadata: Metadata,
    pub deployment_profiles: Vec<DeploymentProfile>,
    pub parameters: IndexMap<String, Parameter>,
    pub configuration: Option<Configuration>,
    pub extensions: Extensions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    pub name: String,
    pub description: Option<String>,
    pub version: String,
    pub catalog: Catalog,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalog {
    pub application: Option<ApplicationMetadata>,
    pub author: Vec<Author>,
    pub organization: Vec<Organization>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ApplicationMetadata {
    pub description_file: Option<String>,
    pub icon: Option<String>,
    pub license_file: Option<String>,
    pub release_notes: Option<String>,
    pub site: Option<String>,
    pub tagline: Option<String>,
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Author {
    pub name: Option<String>,
    pub email: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Organization {
    pub name: String,
    pub site: Option<String>,
}

/// How a profile is installed (AP-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProfileType {
    Helm,
    Compose,
    Custom,
}

impl ProfileType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::Compose => "compose",
            Self::Custom => "custom",
        }
    }

    /// The type with this name; `helm.v3` is the name of an older preview (W-22).
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "helm" | "helm.v3" => Some(Self::Helm),
            "compose" => Some(Self::Compose),
            "custom" => Some(Self::Custom),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentProfile {
    pub profile_type: ProfileType,
    pub id: String,
    pub description: Option<String>,
    /// In installation order (AD-01).
    pub components: Vec<Component>,
    pub device_constraints: Option<DeviceConstraints>,
    pub extensions: Extensions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    pub name: String,
    pub properties: ComponentProperties,
    pub extensions: Extensions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ComponentProperties {
    pub source: ComponentSource,
    /// Wait for this component before the next; absent means true (AD-02).
    pub wait: Option<bool>,
    pub timeout: Option<Timeout>,
}

impl ComponentProperties {
    pub fn waits(&self) -> bool {
        self.wait.unwrap_or(true)
    }
}

/// The location of a component's artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentSource {
    /// An OCI artifact; `revision` in its stored form, `_` for `+` (AD-04).
    Oci { repository: String, revision: String },
    /// The older Compose form: a URL of a compose.yaml or tar.gz (W-22).
    Location { package_location: String, key_location: Option<String> },
}

/// `##m##s`, how long a component may take (AD-03).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    pub seconds: u64,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}m{}s", self.seconds / 60, self.seconds % 60)
    }
}

impl ApplicationDescription {
    /// Reads YAML of generation B, or of A where it differs only in form.
    pub fn read(yaml: &[u8]) -> ReadResult<Self> {
        reader::read_yaml(yaml, read::description)
    }

    /// Reads it, and returns in addition what other checks need, whether or not the description is usable.
    pub fn read_with_outline(yaml: &[u8]) -> (ReadResult<Self>, Outline) {
        let mut outline = Outline::default();
        let read = reader::read_yaml(yaml, |root| {
            outline = outline::outline(root);
            read::description(root)
        });
        (read, outline)
    }

    /// Writes YAML of generation B.
    pub fn to_yaml(&self) -> String {
        yaml::write(&write::description(self))
    }

    pub fn profile(&self, id: &str) -> Option<&DeploymentProfile> {
        self.deployment_profiles.iter().find(|profile| profile.id == id)
    }
}

#[cfg(test)]
mod tests;

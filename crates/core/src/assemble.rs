//! From an application version, a profile and resolved parameters to the ApplicationDeployment a device gets.

use indexmap::IndexMap;
use margo::deployment::{ApplicationDeployment, ParameterValue};
use margo::description::{ApplicationDescription, DeploymentProfile};
use margo::ids::{DeploymentId, DeviceTarget};

/// Everything a deployment is made of.
#[derive(Debug, Clone)]
pub struct Ingredients<'a> {
    pub id: DeploymentId,
    pub target: &'a DeviceTarget,
    pub description: &'a ApplicationDescription,
    pub profile: &'a DeploymentProfile,
    pub parameters: IndexMap<String, ParameterValue>,
}

/// Copies components in order (AD-01), constraints unmodified (CON-03), profile and component extensions exactly
/// (EXT-03); root extensions stay behind. Name and namespace are valid Kubernetes names derived from application and id.
pub fn assemble(ingredients: Ingredients<'_>) -> ApplicationDeployment {
    let _ = ingredients;
    todo!()
}

//! Builds the ApplicationDeployment of a device from an application version, a profile and resolved parameters.

#[cfg(test)]
mod tests;

use crate::policy::Policy;
use indexmap::IndexMap;
use margo::deployment::{ApplicationDeployment, DeployedProfile, DeploymentMetadata, DeploymentSpec, ParameterValue};
use margo::description::{ApplicationDescription, DeploymentProfile, Extensions};
use margo::ids::{ApplicationId, DeploymentId, DeviceTarget};
use margo::parameters::Target;

/// Kubernetes allows names of 63 characters; Helm, which derives release names from ours, only 53.
pub const NAME_CHARS_MAX: usize = 53;

/// Everything a deployment is made of.
#[derive(Debug, Clone)]
pub struct AssembleInput<'a> {
    pub id: DeploymentId,
    pub target: &'a DeviceTarget,
    pub description: &'a ApplicationDescription,
    pub profile: &'a DeploymentProfile,
    pub parameters: IndexMap<String, ParameterValue>,
    pub policy: Policy,
}

/// Copies components in order (AD-01), constraints unmodified (CON-03), profile and component extensions exactly
/// (EXT-03); root extensions are not copied. Name and namespace are valid Kubernetes names derived from application and
/// id.
pub fn assemble(ingredients: AssembleInput<'_>) -> ApplicationDeployment {
    let AssembleInput { id, target, description, profile, parameters, policy } = ingredients;
    // EXT-03: root extensions of a description are between supplier and fleet manager.
    let mut extensions = Extensions::new();
    policy.write(&mut extensions);
    let name = kubernetes_name(&description.id, id);
    ApplicationDeployment {
        id,
        metadata: DeploymentMetadata {
            name: name.clone(),
            namespace: name,
            device_id: Some(target.clone()),
            labels: IndexMap::new(),
        },
        spec: DeploymentSpec {
            application_id: description.id.clone(),
            deployment_profile: DeployedProfile {
                profile_type: profile.profile_type,
                components: profile.components.clone(),
                device_constraints: profile.device_constraints.clone(),
                extensions: profile.extensions.clone(),
            },
            parameters: only_for_profile(parameters, profile),
            extensions,
        },
    }
}

/// `<application>-<first 8 digits of the deployment id>`: a DNS-1123 label that never changes for a deployment.
///
/// Application ids may be longer than a name and may begin or end with a dash, so they are cut and trimmed; the digits
/// distinguish two deployments of one application on one device.
pub fn kubernetes_name(application: &ApplicationId, deployment: DeploymentId) -> String {
    let digits = deployment.to_string().chars().take(8).collect::<String>();
    let room = NAME_CHARS_MAX - digits.len() - 1;
    let stem = application.as_str().chars().skip_while(|c| *c == '-').take(room).collect::<String>();
    let stem = stem.trim_end_matches('-');
    format!("{}-{digits}", if stem.is_empty() { "application" } else { stem })
}

/// PRM-03: a target names only components of this profile; a parameter without any target is omitted.
fn only_for_profile(
    parameters: IndexMap<String, ParameterValue>,
    profile: &DeploymentProfile,
) -> IndexMap<String, ParameterValue> {
    let in_profile = |name: &String| profile.components.iter().any(|component| component.name == *name);
    let narrow = |target: Target| Target {
        components: target.components.into_iter().filter(in_profile).collect(),
        pointer: target.pointer,
    };
    parameters
        .into_iter()
        .map(|(name, ParameterValue { value, targets })| {
            let targets = targets.into_iter().map(narrow).filter(|target| !target.components.is_empty()).collect();
            (name, ParameterValue { value, targets })
        })
        .filter(|(_, parameter)| !parameter.targets.is_empty())
        .collect()
}

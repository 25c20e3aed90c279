//! Builds the document of one deployment from an intent. Pure: the dry run shows exactly what publishing writes.

use indexmap::IndexMap;
use margo::deployment::{ApplicationDeployment, ParameterValue};
use margo::description::ApplicationDescription;
use margo::ids::{DeploymentId, DeviceTarget};
use margo::parameters::{self, ParameterValues, ValueError};
use margrave_core::assemble::{AssembleInput, assemble};
use margrave_core::policy::{Policy, PolicyUpdate};

/// One deployment's document and the values in it.
#[derive(Debug, Clone)]
pub(crate) struct Composed {
    pub(crate) document: ApplicationDeployment,
    pub(crate) yaml: Vec<u8>,
    pub(crate) values: ParameterValues,
}

/// What carries over from an existing deployment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExistingDeployment<'a> {
    pub(crate) values: &'a ParameterValues,
    /// Description of its current version.
    pub(crate) description: &'a ApplicationDescription,
    pub(crate) policy: Policy,
}

/// Composes the document for `profile` of `description`, or reports the invalid values.
pub(crate) fn compose(
    id: DeploymentId,
    target: &DeviceTarget,
    description: &ApplicationDescription,
    profile: &str,
    given_values: &ParameterValues,
    policy: PolicyUpdate,
    before: Option<ExistingDeployment<'_>>,
) -> Result<Composed, Vec<ValueError>> {
    let Some(chosen) = description.profile(profile) else {
        let message = format!("`{}` {} has no profile `{profile}`", description.id, description.metadata.version);
        return Err(vec![ValueError::new("profile", message)]);
    };
    let parameters = resolved(description, profile, given_values, before)?;
    let values = parameters.iter().map(|(name, parameter)| (name.clone(), parameter.value.clone())).collect();
    let policy = policy.over(before.map(|before| before.policy).unwrap_or_default());
    let document = assemble(AssembleInput { id, target, description, profile: chosen, parameters, policy });
    let yaml = document.to_yaml().into_bytes();
    Ok(Composed { document, yaml, values })
}

/// The values that [`compose`] writes, without the document.
pub(crate) fn composed_values(
    description: &ApplicationDescription,
    profile: &str,
    given_values: &ParameterValues,
    before: Option<ExistingDeployment<'_>>,
) -> Result<ParameterValues, Vec<ValueError>> {
    let parameters = resolved(description, profile, given_values, before)?;
    Ok(parameters.into_iter().map(|(name, parameter)| (name, parameter.value)).collect())
}

fn resolved(
    description: &ApplicationDescription,
    profile: &str,
    given_values: &ParameterValues,
    before: Option<ExistingDeployment<'_>>,
) -> Result<IndexMap<String, ParameterValue>, Vec<ValueError>> {
    let given_values = with_stored(given_values, description, before);
    parameters::resolve(description, profile, &given_values, before.map(|before| before.values))
}

/// Merges the values over those of the deployment. Parameters that the new version does not have are dropped, and a
/// value that no operator could have set follows the supplier's default.
fn with_stored(
    given_values: &ParameterValues,
    description: &ApplicationDescription,
    before: Option<ExistingDeployment<'_>>,
) -> ParameterValues {
    let mut joined = ParameterValues::new();
    if let Some(before) = before {
        for (name, value) in before.values {
            let known = description.parameters.contains_key(name);
            let suppliers =
                before.description.parameters.get(name).is_some_and(|old| old.value.as_ref() == Some(value))
                    && !is_asked_for(before.description, name);
            if known && !suppliers {
                joined.insert(name.clone(), value.clone());
            }
        }
    }
    joined.extend(given_values.iter().map(|(name, value)| (name.clone(), value.clone())));
    joined
}

fn is_asked_for(description: &ApplicationDescription, parameter: &str) -> bool {
    description
        .configuration
        .iter()
        .flat_map(|configuration| &configuration.sections)
        .flat_map(|section| &section.settings)
        .any(|setting| setting.parameter == parameter)
}

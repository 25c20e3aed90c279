//! Writing an ApplicationDeployment of generation B: booleans as booleans, no annotations, always an id (DEP-04).

use super::{ApplicationDeployment, DeployedProfile, ParameterValue};
use crate::description::write::component;
use crate::parameters::write::targets;
use crate::tree::{Members, Tree};

pub(super) fn deployment(deployment: &ApplicationDeployment) -> Tree {
    let metadata = &deployment.metadata;
    let spec = &deployment.spec;
    let labels = metadata.labels.iter().fold(Members::new(), |members, (key, label)| members.with(key, label));
    let parameters = spec
        .parameters
        .iter()
        .fold(Members::new(), |members, (name, parameter)| members.with(name, parameter_value(parameter)));
    Members::new()
        .with("id", deployment.id.to_string())
        .with(
            "metadata",
            Members::new()
                .with("name", &metadata.name)
                .with("namespace", &metadata.namespace)
                .with_some("deviceId", metadata.device_id.as_ref().map(super::super::ids::DeviceTarget::as_str))
                .with_some("labels", (!metadata.labels.is_empty()).then_some(labels)),
        )
        .with(
            "spec",
            Members::new()
                .with("applicationId", spec.application_id.as_str())
                .with("deploymentProfile", profile(&spec.deployment_profile))
                .with("parameters", parameters)
                .with_all(&spec.extensions),
        )
        .build()
}

fn profile(profile: &DeployedProfile) -> Tree {
    Members::new()
        .with("type", profile.profile_type.as_str())
        .with("components", Tree::list(profile.components.iter().map(component)))
        .with_some("deviceConstraints", profile.device_constraints.as_ref().map(|constraints| &constraints.raw))
        .with_all(&profile.extensions)
        .build()
}

fn parameter_value(parameter: &ParameterValue) -> Tree {
    Members::new().with("value", &parameter.value).with("targets", targets(&parameter.targets)).build()
}

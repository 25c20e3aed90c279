//! From an intent to the document of one deployment. Pure: the dry run shows exactly what publishing writes.

use margo::deployment::ApplicationDeployment;
use margo::description::ApplicationDescription;
use margo::ids::{DeploymentId, DeviceTarget};
use margo::parameters::{self, AnswerError, Answers};
use margrave_core::assemble::{Ingredients, assemble};
use margrave_core::policy::{Policy, Wish};

/// One deployment's document and the values in it.
#[derive(Debug, Clone)]
pub(crate) struct Composed {
    pub(crate) document: ApplicationDeployment,
    pub(crate) yaml: Vec<u8>,
    pub(crate) values: Answers,
}

/// What an existing deployment brings along.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before<'a> {
    pub(crate) values: &'a Answers,
    /// Description of the version it is on.
    pub(crate) description: &'a ApplicationDescription,
    pub(crate) policy: Policy,
}

/// Composes the document for `profile` of `description`, or says which answers are wrong.
pub(crate) fn compose(
    id: DeploymentId,
    target: &DeviceTarget,
    description: &ApplicationDescription,
    profile: &str,
    answers: &Answers,
    policy: Wish,
    before: Option<Before<'_>>,
) -> Result<Composed, Vec<AnswerError>> {
    let Some(chosen) = description.profile(profile) else {
        let message = format!("`{}` {} has no profile `{profile}`", description.id, description.metadata.version);
        return Err(vec![AnswerError::new("profile", message)]);
    };
    let answers = with_kept(answers, description, before);
    let parameters = parameters::resolve(description, profile, &answers, before.map(|before| before.values))?;
    let values = parameters.iter().map(|(name, parameter)| (name.clone(), parameter.value.clone())).collect();
    let policy = policy.over(before.map(|before| before.policy).unwrap_or_default());
    let document = assemble(Ingredients { id, target, description, profile: chosen, parameters, policy });
    let yaml = document.to_yaml().into_bytes();
    Ok(Composed { document, yaml, values })
}

/// The answers over what the deployment has already. Parameters the new version does not know stay behind, and a value nobody
/// could have been asked for follows the supplier's default.
fn with_kept(answers: &Answers, description: &ApplicationDescription, before: Option<Before<'_>>) -> Answers {
    let mut joined = Answers::new();
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
    joined.extend(answers.iter().map(|(name, value)| (name.clone(), value.clone())));
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

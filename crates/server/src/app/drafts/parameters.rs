//! The parameters of a draft, and the validation of their values.

use super::{Draft, description};
use crate::app::applications::{application_id, described, rules};
use crate::app::error::AppResult;
use crate::app::mask::is_nothing;
use crate::app::{deployments, overview};
use crate::state::ServerState;
use indexmap::IndexMap;
use margo::description::ApplicationDescription;
use margo::parameters::{self, ParameterValues, Schema};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// One parameter with everything needed to render and validate it.
#[derive(Debug, Clone)]
pub struct Asked {
    pub parameter: String,
    pub name: String,
    pub description: Option<String>,
    pub immutable: bool,
    pub schema: Schema,
    pub default: Option<Value>,
    /// It has a default that is not shown.
    pub hides_default: bool,
    pub rules: Vec<String>,
}

/// Parameters under one heading.
#[derive(Debug, Clone)]
pub struct Section {
    pub name: String,
    pub questions: Vec<Asked>,
}

/// The parameters of the selected profile, or of all profiles.
pub fn sections(description: &ApplicationDescription, profile: Option<&str>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let profiles =
        description.deployment_profiles.iter().filter(|known| profile.is_none_or(|wanted| known.id == wanted));
    for question in profiles.flat_map(|profile| parameters::fields(description, &profile.id)) {
        let index = sections.iter().position(|known| known.name == question.section).unwrap_or_else(|| {
            sections.push(Section { name: question.section.to_owned(), questions: Vec::new() });
            sections.len() - 1
        });
        let asked = &mut sections[index].questions;
        if asked.iter().any(|known| known.parameter == question.setting.parameter) {
            continue;
        }
        asked.push(Asked {
            parameter: question.setting.parameter.clone(),
            name: question.setting.name.clone(),
            description: question.setting.description.clone(),
            immutable: question.setting.immutable,
            schema: question.schema.clone(),
            // PRM-09: a sensitive default is used, not shown.
            default: question.default.filter(|_| !question.schema.sensitive).cloned(),
            hides_default: question.schema.sensitive && question.default.is_some_and(|value| !is_nothing(value)),
            rules: rules(question.schema, question.default),
        });
    }
    sections
}

/// Display names of the parameters of a version; empty if the version no longer exists.
pub async fn names(state: &ServerState, application: &str, version: &str) -> HashMap<String, String> {
    let Ok(id) = application_id(application) else { return HashMap::new() };
    let Ok((_, description)) = described(state, &id, version).await else { return HashMap::new() };
    let questions = sections(&description, None).into_iter().flat_map(|section| section.questions);
    questions.map(|question| (question.parameter, question.name)).collect()
}

/// Converts submitted form text to the data type of the parameter.
pub fn answer(description: &ApplicationDescription, question: &Asked, typed: &[&str]) -> Value {
    let one = |text: &str| parameters::coerce(description, &question.parameter, text);
    if !question.schema.takes_list() {
        return one(typed.first().copied().unwrap_or_default());
    }
    let items = typed.iter().flat_map(|text| text.lines()).map(str::trim).filter(|text| !text.is_empty());
    Value::Array(
        items
            .flat_map(|text| match one(&text.replace(',', "\u{1}")) {
                Value::Array(items) => items,
                single => vec![single],
            })
            .map(|item| match item {
                // Commas are part of an item here; only the command line separates by them.
                Value::String(text) => Value::String(text.replace('\u{1}', ",")),
                other => other,
            })
            .collect(),
    )
}

/// All problems of the values, by parameter, in the words of the API.
pub async fn problems(
    state: &ServerState,
    draft: &Draft,
    answers: &ParameterValues,
) -> AppResult<IndexMap<String, Vec<String>>> {
    let description = description(state, draft).await?;
    let (before, kept) = (before(state, draft).await?, kept_by_each(state, draft).await?);
    let mut joined = before.clone().unwrap_or_default();
    joined.retain(|name, _| description.parameters.contains_key(name));
    joined.extend(answers.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut found: IndexMap<String, Vec<String>> = IndexMap::new();
    for profile in &description.deployment_profiles {
        if draft.profile.as_ref().is_some_and(|wanted| *wanted != profile.id) {
            continue;
        }
        let Err(errors) = parameters::resolve(&description, &profile.id, &joined, before.as_ref()) else { continue };
        for error in
            errors.into_iter().filter(|error| answers.contains_key(&error.field) || !kept.contains(&error.field))
        {
            // The message is shown at the field, so it omits section and name.
            let messages = found.entry(error.field).or_default();
            if !messages.contains(&error.words) {
                messages.push(error.words);
            }
        }
    }
    Ok(found)
}

/// Parameters for which each deployment of a bulk draft already has its own value; they are optional.
pub async fn kept_by_each(state: &ServerState, draft: &Draft) -> AppResult<HashSet<String>> {
    let mut kept = HashSet::new();
    if !draft.is_wide() {
        return Ok(kept);
    }
    let overview = overview::get(state).await?;
    let versions = overview.uses.get(&draft.application).into_iter().flatten();
    for (version, _) in versions.filter(|(version, _)| draft.means(version)) {
        let (_, description) = described(state, &application_id(&draft.application)?, version).await?;
        kept.extend(description.parameters.keys().cloned());
    }
    Ok(kept)
}

/// The values of the single existing deployment; none for bulk drafts.
pub async fn before(state: &ServerState, draft: &Draft) -> AppResult<Option<ParameterValues>> {
    match draft.single() {
        Some(only) => Ok(Some(deployments::existing(state, only).await?.deployment.values)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn described() -> ApplicationDescription {
        let yaml = include_bytes!("../../../../../samples/vibration-analytics/2.3.0/margo.yaml");
        ApplicationDescription::read(yaml).unwrap().document
    }

    fn question(name: &str) -> Asked {
        let description = described();
        let all = sections(&description, None).into_iter().flat_map(|section| section.questions);
        all.into_iter().find(|question| question.parameter == name).unwrap()
    }

    #[test]
    fn converts_form_text_to_the_data_type_of_the_parameter() {
        let description = described();
        assert_eq!(answer(&description, &question("retentionDays"), &["30"]), json!(30));
        assert_eq!(answer(&description, &question("retentionDays"), &["many"]), json!("many"));
        assert_eq!(answer(&description, &question("bearings"), &["fan", "gearbox"]), json!(["fan", "gearbox"]));
        assert_eq!(answer(&description, &question("bearings"), &[]), json!([]));
        assert_eq!(answer(&description, &question("bearings"), &["a,b\nfan"]), json!(["a,b", "fan"]));
    }
}

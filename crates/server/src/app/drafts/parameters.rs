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
pub struct ParameterField {
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
    pub fields: Vec<ParameterField>,
}

/// The parameters of the selected profile, or of all profiles.
pub fn sections(description: &ApplicationDescription, profile: Option<&str>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let profiles =
        description.deployment_profiles.iter().filter(|known| profile.is_none_or(|requested| known.id == requested));
    for field in profiles.flat_map(|profile| parameters::fields(description, &profile.id)) {
        let index = sections.iter().position(|known| known.name == field.section).unwrap_or_else(|| {
            sections.push(Section { name: field.section.to_owned(), fields: Vec::new() });
            sections.len() - 1
        });
        let fields = &mut sections[index].fields;
        if fields.iter().any(|known| known.parameter == field.setting.parameter) {
            continue;
        }
        fields.push(ParameterField {
            parameter: field.setting.parameter.clone(),
            name: field.setting.name.clone(),
            description: field.setting.description.clone(),
            immutable: field.setting.immutable,
            schema: field.schema.clone(),
            // PRM-09: a sensitive default is used, not shown.
            default: field.default.filter(|_| !field.schema.sensitive).cloned(),
            hides_default: field.schema.sensitive && field.default.is_some_and(|value| !is_nothing(value)),
            rules: rules(field.schema, field.default),
        });
    }
    sections
}

/// Display names of the parameters of a version; empty if the version no longer exists.
pub async fn names(state: &ServerState, application: &str, version: &str) -> HashMap<String, String> {
    let Ok(id) = application_id(application) else { return HashMap::new() };
    let Ok((_, description)) = described(state, &id, version).await else { return HashMap::new() };
    let fields = sections(&description, None).into_iter().flat_map(|section| section.fields);
    fields.map(|field| (field.parameter, field.name)).collect()
}

/// Converts submitted form text to the data type of the parameter.
pub fn parse_value(description: &ApplicationDescription, field: &ParameterField, typed: &[&str]) -> Value {
    let one = |text: &str| parameters::coerce(description, &field.parameter, text);
    if !field.schema.takes_list() {
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
    values: &ParameterValues,
) -> AppResult<IndexMap<String, Vec<String>>> {
    let description = description(state, draft).await?;
    let (before, stored) = (before(state, draft).await?, stored_by_each(state, draft).await?);
    let mut joined = before.clone().unwrap_or_default();
    joined.retain(|name, _| description.parameters.contains_key(name));
    joined.extend(values.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut found: IndexMap<String, Vec<String>> = IndexMap::new();
    for profile in &description.deployment_profiles {
        if draft.profile.as_ref().is_some_and(|requested| *requested != profile.id) {
            continue;
        }
        let Err(errors) = parameters::resolve(&description, &profile.id, &joined, before.as_ref()) else { continue };
        for error in
            errors.into_iter().filter(|error| values.contains_key(&error.field) || !stored.contains(&error.field))
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
pub async fn stored_by_each(state: &ServerState, draft: &Draft) -> AppResult<HashSet<String>> {
    let mut stored = HashSet::new();
    if !draft.is_by_device() {
        return Ok(stored);
    }
    let overview = overview::get(state).await?;
    let versions = overview.uses.get(&draft.application).into_iter().flatten();
    for (version, _) in versions.filter(|(version, _)| draft.means(version)) {
        let (_, description) = described(state, &application_id(&draft.application)?, version).await?;
        stored.extend(description.parameters.keys().cloned());
    }
    Ok(stored)
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

    fn field(name: &str) -> ParameterField {
        let description = described();
        let all = sections(&description, None).into_iter().flat_map(|section| section.fields);
        all.into_iter().find(|field| field.parameter == name).unwrap()
    }

    #[test]
    fn converts_form_text_to_the_data_type_of_the_parameter() {
        let description = described();
        assert_eq!(parse_value(&description, &field("retentionDays"), &["30"]), json!(30));
        assert_eq!(parse_value(&description, &field("retentionDays"), &["many"]), json!("many"));
        assert_eq!(parse_value(&description, &field("bearings"), &["fan", "gearbox"]), json!(["fan", "gearbox"]));
        assert_eq!(parse_value(&description, &field("bearings"), &[]), json!([]));
        assert_eq!(parse_value(&description, &field("bearings"), &["a,b\nfan"]), json!(["a,b", "fan"]));
    }
}

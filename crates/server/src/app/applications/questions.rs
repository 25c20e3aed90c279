//! The questions of an application version, by section (PRM-04, PRM-05).

use super::{application_id, described};
use crate::app::error::{AppError, AppResult};
use crate::state::ServerState;
use margo::description::ApplicationDescription;
use margo::parameters::{self, DataType, Schema};
use margrave_api::applications as wire;
use serde_json::Value;

/// For one profile, or everything any profile asks for.
pub async fn questions(
    state: &ServerState,
    id: &str,
    version: &str,
    profile: Option<&str>,
) -> AppResult<wire::Questions> {
    let (_, description) = described(state, &application_id(id)?, version).await?;
    if let Some(wanted) = profile.filter(|wanted| description.profile(wanted).is_none()) {
        return Err(AppError::invalid("profile", format!("`{id}` {version} has no profile `{wanted}`")));
    }
    Ok(wire::Questions { sections: sections(&description, profile) })
}

fn sections(description: &ApplicationDescription, profile: Option<&str>) -> Vec<wire::QuestionSection> {
    let mut sections: Vec<wire::QuestionSection> = Vec::new();
    let wanted = description.deployment_profiles.iter().filter(|known| profile.is_none_or(|id| known.id == id));
    for question in wanted.flat_map(|profile| parameters::questions(description, &profile.id)) {
        let index = sections.iter().position(|section| section.name == question.section).unwrap_or_else(|| {
            sections.push(wire::QuestionSection { name: question.section.to_owned(), questions: Vec::new() });
            sections.len() - 1
        });
        let asked = &mut sections[index].questions;
        if !asked.iter().any(|known| known.parameter == question.setting.parameter) {
            asked.push(to_wire(&question));
        }
    }
    sections
}

fn to_wire(question: &parameters::Question<'_>) -> wire::Question {
    let parameters::Question { section: _, setting, schema, default } = *question;
    wire::Question {
        parameter: setting.parameter.clone(),
        name: setting.name.clone(),
        description: setting.description.clone(),
        immutable: setting.immutable,
        sensitive: schema.sensitive,
        data_type: schema.data_type.as_str().to_owned(),
        allow_empty: schema.allow_empty,
        // PRM-09: a sensitive default is used, not shown.
        default: default.filter(|_| !schema.sensitive).cloned(),
        rules: rules(schema),
        options: schema.options.clone(),
        multiselect: schema.multiselect,
    }
}

/// The rules in words.
pub(crate) fn rules(schema: &Schema) -> Vec<String> {
    let mut rules = Vec::new();
    match (schema.min_length, schema.max_length) {
        (Some(min), Some(max)) => rules.push(format!("{min} to {max} characters")),
        (Some(min), None) => rules.push(format!("at least {min} characters")),
        (None, Some(max)) => rules.push(format!("at most {max} characters")),
        (None, None) => {}
    }
    match (schema.min_value, schema.max_value) {
        (Some(min), Some(max)) => rules.push(format!("{min} to {max}")),
        (Some(min), None) => rules.push(format!("at least {min}")),
        (None, Some(max)) => rules.push(format!("at most {max}")),
        (None, None) => {}
    }
    match (schema.min_precision, schema.max_precision) {
        (Some(min), Some(max)) => rules.push(format!("{min} to {max} decimal places")),
        (Some(min), None) => rules.push(format!("at least {min} decimal places")),
        (None, Some(1)) => rules.push("at most 1 decimal place".to_owned()),
        (None, Some(max)) => rules.push(format!("at most {max} decimal places")),
        (None, None) => {}
    }
    if let Some(pattern) = &schema.regex_match {
        rules.push(format!("matches `{pattern}`"));
    }
    if let Some(options) = &schema.options {
        let options: Vec<String> = options.iter().map(plain).collect();
        let how = if schema.multiselect || is_array(schema.data_type) { "any of" } else { "one of" };
        rules.push(format!("{how} {}", options.join(", ")));
    }
    rules
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_array(data_type: DataType) -> bool {
    use DataType::{ArrayBoolean, ArrayDouble, ArrayInteger, ArrayString};
    matches!(data_type, ArrayString | ArrayInteger | ArrayDouble | ArrayBoolean)
}

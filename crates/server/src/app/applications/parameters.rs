//! The parameters of an application version, by section (PRM-04, PRM-05).

use super::{application_id, described};
use crate::app::error::{AppError, AppResult};
use crate::app::value_format::plain;
use crate::state::ServerState;
use margo::description::ApplicationDescription;
use margo::parameters::{self, DataType, Form, Schema};
use margrave_api::applications as wire;
use serde_json::Value;

/// For one profile, or for all profiles.
pub async fn parameters(
    state: &ServerState,
    id: &str,
    version: &str,
    profile: Option<&str>,
) -> AppResult<wire::Parameters> {
    let (_, description) = described(state, &application_id(id)?, version).await?;
    if let Some(requested) = profile.filter(|requested| description.profile(requested).is_none()) {
        return Err(AppError::invalid("profile", format!("`{id}` {version} has no profile `{requested}`")));
    }
    Ok(wire::Parameters { sections: sections(&description, profile) })
}

fn sections(description: &ApplicationDescription, profile: Option<&str>) -> Vec<wire::ParameterSection> {
    let mut sections: Vec<wire::ParameterSection> = Vec::new();
    let requested = description.deployment_profiles.iter().filter(|known| profile.is_none_or(|id| known.id == id));
    for field in requested.flat_map(|profile| parameters::fields(description, &profile.id)) {
        let index = sections.iter().position(|section| section.name == field.section).unwrap_or_else(|| {
            sections.push(wire::ParameterSection { name: field.section.to_owned(), parameters: Vec::new() });
            sections.len() - 1
        });
        let fields = &mut sections[index].parameters;
        if !fields.iter().any(|known| known.parameter == field.setting.parameter) {
            fields.push(to_wire(&field));
        }
    }
    sections
}

fn to_wire(field: &parameters::ParameterField<'_>) -> wire::Parameter {
    let parameters::ParameterField { section: _, setting, schema, default } = *field;
    wire::Parameter {
        parameter: setting.parameter.clone(),
        name: setting.name.clone(),
        description: setting.description.clone(),
        immutable: setting.immutable,
        sensitive: schema.sensitive,
        data_type: schema.data_type.as_str().to_owned(),
        allow_empty: schema.allow_empty,
        // PRM-09: a sensitive default is used, not shown.
        default: default.filter(|_| !schema.sensitive).cloned(),
        rules: rules(schema, default),
        pattern: schema.regex_match.clone(),
        options: schema.options.clone(),
        multiselect: schema.multiselect,
    }
}

/// The rules in words. A pattern is not shown: it is described, or an example is given, and an error repeats that.
pub(crate) fn rules(schema: &Schema, default: Option<&Value>) -> Vec<String> {
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
    if schema.regex_match.is_some() {
        let Form { words, example } = schema.form(default);
        if words.is_none() && example.is_none() {
            rules.push("in a format defined by its supplier".to_owned());
        }
        rules.extend(words);
        rules.extend(example.map(|example| format!("for example `{example}`")));
    }
    if let Some(options) = &schema.options {
        let options: Vec<String> = options.iter().map(plain).collect();
        let how = if schema.multiselect || is_array(schema.data_type) { "any of" } else { "one of" };
        rules.push(format!("{how} {}", options.join(", ")));
    }
    rules
}

fn is_array(data_type: DataType) -> bool {
    use DataType::{ArrayBoolean, ArrayDouble, ArrayInteger, ArrayString};
    matches!(data_type, ArrayString | ArrayInteger | ArrayDouble | ArrayBoolean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hint_text(change: impl FnOnce(&mut Schema), default: &Value) -> String {
        let yaml = include_bytes!("../../../../../samples/label-printer-bridge/0.9.2/margo.yaml");
        let description = ApplicationDescription::read(yaml).unwrap().document;
        let profile = &description.deployment_profiles[0].id;
        let fields = parameters::fields(&description, profile);
        let mut schema = fields.iter().find(|one| one.schema.regex_match.is_some()).unwrap().schema.clone();
        (schema.min_length, schema.max_length) = (None, None);
        change(&mut schema);
        rules(&schema, Some(default)).join(", ")
    }

    #[test]
    fn describes_a_pattern_in_words_with_the_default_as_example() {
        assert_eq!(hint_text(|_| {}, &json!("/dev/usb0")), "`/dev/`, then letters and digits, for example `/dev/usb0`");
        assert_eq!(hint_text(|_| {}, &Value::Null), "`/dev/`, then letters and digits");
    }

    #[test]
    fn shows_an_example_instead_of_an_unknown_pattern() {
        let hard = |schema: &mut Schema| schema.regex_match = Some("(a|b)+[^c]{3}".to_owned());
        assert_eq!(hint_text(hard, &json!("Press 7")), "for example `Press 7`");
        assert_eq!(hint_text(hard, &json!(["Press 7", "Press 8"])), "for example `Press 7`");
        assert_eq!(hint_text(hard, &Value::Null), "in a format defined by its supplier");
    }

    #[test]
    fn never_uses_a_sensitive_default_as_example() {
        let secret = |schema: &mut Schema| schema.sensitive = true;
        assert_eq!(hint_text(secret, &json!("/dev/usb0")), "`/dev/`, then letters and digits");
    }
}

//! Resolves defaults and values into the parameters of one deployment (PRM-03 to PRM-07).

use super::check::{self, Clause};
use super::{DataType, Parameter, ParameterField, ParameterValues, Schema, Setting, Target, ValueError};
use crate::deployment::ParameterValue;
use crate::description::{ApplicationDescription, DeploymentProfile};
use crate::reader::shown;
use crate::similar::{did_you_mean, similar};
use indexmap::IndexMap;
use serde_json::Value;

pub(super) fn fields<'a>(description: &'a ApplicationDescription, profile_id: &str) -> Vec<ParameterField<'a>> {
    let Some(profile) = description.profile(profile_id) else { return Vec::new() };
    settings(description)
        .filter_map(|(section, setting, schema)| {
            let parameter = description.parameters.get(&setting.parameter)?;
            let reaches = !targets(parameter, profile).is_empty();
            reaches.then_some(ParameterField { section, setting, schema, default: parameter.value.as_ref() })
        })
        .collect()
}

/// Every setting with the name of its section and its schema, in the order of the description (PRM-05).
fn settings(description: &ApplicationDescription) -> impl Iterator<Item = (&str, &Setting, &Schema)> {
    description.configuration.iter().flat_map(|configuration| {
        configuration.sections.iter().flat_map(move |section| {
            section.settings.iter().filter_map(move |setting| {
                let schema = configuration.schema.iter().find(|schema| schema.name == setting.schema)?;
                Some((section.name.as_str(), setting, schema))
            })
        })
    })
}

/// The targets in this profile, each with only its components (PRM-03).
fn targets(parameter: &Parameter, profile: &DeploymentProfile) -> Vec<Target> {
    let lies_in = |name: &&String| profile.components.iter().any(|component| component.name == **name);
    parameter
        .targets
        .iter()
        .map(|target| Target {
            pointer: target.pointer.clone(),
            components: target.components.iter().filter(lies_in).cloned().collect(),
        })
        .filter(|target| !target.components.is_empty())
        .collect()
}

pub(super) fn coerce(description: &ApplicationDescription, parameter: &str, text: &str) -> Value {
    let schema =
        settings(description).find(|(_, setting, _)| setting.parameter == parameter).map(|(_, _, schema)| schema);
    let (element, list) = match schema {
        Some(schema) => (schema.data_type.element(), schema.takes_list()),
        // Without a schema the default determines the type.
        None => match description.parameters.get(parameter).and_then(|parameter| parameter.value.as_ref()) {
            Some(Value::Bool(_)) => (DataType::Boolean, false),
            Some(Value::Number(number)) if number.is_f64() => (DataType::Double, false),
            Some(Value::Number(_)) => (DataType::Integer, false),
            Some(Value::Array(_)) => (DataType::String, true),
            _ => (DataType::String, false),
        },
    };
    if !list {
        return coerce_one(element, text);
    }
    if let Ok(value @ Value::Array(_)) = serde_json::from_str(text) {
        return value;
    }
    if text.is_empty() {
        return Value::Array(Vec::new());
    }
    Value::Array(text.split(',').map(|item| coerce_one(element, item.trim())).collect())
}

fn coerce_one(element: DataType, text: &str) -> Value {
    let read = match element {
        DataType::Integer => {
            text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from)).ok()
        }
        DataType::Double => text
            .parse::<i64>()
            .map(Value::from)
            .ok()
            .or_else(|| text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number)),
        DataType::Boolean => text.parse::<bool>().map(Value::from).ok(),
        _ => None,
    };
    read.unwrap_or_else(|| Value::from(text))
}

pub(super) fn resolve(
    description: &ApplicationDescription,
    profile_id: &str,
    answers: &ParameterValues,
    previous: Option<&ParameterValues>,
) -> Result<IndexMap<String, ParameterValue>, Vec<ValueError>> {
    let mut errors = Vec::new();
    let Some(profile) = description.profile(profile_id) else {
        let message = format!("`{}` is not a deployment profile of this application", shown(profile_id));
        return Err(vec![ValueError::new("profile", message)]);
    };
    for name in answers.keys().filter(|name| !description.parameters.contains_key(*name)) {
        let known: Vec<_> = description.parameters.keys().map(String::as_str).collect();
        let message = match similar(name, known.iter().copied(), 1).as_slice() {
            [] => format!("is not a parameter of this application; it has {}", list(&known)),
            meant => format!("is not a parameter of this application{}", did_you_mean(meant)),
        };
        errors.push(ValueError::new(shown(name), message));
    }
    let mut patterns = check::Patterns::unbounded();
    let mut resolved = IndexMap::new();
    for (name, parameter) in &description.parameters {
        let targets = targets(parameter, profile);
        if targets.is_empty() {
            continue;
        }
        let uses: Vec<_> = settings(description).filter(|(_, setting, _)| setting.parameter == *name).collect();
        let immutable = uses.iter().any(|(_, setting, _)| setting.immutable);
        let before = previous.and_then(|previous| previous.get(name)).filter(|_| immutable);
        let answer = answers.get(name).filter(|answer| !answer.is_null());
        // An immutable setting keeps its value even if the default of a newer package differs.
        let value = answer.or(before).or(parameter.value.as_ref());
        let uses = ParameterUses { name, settings: &uses, default: parameter.value.as_ref() };
        let found = problems(&uses, value, before, &mut patterns);
        if !found.is_empty() {
            errors.extend(found);
            continue;
        }
        if let Some(value) = value {
            resolved.insert(name.clone(), ParameterValue { value: value.clone(), targets });
        }
    }
    if errors.is_empty() { Ok(resolved) } else { Err(errors) }
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { shown(&names.join(", ")) }
}

/// A parameter with the settings that refer to it.
struct ParameterUses<'a> {
    name: &'a str,
    settings: &'a [(&'a str, &'a Setting, &'a Schema)],
    default: Option<&'a Value>,
}

/// All problems of one parameter, for each setting that refers to it.
fn problems(
    uses: &ParameterUses<'_>,
    value: Option<&Value>,
    before: Option<&Value>,
    patterns: &mut check::Patterns,
) -> Vec<ValueError> {
    let mut errors = Vec::new();
    let mut note = |place: &str, problem: Clause| {
        let Clause { words, pattern } = problem;
        let message = format!("{place}: {words}");
        errors.push(ValueError { field: uses.name.to_owned(), message, words, pattern });
    };
    for (section, setting, schema) in uses.settings {
        let place = format!("{} / {}", shown(section), shown(&setting.name));
        // PRM-07
        for problem in check::value(schema, uses.default, value.unwrap_or(&Value::Null), patterns) {
            note(&place, problem);
        }
        // PRM-06
        if setting.immutable && before.is_some_and(|before| Some(before) != value) {
            note(&place, "must not change after the first installation".into());
        }
    }
    if uses.settings.is_empty() && matches!(value, Some(Value::Object(_))) {
        note("value", "must be text, a number, true, false, or a list of these".into());
    }
    errors
}

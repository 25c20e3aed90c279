//! Values for an application's parameters, from the command line and from files.

use crate::failure::{Failure, Outcome};
use indexmap::IndexMap;
use margrave_api::applications::{Parameter, Parameters};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) type ParameterValues = IndexMap<String, Value>;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ValueArgs {
    /// Set a parameter; repeatable, lists as a,b,c
    #[arg(long = "set", value_name = "PARAMETER=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// YAML or JSON file that maps parameters to values; --set takes precedence
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected PARAMETER=VALUE".to_owned()),
    }
}

impl ValueArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.values.is_none()
    }

    /// Reads the given values and converts each to the type of its parameter.
    pub(crate) fn read(&self, parameters: &Parameters) -> Outcome<ParameterValues> {
        let mut values = match &self.values {
            Some(path) => read_file(path)?,
            None => ParameterValues::new(),
        };
        for (name, text) in &self.set {
            let value = match definition(parameters, name) {
                Some(definition) => coerce(definition, text),
                // Some parameters are not listed here; the server rejects names that it does not know.
                None => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
            };
            values.insert(name.clone(), value);
        }
        Ok(values)
    }
}

fn read_file(path: &Path) -> Outcome<ParameterValues> {
    let text = crate::connection::read_text(path, "values")?;
    let bad = |why: String| {
        Failure::usage(format!("read values `{}`", path.display()))
            .because(why)
            .next("the file maps parameters to values, for example `lineName: Press 7`")
    };
    if path.extension().is_some_and(|extension| extension == "json") {
        return serde_json::from_str(&text).map_err(|error| bad(error.to_string()));
    }
    if text.trim().is_empty() {
        return Ok(ParameterValues::new());
    }
    serde_saphyr::from_str(&text).map_err(|error| bad(error.to_string()))
}

pub(crate) fn definition<'a>(parameters: &'a Parameters, parameter: &str) -> Option<&'a Parameter> {
    parameters
        .sections
        .iter()
        .flat_map(|section| &section.parameters)
        .find(|definition| definition.parameter == parameter)
}

/// Whether the operator must provide a value: it is required and has no default.
pub(crate) fn is_missing(definition: &Parameter) -> bool {
    !definition.allow_empty
        && match &definition.default {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(_) => false,
        }
}

/// The required parameters without a value.
pub(crate) fn missing<'a>(parameters: &'a Parameters, values: &ParameterValues) -> Vec<(&'a str, &'a Parameter)> {
    parameters
        .sections
        .iter()
        .flat_map(|section| section.parameters.iter().map(|definition| (section.name.as_str(), definition)))
        .filter(|(_, definition)| is_missing(definition) && !values.contains_key(&definition.parameter))
        .collect()
}

/// Converts text to the type of the parameter. Text that cannot be converted stays text, and the server rejects it.
pub(crate) fn coerce(definition: &Parameter, text: &str) -> Value {
    let element = definition.data_type.strip_prefix("array[").and_then(|rest| rest.strip_suffix(']'));
    match element {
        Some(element) => list(element, text),
        None if definition.multiselect => list(&definition.data_type, text),
        None => scalar(&definition.data_type, text),
    }
}

fn list(element: &str, text: &str) -> Value {
    if let Ok(Value::Array(items)) = serde_json::from_str(text) {
        return Value::Array(items);
    }
    if text.is_empty() {
        return Value::Array(Vec::new());
    }
    Value::Array(text.split(',').map(|item| scalar(element, item.trim())).collect())
}

fn scalar(data_type: &str, text: &str) -> Value {
    let stays = || Value::String(text.to_owned());
    match data_type {
        "integer" => text.parse::<i64>().map_or_else(|_| stays(), Value::from),
        "double" => text
            .parse::<f64>()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map_or_else(stays, |number| text.parse::<i64>().map_or(Value::Number(number), Value::from)),
        "boolean" => match text {
            "true" | "yes" => Value::Bool(true),
            "false" | "no" => Value::Bool(false),
            _ => stays(),
        },
        _ => stays(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parameter_of(data_type: &str) -> Parameter {
        Parameter {
            parameter: "p".into(),
            name: "P".into(),
            description: None,
            immutable: false,
            sensitive: false,
            data_type: data_type.into(),
            allow_empty: false,
            default: None,
            rules: vec![],
            pattern: None,
            options: None,
            multiselect: false,
        }
    }

    #[test]
    fn converts_text_to_the_parameter_type() {
        for (data_type, text, expected) in [
            ("string", "30", json!("30")),
            ("integer", "30", json!(30)),
            ("integer", "3.5", json!("3.5")),
            ("double", "3.5", json!(3.5)),
            ("double", "3", json!(3)),
            ("double", "NaN", json!("NaN")),
            ("boolean", "yes", json!(true)),
            ("boolean", "maybe", json!("maybe")),
            ("array[integer]", "1,2", json!([1, 2])),
            ("array[string]", "[\"a,b\"]", json!(["a,b"])),
            ("array[string]", "", json!([])),
        ] {
            assert_eq!(coerce(&parameter_of(data_type), text), expected, "{data_type} {text}");
        }
    }

    #[test]
    fn a_value_is_missing_only_without_a_default() {
        let definition = parameter_of("string");
        assert!(is_missing(&definition));
        assert!(!is_missing(&Parameter { allow_empty: true, ..definition.clone() }));
        assert!(!is_missing(&Parameter { default: Some(json!("x")), ..definition.clone() }));
        assert!(is_missing(&Parameter { default: Some(json!("")), ..definition }));
    }

    #[test]
    fn a_pair_needs_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(pair("=b").is_err());
        assert!(pair("a").is_err());
    }
}

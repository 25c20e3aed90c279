//! Interactive prompts at the terminal.

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::values::{ParameterValues, coerce, is_missing};
use dialoguer::theme::ColorfulTheme;
use dialoguer::{Confirm, Input, MultiSelect, Password, Select};
use margrave_api::applications::{Parameter, Parameters};
use serde_json::Value;

/// Prompts for every required parameter without a value, section by section. Enter accepts the default.
pub(crate) fn missing_values(out: Output, parameters: &Parameters, values: &mut ParameterValues) -> Outcome {
    for section in &parameters.sections {
        let open: Vec<_> = section
            .parameters
            .iter()
            .filter(|parameter| !parameter.allow_empty && !values.contains_key(&parameter.parameter))
            .collect();
        if open.is_empty() {
            continue;
        }
        out.must_say(out.heading(&section.name).trim_end());
        for parameter in open {
            let answer = one(out, parameter)?;
            // Do not store a value equal to the default, so that a later version can change the default.
            if parameter.default.as_ref() != Some(&answer) || is_missing(parameter) {
                values.insert(parameter.parameter.clone(), answer);
            }
        }
    }
    Ok(())
}

/// Prompts for one parameter and shows its rules and its default.
pub(crate) fn one(out: Output, parameter: &Parameter) -> Outcome<Value> {
    if let Some(description) = &parameter.description {
        out.must_say(format!("  {description}"));
    }
    let mut notes = parameter.rules.clone();
    if parameter.immutable {
        notes.push("cannot be changed later".to_owned());
    }
    if !notes.is_empty() {
        out.must_say(format!("  ({})", notes.join("; ")));
    }
    let answer = match &parameter.options {
        Some(options) if parameter.multiselect => several(parameter, options),
        Some(options) => choice(parameter, options),
        None if parameter.data_type == "boolean" => boolean(parameter),
        None if parameter.sensitive => {
            let password = Password::with_theme(&theme())
                .with_prompt(&parameter.name)
                .allow_empty_password(parameter.allow_empty)
                .interact();
            password.map(Value::String)
        }
        None => free(parameter),
    };
    answer.map_err(unasked)
}

fn several(parameter: &Parameter, options: &[Value]) -> dialoguer::Result<Value> {
    let preset: Vec<bool> = options
        .iter()
        .map(|option| parameter.default.as_ref().and_then(Value::as_array).is_some_and(|all| all.contains(option)))
        .collect();
    let prompt = format!("{} (space selects, enter confirms)", parameter.name);
    let chosen = MultiSelect::with_theme(&theme())
        .with_prompt(prompt)
        .items(options.iter().map(plain))
        .defaults(&preset)
        .interact()?;
    Ok(Value::Array(chosen.into_iter().map(|index| options[index].clone()).collect()))
}

fn choice(parameter: &Parameter, options: &[Value]) -> dialoguer::Result<Value> {
    let preset =
        parameter.default.as_ref().and_then(|default| options.iter().position(|option| option == default)).unwrap_or(0);
    let chosen = Select::with_theme(&theme())
        .with_prompt(&parameter.name)
        .items(options.iter().map(plain))
        .default(preset)
        .interact()?;
    Ok(options[chosen].clone())
}

fn boolean(parameter: &Parameter) -> dialoguer::Result<Value> {
    let theme = theme();
    let mut prompt = Confirm::with_theme(&theme).with_prompt(&parameter.name);
    if let Some(default) = parameter.default.as_ref().and_then(Value::as_bool) {
        prompt = prompt.default(default);
    }
    prompt.interact().map(Value::Bool)
}

fn free(parameter: &Parameter) -> dialoguer::Result<Value> {
    let theme = theme();
    let mut prompt = Input::<String>::with_theme(&theme)
        .with_prompt(&parameter.name)
        .allow_empty(parameter.allow_empty)
        .validate_with(|text: &String| match coerce(parameter, text) {
            Value::String(_) if parameter.data_type != "string" => {
                Err(format!("must be of type {}", parameter.data_type))
            }
            _ => Ok(()),
        });
    if let Some(default) = &parameter.default {
        prompt = prompt.default(plain(default));
    }
    prompt.interact_text().map(|text| coerce(parameter, &text))
}

pub(crate) fn confirm(text: &str, default: bool) -> Outcome<bool> {
    Confirm::with_theme(&theme()).with_prompt(text).default(default).interact().map_err(unasked)
}

pub(crate) fn secret(prompt: &str) -> Outcome<String> {
    Password::with_theme(&theme()).with_prompt(prompt).interact().map_err(unasked)
}

/// Prompts for a new secret, typed twice.
pub(crate) fn new_secret(prompt: &str) -> Outcome<String> {
    Password::with_theme(&theme())
        .with_prompt(prompt)
        .with_confirmation("Confirm", "The two entries differ.")
        .interact()
        .map_err(unasked)
}

fn theme() -> ColorfulTheme {
    ColorfulTheme::default()
}

/// A value as typed at the prompt, without quotes.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn unasked(error: dialoguer::Error) -> Failure {
    Failure::usage("no input at the prompt").because(error.to_string()).next("set values with --set or --values")
}

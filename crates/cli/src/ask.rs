//! Interactive prompts at the terminal.

use crate::answers::{ParameterValues, coerce, is_missing};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use dialoguer::theme::ColorfulTheme;
use dialoguer::{Confirm, Input, MultiSelect, Password, Select};
use margrave_api::applications::{Parameter, Parameters};
use serde_json::Value;

/// Prompts for every required parameter without a value, section by section. Enter accepts the default.
pub(crate) fn questions(out: Output, questions: &Parameters, answers: &mut ParameterValues) -> Outcome {
    for section in &questions.sections {
        let open: Vec<_> = section
            .parameters
            .iter()
            .filter(|question| !question.allow_empty && !answers.contains_key(&question.parameter))
            .collect();
        if open.is_empty() {
            continue;
        }
        out.must_say(out.heading(&section.name).trim_end());
        for question in open {
            let answer = one(out, question)?;
            // Do not store a value equal to the default, so that a later version can change the default.
            if question.default.as_ref() != Some(&answer) || is_missing(question) {
                answers.insert(question.parameter.clone(), answer);
            }
        }
    }
    Ok(())
}

/// Prompts for one parameter and shows its rules and its default.
pub(crate) fn one(out: Output, question: &Parameter) -> Outcome<Value> {
    if let Some(description) = &question.description {
        out.must_say(format!("  {description}"));
    }
    let mut notes = question.rules.clone();
    if question.immutable {
        notes.push("cannot be changed later".to_owned());
    }
    if !notes.is_empty() {
        out.must_say(format!("  ({})", notes.join("; ")));
    }
    let answer = match &question.options {
        Some(options) if question.multiselect => several(question, options),
        Some(options) => choice(question, options),
        None if question.data_type == "boolean" => boolean(question),
        None if question.sensitive => {
            let password = Password::with_theme(&theme())
                .with_prompt(&question.name)
                .allow_empty_password(question.allow_empty)
                .interact();
            password.map(Value::String)
        }
        None => free(question),
    };
    answer.map_err(unasked)
}

fn several(question: &Parameter, options: &[Value]) -> dialoguer::Result<Value> {
    let preset: Vec<bool> = options
        .iter()
        .map(|option| question.default.as_ref().and_then(Value::as_array).is_some_and(|all| all.contains(option)))
        .collect();
    let prompt = format!("{} (space selects, enter confirms)", question.name);
    let chosen = MultiSelect::with_theme(&theme())
        .with_prompt(prompt)
        .items(options.iter().map(plain))
        .defaults(&preset)
        .interact()?;
    Ok(Value::Array(chosen.into_iter().map(|index| options[index].clone()).collect()))
}

fn choice(question: &Parameter, options: &[Value]) -> dialoguer::Result<Value> {
    let preset =
        question.default.as_ref().and_then(|default| options.iter().position(|option| option == default)).unwrap_or(0);
    let chosen = Select::with_theme(&theme())
        .with_prompt(&question.name)
        .items(options.iter().map(plain))
        .default(preset)
        .interact()?;
    Ok(options[chosen].clone())
}

fn boolean(question: &Parameter) -> dialoguer::Result<Value> {
    let theme = theme();
    let mut prompt = Confirm::with_theme(&theme).with_prompt(&question.name);
    if let Some(default) = question.default.as_ref().and_then(Value::as_bool) {
        prompt = prompt.default(default);
    }
    prompt.interact().map(Value::Bool)
}

fn free(question: &Parameter) -> dialoguer::Result<Value> {
    let theme = theme();
    let mut prompt = Input::<String>::with_theme(&theme)
        .with_prompt(&question.name)
        .allow_empty(question.allow_empty)
        .validate_with(|text: &String| match coerce(question, text) {
            Value::String(_) if question.data_type != "string" => {
                Err(format!("must be of type {}", question.data_type))
            }
            _ => Ok(()),
        });
    if let Some(default) = &question.default {
        prompt = prompt.default(plain(default));
    }
    prompt.interact_text().map(|text| coerce(question, &text))
}

pub(crate) fn confirm(question: &str, default: bool) -> Outcome<bool> {
    Confirm::with_theme(&theme()).with_prompt(question).default(default).interact().map_err(unasked)
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

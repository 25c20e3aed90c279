//! Asking the person at the terminal.

use crate::answers::{Answers, coerce, is_missing};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use dialoguer::theme::ColorfulTheme;
use dialoguer::{Confirm, Input, MultiSelect, Password, Select};
use margrave_api::applications::{Question, Questions};
use serde_json::Value;

/// Asks every question that needs an answer and has none, section by section. Enter takes the default.
pub(crate) fn questions(out: Output, questions: &Questions, answers: &mut Answers) -> Outcome {
    for section in &questions.sections {
        let open: Vec<_> = section
            .questions
            .iter()
            .filter(|question| !question.allow_empty && !answers.contains_key(&question.parameter))
            .collect();
        if open.is_empty() {
            continue;
        }
        out.must_say(out.heading(&section.name).trim_end());
        for question in open {
            let answer = one(out, question)?;
            // What equals the default is left to the application, so that a later version may bring a better one.
            if question.default.as_ref() != Some(&answer) || is_missing(question) {
                answers.insert(question.parameter.clone(), answer);
            }
        }
    }
    Ok(())
}

/// Asks for one setting, with its rules and its default.
pub(crate) fn one(out: Output, question: &Question) -> Outcome<Value> {
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

fn several(question: &Question, options: &[Value]) -> dialoguer::Result<Value> {
    let preset: Vec<bool> = options
        .iter()
        .map(|option| question.default.as_ref().and_then(Value::as_array).is_some_and(|all| all.contains(option)))
        .collect();
    let prompt = format!("{} (space marks, enter confirms)", question.name);
    let chosen = MultiSelect::with_theme(&theme())
        .with_prompt(prompt)
        .items(options.iter().map(plain))
        .defaults(&preset)
        .interact()?;
    Ok(Value::Array(chosen.into_iter().map(|index| options[index].clone()).collect()))
}

fn choice(question: &Question, options: &[Value]) -> dialoguer::Result<Value> {
    let preset =
        question.default.as_ref().and_then(|default| options.iter().position(|option| option == default)).unwrap_or(0);
    let chosen = Select::with_theme(&theme())
        .with_prompt(&question.name)
        .items(options.iter().map(plain))
        .default(preset)
        .interact()?;
    Ok(options[chosen].clone())
}

fn boolean(question: &Question) -> dialoguer::Result<Value> {
    let theme = theme();
    let mut prompt = Confirm::with_theme(&theme).with_prompt(&question.name);
    if let Some(default) = question.default.as_ref().and_then(Value::as_bool) {
        prompt = prompt.default(default);
    }
    prompt.interact().map(Value::Bool)
}

fn free(question: &Question) -> dialoguer::Result<Value> {
    let theme = theme();
    let mut prompt = Input::<String>::with_theme(&theme)
        .with_prompt(&question.name)
        .allow_empty(question.allow_empty)
        .validate_with(|text: &String| match coerce(question, text) {
            Value::String(_) if question.data_type != "string" => {
                Err(format!("this must be of type {}", question.data_type))
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

/// A secret nobody has yet, typed twice.
pub(crate) fn new_secret(prompt: &str) -> Outcome<String> {
    Password::with_theme(&theme())
        .with_prompt(prompt)
        .with_confirmation("Once more", "The two differ.")
        .interact()
        .map_err(unasked)
}

fn theme() -> ColorfulTheme {
    ColorfulTheme::default()
}

/// A value as a person would type it.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn unasked(error: dialoguer::Error) -> Failure {
    Failure::usage("nobody answered").because(error.to_string()).next("give answers with --set or --values")
}

//! Answers to an application's questions, from the command line and from files.

use crate::failure::{Failure, Outcome};
use indexmap::IndexMap;
use margrave_api::applications::{Question, Questions};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) type Answers = IndexMap<String, Value>;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AnswerArgs {
    /// Answer a question; may be given several times, lists as a,b,c
    #[arg(long = "set", value_name = "PARAMETER=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// YAML or JSON file with answers by parameter; --set goes before it
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write PARAMETER=VALUE".to_owned()),
    }
}

impl AnswerArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.values.is_none()
    }

    /// The answers given, each turned into the type its question asks for.
    pub(crate) fn read(&self, questions: &Questions) -> Outcome<Answers> {
        let mut answers = match &self.values {
            Some(path) => read_file(path)?,
            None => Answers::new(),
        };
        for (name, text) in &self.set {
            let value = match question(questions, name) {
                Some(question) => coerce(question, text),
                // The server knows parameters that have no question; it says so if this is none of them.
                None => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
            };
            answers.insert(name.clone(), value);
        }
        Ok(answers)
    }
}

fn read_file(path: &Path) -> Outcome<Answers> {
    let text = crate::connection::read_text(path, "answers")?;
    let bad = |why: String| {
        Failure::usage(format!("read answers `{}`", path.display()))
            .because(why)
            .next("the file maps parameters to values, for example `lineName: Press 7`")
    };
    if path.extension().is_some_and(|extension| extension == "json") {
        return serde_json::from_str(&text).map_err(|error| bad(error.to_string()));
    }
    if text.trim().is_empty() {
        return Ok(Answers::new());
    }
    serde_saphyr::from_str(&text).map_err(|error| bad(error.to_string()))
}

pub(crate) fn question<'a>(questions: &'a Questions, parameter: &str) -> Option<&'a Question> {
    questions.sections.iter().flat_map(|section| &section.questions).find(|question| question.parameter == parameter)
}

/// Whether a deployment needs an answer that only the operator can give.
pub(crate) fn is_missing(question: &Question) -> bool {
    !question.allow_empty
        && match &question.default {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(_) => false,
        }
}

/// The questions that need an answer and have none.
pub(crate) fn missing<'a>(questions: &'a Questions, answers: &Answers) -> Vec<(&'a str, &'a Question)> {
    questions
        .sections
        .iter()
        .flat_map(|section| section.questions.iter().map(|question| (section.name.as_str(), question)))
        .filter(|(_, question)| is_missing(question) && !answers.contains_key(&question.parameter))
        .collect()
}

/// Text as the type the question asks for; text that does not fit stays text, and the server names the problem.
pub(crate) fn coerce(question: &Question, text: &str) -> Value {
    let element = question.data_type.strip_prefix("array[").and_then(|rest| rest.strip_suffix(']'));
    match element {
        Some(element) => list(element, text),
        None if question.multiselect => list(&question.data_type, text),
        None => scalar(&question.data_type, text),
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

    fn asked(data_type: &str) -> Question {
        Question {
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
    fn text_becomes_what_the_question_asks_for() {
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
            assert_eq!(coerce(&asked(data_type), text), expected, "{data_type} {text}");
        }
    }

    #[test]
    fn an_answer_is_missing_only_where_no_default_helps() {
        let question = asked("string");
        assert!(is_missing(&question));
        assert!(!is_missing(&Question { allow_empty: true, ..question.clone() }));
        assert!(!is_missing(&Question { default: Some(json!("x")), ..question.clone() }));
        assert!(is_missing(&Question { default: Some(json!("")), ..question }));
    }

    #[test]
    fn a_pair_needs_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(pair("=b").is_err());
        assert!(pair("a").is_err());
    }
}

//! Checks one value against one schema (PRM-07).

use super::{DataType, Form, Schema};
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use std::collections::HashMap;

/// Memory limit of a compiled pattern: patterns come from packages.
const PATTERN_BYTES_MAX: usize = 1 << 16;
/// Text of defaults that is matched while a package is read; real ones have a few words each.
const MATCHED_BYTES_MAX: usize = 1 << 12;
/// The longest value echoed in a message.
const SHOWN_CHARS_MAX: usize = 60;

/// Whether the value is absent or empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Compiled patterns, each compiled once, with a limit on the work that a hostile package can cause.
///
/// A pattern is searched, not anchored: a supplier who wants to match the whole text writes `^` and `$`.
pub(super) struct Patterns {
    compiled: HashMap<String, Option<Regex>>,
    /// Bytes of text that may still be matched.
    bytes_left: usize,
}

impl Patterns {
    /// For the defaults of a package that is being read.
    pub(super) fn bounded() -> Self {
        Self { compiled: HashMap::new(), bytes_left: MATCHED_BYTES_MAX }
    }

    /// For the values of an operator, whose number is bounded by the package.
    pub(super) fn unbounded() -> Self {
        Self { compiled: HashMap::new(), bytes_left: usize::MAX }
    }

    /// `None` if the pattern uses features that a linear-time engine lacks (look-around, back-references) or is too
    /// large.
    fn get(&mut self, pattern: &str) -> Option<&Regex> {
        let compile = || {
            let limit = PATTERN_BYTES_MAX;
            RegexBuilder::new(pattern).size_limit(limit).dfa_size_limit(limit).build().ok()
        };
        self.compiled.entry(pattern.to_owned()).or_insert_with(compile).as_ref()
    }

    pub(super) fn can_use(&mut self, pattern: &str) -> bool {
        self.get(pattern).is_some()
    }

    /// `None` if it cannot be decided.
    fn matches(&mut self, pattern: &str, text: &str) -> Option<bool> {
        self.bytes_left = self.bytes_left.checked_sub(text.len())?;
        self.get(pattern).map(|regex| regex.is_match(text))
    }
}

/// Whether the value has the type, not whether it is allowed.
pub(super) fn has_type(data_type: DataType, value: &Value) -> bool {
    match (data_type, value) {
        (DataType::String, Value::String(_))
        | (DataType::Boolean, Value::Bool(_))
        | (DataType::Double, Value::Number(_)) => true,
        (DataType::Integer, Value::Number(number)) => number.is_i64() || number.is_u64(),
        _ => false,
    }
}

/// A problem of a value, such as `must be at least 30`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) words: String,
    /// The pattern that does not match.
    pub(super) pattern: Option<String>,
}

impl From<&str> for Clause {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl From<String> for Clause {
    fn from(words: String) -> Self {
        Self { words, pattern: None }
    }
}

impl Clause {
    /// For the authors of the pattern.
    pub(super) fn with_pattern(self) -> String {
        let told = |pattern: &String| !self.words.contains(pattern.as_str());
        match self.pattern.as_ref().filter(|pattern| told(pattern)) {
            Some(pattern) => format!("{} (pattern {pattern})", self.words),
            None => self.words,
        }
    }

    fn map(self, words: impl FnOnce(String) -> String) -> Self {
        Self { words: words(self.words), pattern: self.pattern }
    }
}

/// All problems of the value. A sensitive value is never repeated. The default serves as the example for people.
pub(super) fn value(schema: &Schema, default: Option<&Value>, value: &Value, patterns: &mut Patterns) -> Vec<Clause> {
    if is_empty(value) {
        // PRM-08: true means that empty is accepted.
        return if schema.allow_empty { Vec::new() } else { vec!["must not be empty".into()] };
    }
    let element = schema.data_type.element();
    match value {
        Value::Array(items) if schema.takes_list() => items
            .iter()
            .enumerate()
            .flat_map(|(index, item)| {
                let found = one(schema, default, item, patterns).into_iter();
                found.map(move |problem| problem.map(|words| format!("item {}: {words}", index + 1)))
            })
            .collect(),
        _ if schema.takes_list() => vec![format!("must be a list of {}", noun(element)).into()],
        single => one(schema, default, single, patterns),
    }
}

fn noun(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Integer => "whole numbers",
        DataType::Double => "numbers",
        DataType::Boolean => "true or false",
        _ => "texts",
    }
}

fn one(schema: &Schema, default: Option<&Value>, value: &Value, patterns: &mut Patterns) -> Vec<Clause> {
    let element = schema.data_type.element();
    if !has_type(element, value) {
        let expected = match element {
            DataType::Integer => "a whole number",
            DataType::Double => "a number",
            DataType::Boolean => "true or false",
            _ => "text",
        };
        return vec![format!("must be {expected}{}", echo(schema, value)).into()];
    }
    let mut problems = match value {
        Value::String(text) => length_rules(schema, text),
        Value::Number(_) => number_rules(schema, value),
        _ => Vec::new(),
    };
    if let Some(options) = &schema.options
        && !options.iter().any(|option| same(option, value))
    {
        let list: Vec<_> = options.iter().map(plain).collect();
        problems.push(if schema.sensitive {
            "is not one of the options".to_owned()
        } else {
            format!("must be one of {}", list.join(", "))
        });
    }
    let mut clauses: Vec<Clause> =
        problems.into_iter().map(|problem| format!("{problem}{}", echo(schema, value)).into()).collect();
    clauses.extend(value.as_str().and_then(|text| form_rule(schema, default, text, patterns)));
    clauses
}

/// Numbers are equal if their values are: 1 and 1.0.
fn same(one: &Value, other: &Value) -> bool {
    one == other || matches!((one.as_f64(), other.as_f64()), (Some(one), Some(other)) if one.total_cmp(&other).is_eq())
}

fn length_rules(schema: &Schema, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let length = text.chars().count() as u64;
    if let Some(min) = schema.min_length.filter(|min| length < *min) {
        problems.push(format!("must have at least {min} characters"));
    }
    if let Some(max) = schema.max_length.filter(|max| length > *max) {
        problems.push(format!("must have at most {max} characters"));
    }
    problems
}

/// The format in the words of the hint. The pattern itself is shown only if nothing else would help.
fn form_rule(schema: &Schema, default: Option<&Value>, text: &str, patterns: &mut Patterns) -> Option<Clause> {
    let pattern = schema.regex_match.as_ref()?;
    if patterns.matches(pattern, text) != Some(false) {
        return None;
    }
    let Form { words, example } = schema.form(default);
    let form = match (words, &example) {
        // Words about one end only do not help if that end is already right.
        (Some(words), None) if is_about_one_end(&words) => {
            format!("must have this format: {words} (pattern {pattern})")
        }
        (Some(words), _) => format!("must have this format: {words}"),
        (None, Some(_)) => "must have the format defined by the supplier".to_owned(),
        (None, None) => format!("must match the pattern {pattern}"),
    };
    let example = example.map(|example| format!("; for example `{example}`")).unwrap_or_default();
    let words = format!("{form}{}{example}", echo(schema, &Value::from(text)));
    Some(Clause { words, pattern: Some(pattern.clone()) })
}

fn is_about_one_end(words: &str) -> bool {
    words.starts_with("begins with") || words.starts_with("ends with")
}

fn number_rules(schema: &Schema, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let number = value.as_f64().unwrap_or_default();
    if let Some(min) = schema.min_value.filter(|min| number < *min) {
        problems.push(format!("must be at least {min}"));
    }
    if let Some(max) = schema.max_value.filter(|max| number > *max) {
        problems.push(format!("must be at most {max}"));
    }
    if schema.data_type.element() == DataType::Double {
        let places = decimal_places(value);
        if let Some(min) = schema.min_precision.filter(|min| places < *min) {
            problems.push(format!("must have at least {min} decimal places"));
        }
        if let Some(max) = schema.max_precision.filter(|max| places > *max) {
            problems.push(format!("must have at most {max} decimal places"));
        }
    }
    problems
}

/// Of the shortest decimal with the same value: 1.50 has one.
fn decimal_places(value: &Value) -> u64 {
    if value.is_i64() || value.is_u64() {
        return 0;
    }
    // Display never uses an exponent.
    let text = value.as_f64().map(|number| number.to_string()).unwrap_or_default();
    text.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u64)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn echo(schema: &Schema, value: &Value) -> String {
    let text = plain(value);
    if schema.sensitive || text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        return String::new();
    }
    format!(", is {text}")
}

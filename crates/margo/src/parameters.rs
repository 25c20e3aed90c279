//! Parameters, their targets, the questions an operator answers, and the rules for answers (requirements §3.4).

use crate::deployment::ParameterValue;
use crate::description::ApplicationDescription;
use indexmap::IndexMap;
use serde_json::Value;

mod check;
mod pattern;
pub(crate) mod read;
mod resolve;
pub(crate) mod write;

#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The default.
    pub value: Option<Value>,
    pub targets: Vec<Target>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub pointer: String,
    pub components: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    pub sections: Vec<Section>,
    pub schema: Vec<Schema>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub name: String,
    pub settings: Vec<Setting>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub parameter: String,
    pub name: String,
    pub description: Option<String>,
    pub immutable: bool,
    /// Name of the schema.
    pub schema: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataType {
    String,
    Integer,
    Double,
    Boolean,
    ArrayString,
    ArrayInteger,
    ArrayDouble,
    ArrayBoolean,
}

impl DataType {
    pub const ALL: [Self; 8] = [
        Self::String,
        Self::Integer,
        Self::Double,
        Self::Boolean,
        Self::ArrayString,
        Self::ArrayInteger,
        Self::ArrayDouble,
        Self::ArrayBoolean,
    ];

    /// The type of one item; a type that is no array is its own.
    #[must_use]
    pub fn element(self) -> Self {
        match self {
            Self::String | Self::ArrayString => Self::String,
            Self::Integer | Self::ArrayInteger => Self::Integer,
            Self::Double | Self::ArrayDouble => Self::Double,
            Self::Boolean | Self::ArrayBoolean => Self::Boolean,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Boolean => "boolean",
            Self::ArrayString => "array[string]",
            Self::ArrayInteger => "array[integer]",
            Self::ArrayDouble => "array[double]",
            Self::ArrayBoolean => "array[boolean]",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    pub name: String,
    pub data_type: DataType,
    /// Whether an empty value is accepted (PRM-08).
    pub allow_empty: bool,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub regex_match: Option<String>,
    pub min_value: Option<f64>,
    pub max_value: Option<f64>,
    pub min_precision: Option<u64>,
    pub max_precision: Option<u64>,
    pub multiselect: bool,
    pub options: Option<Vec<Value>>,
    /// Mask the value wherever it is shown (PRM-09).
    pub sensitive: bool,
}

impl Schema {
    /// Arrays take a list, and so does a choice of several.
    pub fn takes_list(&self) -> bool {
        self.multiselect || self.data_type != self.data_type.element()
    }

    /// The pattern of [`Schema::regex_match`] for people: in words, as far as they are certain, and by an example.
    pub fn form(&self, default: Option<&Value>) -> Form {
        let Some(pattern) = &self.regex_match else { return Form::default() };
        // PRM-09: a sensitive default is used, not shown.
        let default = default.filter(|_| !self.sensitive);
        let one = default.and_then(|default| default.as_array().map_or(Some(default), |items| items.first()));
        let example = one.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        Form { words: pattern::words(pattern), example }
    }
}

/// The form a text must have, as people are told it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    pub words: Option<String>,
    /// The default; of a list, its first.
    pub example: Option<String>,
}

/// An answer that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerError {
    /// The parameter; `profile` where that is what is wrong.
    pub field: String,
    /// For people, with the section and the name of the question.
    pub message: String,
    /// The same beside the question.
    pub words: String,
    /// For programs: the pattern it does not match.
    pub pattern: Option<String>,
}

impl AnswerError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { field: field.into(), words: message.clone(), message, pattern: None }
    }
}

/// Values given by the operator, by parameter name.
pub type Answers = IndexMap<String, Value>;

/// One setting with everything needed to ask for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Question<'a> {
    pub section: &'a str,
    pub setting: &'a Setting,
    pub schema: &'a Schema,
    pub default: Option<&'a Value>,
}

/// Every setting of the description that reaches a component of this profile, by section (PRM-04, PRM-05).
pub fn questions<'a>(description: &'a ApplicationDescription, profile_id: &str) -> Vec<Question<'a>> {
    resolve::questions(description, profile_id)
}

/// Turns text from a command line into the value the parameter's schema asks for (`"30"` into `30`).
/// Text that does not fit comes back as a string, so that [`resolve`] names the problem.
pub fn coerce(description: &ApplicationDescription, parameter: &str, text: &str) -> Value {
    resolve::coerce(description, parameter, text)
}

/// Joins defaults and answers, checks them all (PRM-06, PRM-07), and keeps the targets of this profile only (PRM-03).
///
/// `previous` are the values of the installed revision: an immutable setting must keep its value.
pub fn resolve(
    description: &ApplicationDescription,
    profile_id: &str,
    answers: &Answers,
    previous: Option<&Answers>,
) -> Result<IndexMap<String, ParameterValue>, Vec<AnswerError>> {
    resolve::resolve(description, profile_id, answers, previous)
}

#[cfg(test)]
mod tests;

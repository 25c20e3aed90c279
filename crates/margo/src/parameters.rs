//! Parameters, their targets, the settings of a configuration form, and the rules for values (requirements §3.4).

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

    /// The element type of an array; any other type is its own.
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
    /// Whether the value is masked wherever it is shown (PRM-09).
    pub sensitive: bool,
}

impl Schema {
    /// Arrays accept a list, and so does a multiple choice.
    pub fn takes_list(&self) -> bool {
        self.multiselect || self.data_type != self.data_type.element()
    }

    /// The pattern of [`Schema::regex_match`] for people: in words, as far as they are certain, and with an example.
    pub fn form(&self, default: Option<&Value>) -> Form {
        let Some(pattern) = &self.regex_match else { return Form::default() };
        // PRM-09: a sensitive default is used, not shown.
        let default = default.filter(|_| !self.sensitive);
        let one = default.and_then(|default| default.as_array().map_or(Some(default), |items| items.first()));
        let example = one.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        Form { words: pattern::words(pattern), example }
    }
}

/// The required format of a text, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    pub words: Option<String>,
    /// The default; of a list, its first item.
    pub example: Option<String>,
}

/// An invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// The parameter; `profile` if the profile is wrong.
    pub field: String,
    /// For people, with the section and the name of the setting.
    pub message: String,
    /// The same, shown next to the setting.
    pub words: String,
    /// For programs: the pattern that does not match.
    pub pattern: Option<String>,
}

impl ValueError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { field: field.into(), words: message.clone(), message, pattern: None }
    }
}

/// Values given by the operator, by parameter name.
pub type ParameterValues = IndexMap<String, Value>;

/// One setting with everything needed to render it.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterField<'a> {
    pub section: &'a str,
    pub setting: &'a Setting,
    pub schema: &'a Schema,
    pub default: Option<&'a Value>,
}

/// Every setting of the description with a target in this profile, by section (PRM-04, PRM-05).
pub fn fields<'a>(description: &'a ApplicationDescription, profile_id: &str) -> Vec<ParameterField<'a>> {
    resolve::fields(description, profile_id)
}

/// Converts text from a command line into the type of the parameter's schema (`"30"` into `30`).
/// Text that cannot be converted is returned as a string, so that [`resolve`] reports the problem.
pub fn coerce(description: &ApplicationDescription, parameter: &str, text: &str) -> Value {
    resolve::coerce(description, parameter, text)
}

/// Combines defaults and values, checks them all (PRM-06, PRM-07), and keeps only the targets of this profile (PRM-03).
///
/// `previous` are the values of the installed revision: an immutable setting must keep its value.
pub fn resolve(
    description: &ApplicationDescription,
    profile_id: &str,
    answers: &ParameterValues,
    previous: Option<&ParameterValues>,
) -> Result<IndexMap<String, ParameterValue>, Vec<ValueError>> {
    resolve::resolve(description, profile_id, answers, previous)
}

#[cfg(test)]
mod tests;

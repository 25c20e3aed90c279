//! Reading parameters and configuration, and their agreement with each other (PRM-01 to PRM-09, W-23).

use super::check;
use super::{Configuration, DataType, Parameter, Schema, Section, Setting, Target};
use crate::description::{Component, DeploymentProfile};
use crate::reader::{Cursor, Object, shown};
use indexmap::IndexMap;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Compiling a pattern costs up to a millisecond; real packages have a handful.
const PATTERNS_MAX: usize = 32;

pub(crate) fn known_components<'a>(components: impl Iterator<Item = &'a Component>) -> HashSet<&'a str> {
    components.map(|component| component.name.as_str()).collect()
}

/// `profiles` is `None` when they could not be read; then targets are not held against them.
pub(crate) fn parameters(
    cursor: &Cursor<'_>,
    profiles: Option<&[DeploymentProfile]>,
) -> Option<IndexMap<String, Parameter>> {
    let known = profiles.map(|profiles| known_components(profiles.iter().flat_map(|profile| &profile.components)));
    let profile_ids: HashSet<&str> = profiles.into_iter().flatten().map(|profile| profile.id.as_str()).collect();
    let read: Vec<_> = cursor
        .entries()?
        .into_iter()
        .map(|(name, cursor)| {
            let object = cursor.object()?;
            let value = object.get("value").map(|cursor| parameter_value(&cursor));
            let targets = object.required("targets").and_then(|cursor| {
                targets(&cursor, |cursor, component| {
                    // PRM-01
                    if known.as_ref().is_none_or(|known| known.contains(component)) {
                        return;
                    }
                    let name = shown(component);
                    if profile_ids.contains(component) {
                        // W-23: seen in published packages; the target reaches nothing.
                        cursor.warning(format!("`{name}` is a profile, not a component; the target has no effect"));
                    } else {
                        cursor.error(format!("`{name}` is not a component of any deployment profile"));
                    }
                })
            });
            object.warn_unread();
            let value = match value {
                Some(None) => return None,
                Some(Some(value)) => Some(value),
                None => None,
            };
            Some((name.to_owned(), Parameter { value, targets: targets? }))
        })
        .collect();
    read.into_iter().collect()
}

fn parameter_value(cursor: &Cursor<'_>) -> Option<Value> {
    let value = cursor.value()?;
    let is_scalar = |value: &Value| matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_));
    let valid = match &value {
        Value::Array(items) => items.iter().all(is_scalar),
        scalar => is_scalar(scalar),
    };
    if !valid {
        cursor.error("must be text, a number, true, false, or a list of these");
        return None;
    }
    Some(value)
}

/// Targets of one parameter; `check` judges each component name.
pub(crate) fn targets(cursor: &Cursor<'_>, check: impl Fn(&Cursor<'_>, &str)) -> Option<Vec<Target>> {
    cursor.list_of(|cursor| {
        let object = cursor.object()?;
        let pointer = object.required_text("pointer");
        let components = object.required("components").and_then(|cursor| {
            cursor.list_of(|cursor| {
                let name = cursor.text()?;
                check(cursor, &name);
                Some(name)
            })
        });
        object.warn_unread();
        Some(Target { pointer: pointer?, components: components? })
    })
}

/// `parameters` is `None` when they could not be read; then settings are not held against them.
pub(crate) fn configuration(
    cursor: &Cursor<'_>,
    parameters: Option<&IndexMap<String, Parameter>>,
) -> Option<Configuration> {
    let object = cursor.object()?;
    let patterns = RefCell::new(check::Patterns::bounded());
    let schema = object.required("schema").and_then(|cursor| schemas(&cursor, &patterns));
    let by_name: Option<HashMap<&str, &Schema>> =
        schema.as_ref().map(|schemas| schemas.iter().map(|schema| (schema.name.as_str(), schema)).collect());
    let known = Known { parameters, schemas: by_name.as_ref(), patterns: &patterns };
    let sections = object.required("sections").and_then(|cursor| cursor.list_of(|cursor| section(cursor, known)));
    object.warn_unread();
    let configuration = Configuration { sections: sections?, schema: schema? };
    repeated_settings(cursor, &configuration);
    Some(configuration)
}

#[derive(Clone, Copy)]
struct Known<'a> {
    parameters: Option<&'a IndexMap<String, Parameter>>,
    schemas: Option<&'a HashMap<&'a str, &'a Schema>>,
    patterns: &'a RefCell<check::Patterns>,
}

fn repeated_settings(cursor: &Cursor<'_>, configuration: &Configuration) {
    let mut seen = HashSet::new();
    for setting in configuration.sections.iter().flat_map(|section| &section.settings) {
        if !seen.insert(&setting.parameter) {
            cursor.warning(format!("asks for the parameter `{}` more than once", shown(&setting.parameter)));
        }
    }
}

fn section(cursor: &Cursor<'_>, known: Known<'_>) -> Option<Section> {
    let object = cursor.object()?;
    let name = object.required_text("name");
    let settings = object.required("settings").and_then(|cursor| cursor.list_of(|cursor| setting(cursor, known)));
    object.warn_unread();
    Some(Section { name: name?, settings: settings? })
}

fn setting(cursor: &Cursor<'_>, known: Known<'_>) -> Option<Setting> {
    let object = cursor.object()?;
    let parameter = object.required("parameter").and_then(|cursor| {
        let text = cursor.text()?;
        if known.parameters.is_some_and(|parameters| !parameters.contains_key(&text)) {
            cursor.error(format!("`{}` is not a parameter of this description", shown(&text)));
        }
        Some(text)
    });
    let name = object.required_text("name");
    let description = object.text("description");
    let immutable = object.optional("immutable", Cursor::lenient_boolean).unwrap_or(false);
    let schema = object.required("schema").and_then(|cursor| {
        let text = cursor.text()?;
        if known.schemas.is_some_and(|schemas| !schemas.contains_key(text.as_str())) {
            cursor.error(format!("`{}` is not the name of a schema in `configuration.schema`", shown(&text)));
        }
        Some(text)
    });
    object.warn_unread();
    let setting = Setting { parameter: parameter?, name: name?, description, immutable, schema: schema? };
    default_fits(cursor, &setting, known);
    Some(setting)
}

/// W-23: a default outside its own schema is reported; the package stays usable with another value.
fn default_fits(cursor: &Cursor<'_>, setting: &Setting, known: Known<'_>) {
    let default = known.parameters.and_then(|parameters| parameters.get(&setting.parameter)?.value.as_ref());
    let schema = known.schemas.and_then(|schemas| schemas.get(setting.schema.as_str()));
    if let (Some(default), Some(schema)) = (default, schema) {
        for problem in check::value(schema, default, &mut known.patterns.borrow_mut()) {
            let name = shown(&setting.parameter);
            cursor.warning(format!("the default of `{name}` does not fit its own schema: {problem}"));
        }
    }
}

fn schemas(cursor: &Cursor<'_>, patterns: &RefCell<check::Patterns>) -> Option<Vec<Schema>> {
    let mut names = HashSet::new();
    let mut with_pattern = 0;
    let read: Vec<Option<Schema>> = cursor
        .list()?
        .iter()
        .map(|cursor| {
            let schema = schema(cursor)?;
            if let Some(pattern) = &schema.regex_match {
                with_pattern += 1;
                if with_pattern > PATTERNS_MAX {
                    cursor.error(format!("is one schema with a pattern too many: {PATTERNS_MAX} are allowed"));
                } else if !patterns.borrow_mut().can_use(pattern) {
                    let why = "no look-around, no back-references, no large repetitions";
                    cursor.warning(format!("`regexMatch` cannot be used here ({why}); it is not checked"));
                }
            }
            if !names.insert(schema.name.clone()) {
                cursor.error(format!("has the name `{}` of an earlier schema", shown(&schema.name)));
            }
            Some(schema)
        })
        .collect();
    read.into_iter().collect()
}

fn schema(cursor: &Cursor<'_>) -> Option<Schema> {
    let object = cursor.object()?;
    let name = object.required_text("name");
    let data_type = object.required("dataType").and_then(|cursor| data_type(&cursor));
    let schema = Schema {
        name: name.clone().unwrap_or_default(),
        data_type: data_type.unwrap_or(DataType::String),
        allow_empty: object.optional("allowEmpty", Cursor::lenient_boolean).unwrap_or(false),
        min_length: object.optional("minLength", Cursor::unsigned),
        max_length: object.optional("maxLength", Cursor::unsigned),
        regex_match: object.optional("regexMatch", Cursor::text),
        min_value: object.optional("minValue", Cursor::float),
        max_value: object.optional("maxValue", Cursor::float),
        min_precision: object.optional("minPrecision", Cursor::unsigned),
        max_precision: object.optional("maxPrecision", Cursor::unsigned),
        multiselect: object.optional("multiselect", Cursor::lenient_boolean).unwrap_or(false),
        options: object.optional("options", |cursor| cursor.list_of(Cursor::value)),
        // PRM-09
        sensitive: object.optional("sensitive", Cursor::lenient_boolean).unwrap_or(false),
    };
    object.warn_unread();
    name?;
    data_type?;
    rules_agree(&object, &schema);
    Some(schema)
}

fn data_type(cursor: &Cursor<'_>) -> Option<DataType> {
    let text = cursor.text()?;
    let found = DataType::ALL.into_iter().find(|data_type| data_type.as_str() == text);
    if found.is_none() {
        let known = DataType::ALL.map(DataType::as_str).join(", ");
        cursor.error(format!("`{}` is not a data type; write one of {known}", shown(&text)));
    }
    found
}

/// Rules that contradict each other are errors, rules that cannot apply are warnings.
fn rules_agree(object: &Object<'_>, schema: &Schema) {
    let crossed = |lower: Option<f64>, upper: Option<f64>| matches!((lower, upper), (Some(l), Some(u)) if l > u);
    let float = |number: Option<u64>| number.map(|number| number as f64);
    for (upper_name, lower_name, lower, upper) in [
        ("maxLength", "minLength", float(schema.min_length), float(schema.max_length)),
        ("maxValue", "minValue", schema.min_value, schema.max_value),
        ("maxPrecision", "minPrecision", float(schema.min_precision), float(schema.max_precision)),
    ] {
        if crossed(lower, upper) {
            object.missing(upper_name, &format!("is smaller than `{lower_name}`, so that no value can fit"));
        }
    }
    let element = schema.data_type.element();
    let text = element == DataType::String;
    let number = matches!(element, DataType::Integer | DataType::Double);
    let idle = |name: &str, present: bool, applies: bool| {
        if present && !applies {
            let kind = schema.data_type.as_str();
            object.cursor().warning(format!("`{name}` has no meaning for the data type {kind} and is ignored"));
        }
    };
    idle("minLength", schema.min_length.is_some(), text);
    idle("maxLength", schema.max_length.is_some(), text);
    idle("regexMatch", schema.regex_match.is_some(), text);
    idle("minValue", schema.min_value.is_some(), number);
    idle("maxValue", schema.max_value.is_some(), number);
    idle("minPrecision", schema.min_precision.is_some(), element == DataType::Double);
    idle("maxPrecision", schema.max_precision.is_some(), element == DataType::Double);
    match &schema.options {
        None if schema.multiselect => object.missing("options", "is missing: a multiple choice needs choices"),
        Some(options) if options.is_empty() => object.missing("options", "must hold at least one option"),
        Some(options) => {
            for option in options.iter().filter(|option| !check::has_type(element, option)) {
                object.missing("options", &format!("{option} is not of the data type {}", element.as_str()));
            }
        }
        None => {}
    }
}

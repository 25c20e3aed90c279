//! Reads parameters and configuration, and checks that they agree (PRM-01 to PRM-09, W-23).

use super::check;
use super::{Configuration, DataType, Parameter, Schema, Section, Setting, Target};
use crate::description::Component;
use crate::node::{Kind, Node};
use crate::reader::names::{Known, Names};
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

/// The readable parameters.
pub(crate) struct Parameters {
    pub(crate) read: IndexMap<String, Parameter>,
    /// Whether these are all.
    all: bool,
}

impl Parameters {
    /// A description without parameters.
    pub(crate) fn none() -> Self {
        Self { read: IndexMap::new(), all: true }
    }

    /// `None` if some could not be read.
    pub(crate) fn whole(self) -> Option<IndexMap<String, Parameter>> {
        self.all.then_some(self.read)
    }
}

pub(crate) fn parameters(cursor: &Cursor<'_>, components: &Names<'_>, profile_ids: &HashSet<&str>) -> Parameters {
    let Some(entries) = cursor.entries() else { return Parameters { read: IndexMap::new(), all: false } };
    let mut parameters = Parameters::none();
    for (name, cursor) in entries {
        match parameter(&cursor, components, profile_ids) {
            Some(parameter) => {
                parameters.read.insert(name.to_owned(), parameter);
            }
            None => parameters.all = false,
        }
    }
    parameters
}

fn parameter(cursor: &Cursor<'_>, components: &Names<'_>, profile_ids: &HashSet<&str>) -> Option<Parameter> {
    let object = cursor.object()?;
    let value = object.get("value").map(|cursor| parameter_value(&cursor));
    let targets = object.required("targets").and_then(|cursor| {
        targets(&cursor, |cursor, component| {
            // PRM-01
            let known = components.holds(component);
            let name = shown(component);
            if known != Known::Yes && profile_ids.contains(component) {
                // W-23: seen in published packages; the target has no effect.
                cursor.warning(format!("`{name}` is a profile, not a component; the target has no effect"));
            } else if known == Known::No {
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
    Some(Parameter { value, targets: targets? })
}

fn parameter_value(cursor: &Cursor<'_>) -> Option<Value> {
    let is_scalar = |node: &Node| matches!(node.kind, Kind::Scalar { .. }) && !node.is_null();
    let valid = match &cursor.node().kind {
        Kind::Sequence(items) => items.iter().all(is_scalar),
        _ => is_scalar(cursor.node()),
    };
    if !valid {
        cursor.error("must be text, a number, true, false, or a list of these");
    }
    cursor.value().filter(|_| valid)
}

/// Targets of one parameter; `check` validates each component name.
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

/// `parameters` are the readable ones, `parameter_names` the names of all.
pub(crate) fn configuration(
    cursor: &Cursor<'_>,
    parameters: &IndexMap<String, Parameter>,
    parameter_names: &Names<'_>,
) -> Option<Configuration> {
    let object = cursor.object()?;
    let patterns = RefCell::new(check::Patterns::bounded());
    let schema: Option<Vec<Option<Schema>>> = object.required("schema").and_then(|cursor| schemas(&cursor, &patterns));
    let schemas: HashMap<&str, &Schema> =
        schema.iter().flatten().flatten().map(|schema| (schema.name.as_str(), schema)).collect();
    let mut schema_names = Names::default();
    for schema in schema_names.items(cursor, "schema") {
        schema_names.take(&schema, "name");
    }
    let around =
        Around { parameters, parameter_names, schemas: &schemas, schema_names: &schema_names, patterns: &patterns };
    let sections = object.required("sections").and_then(|cursor| cursor.list_of(|cursor| section(cursor, around)));
    schema_names.report_unused(cursor, "the schemas that settings name");
    object.warn_unread();
    let configuration = Configuration { sections: sections?, schema: schema?.into_iter().collect::<Option<_>>()? };
    repeated_settings(cursor, &configuration);
    Some(configuration)
}

/// What settings are checked against.
#[derive(Clone, Copy)]
struct Around<'a> {
    parameters: &'a IndexMap<String, Parameter>,
    parameter_names: &'a Names<'a>,
    schemas: &'a HashMap<&'a str, &'a Schema>,
    schema_names: &'a Names<'a>,
    patterns: &'a RefCell<check::Patterns>,
}

fn repeated_settings(cursor: &Cursor<'_>, configuration: &Configuration) {
    let mut seen = HashSet::new();
    for setting in configuration.sections.iter().flat_map(|section| &section.settings) {
        if !seen.insert(&setting.parameter) {
            cursor.warning(format!("refers to the parameter `{}` more than once", shown(&setting.parameter)));
        }
    }
}

fn section(cursor: &Cursor<'_>, around: Around<'_>) -> Option<Section> {
    let object = cursor.object()?;
    let name = object.required_text("name");
    let settings = object.required("settings").and_then(|cursor| cursor.list_of(|cursor| setting(cursor, around)));
    object.warn_unread();
    Some(Section { name: name?, settings: settings? })
}

fn setting(cursor: &Cursor<'_>, around: Around<'_>) -> Option<Setting> {
    let object = cursor.object()?;
    let parameter = object.required("parameter").and_then(|cursor| {
        let text = cursor.text()?;
        if around.parameter_names.holds(&text) == Known::No {
            cursor.error(format!("`{}` is not a parameter of this description", shown(&text)));
        }
        Some(text)
    });
    let name = object.required_text("name");
    let description = object.text("description");
    let immutable = object.optional("immutable", Cursor::lenient_boolean).unwrap_or(false);
    let schema = object.required("schema").and_then(|cursor| {
        let text = cursor.text()?;
        if around.schema_names.holds(&text) == Known::No {
            cursor.error(format!("`{}` is not the name of a schema in `configuration.schema`", shown(&text)));
        }
        Some(text)
    });
    object.warn_unread();
    let setting = Setting { parameter: parameter?, name: name?, description, immutable, schema: schema? };
    default_matches(cursor, &setting, around);
    Some(setting)
}

/// W-23: a default outside its own schema is reported; the package remains usable with another value.
fn default_matches(cursor: &Cursor<'_>, setting: &Setting, around: Around<'_>) {
    let default = around.parameters.get(&setting.parameter).and_then(|parameter| parameter.value.as_ref());
    let schema = around.schemas.get(setting.schema.as_str());
    if let (Some(default), Some(schema)) = (default, schema) {
        for problem in check::value(schema, None, default, &mut around.patterns.borrow_mut()) {
            let (name, words) = (shown(&setting.parameter), problem.with_pattern());
            cursor.warning(format!("the default of `{name}` does not match its own schema: {words}"));
        }
    }
}

/// Each schema, `None` if it could not be read.
fn schemas(cursor: &Cursor<'_>, patterns: &RefCell<check::Patterns>) -> Option<Vec<Option<Schema>>> {
    let mut names = HashSet::new();
    let mut with_pattern = 0;
    let read = cursor
        .list()?
        .iter()
        .map(|cursor| {
            let schema = schema(cursor);
            if let Some(pattern) = cursor.peek_text("regexMatch") {
                with_pattern += 1;
                if with_pattern > PATTERNS_MAX {
                    cursor.error(format!("exceeds the limit of {PATTERNS_MAX} schemas with a pattern"));
                } else if !patterns.borrow_mut().can_use(pattern) {
                    let why = "no look-around, no back-references, no large repetitions";
                    cursor.warning(format!("`regexMatch` cannot be used here ({why}); it is not checked"));
                }
            }
            if let Some(name) = cursor.peek_text("name")
                && !names.insert(name)
            {
                cursor.error(format!("has the name `{}` of an earlier schema", shown(name)));
            }
            schema
        })
        .collect();
    Some(read)
}

fn schema(cursor: &Cursor<'_>) -> Option<Schema> {
    let object = cursor.object()?;
    let name = object.required_text("name");
    let data_type = object.required("dataType").and_then(|cursor| data_type(&cursor));
    let options_cursor = object.get("options");
    // Present or not, and then readable or not.
    let options = options_cursor.as_ref().map(|cursor| cursor.list_of(Cursor::value));
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
        options: options.clone().flatten(),
        // PRM-09
        sensitive: object.optional("sensitive", Cursor::lenient_boolean).unwrap_or(false),
    };
    object.warn_unread();
    bounds_agree(&object, &schema);
    match &options {
        None if schema.multiselect => object.missing("options", "is missing: a multiple choice needs choices"),
        Some(Some(options)) if options.is_empty() => object.missing("options", "must hold at least one option"),
        _ => {}
    }
    let items: Vec<Value> =
        options_cursor.iter().flat_map(Cursor::items).filter_map(|item| item.node().to_value().ok()).collect();
    match data_type {
        Some(data_type) => rules_apply(&object, &schema, data_type, &items),
        None if !items.is_empty() => cursor.blocks_check(&object.path_of("dataType"), "the options"),
        None => {}
    }
    name?;
    data_type?;
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

/// Rules that contradict each other are errors.
fn bounds_agree(object: &Object<'_>, schema: &Schema) {
    let crossed = |lower: Option<f64>, upper: Option<f64>| matches!((lower, upper), (Some(l), Some(u)) if l > u);
    let float = |number: Option<u64>| number.map(|number| number as f64);
    for (upper_name, lower_name, lower, upper) in [
        ("maxLength", "minLength", float(schema.min_length), float(schema.max_length)),
        ("maxValue", "minValue", schema.min_value, schema.max_value),
        ("maxPrecision", "minPrecision", float(schema.min_precision), float(schema.max_precision)),
    ] {
        if crossed(lower, upper) {
            object.missing(upper_name, &format!("is smaller than `{lower_name}`, so that no value is valid"));
        }
    }
}

/// Options must have the type; rules that cannot apply to it are warnings.
fn rules_apply(object: &Object<'_>, schema: &Schema, data_type: DataType, options: &[Value]) {
    let element = data_type.element();
    let text = element == DataType::String;
    let number = matches!(element, DataType::Integer | DataType::Double);
    let idle = |name: &str, present: bool, applies: bool| {
        if present && !applies {
            let kind = data_type.as_str();
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
    for option in options.iter().filter(|option| !check::has_type(element, option)) {
        object.missing("options", &format!("{option} is not of the data type {}", element.as_str()));
    }
}

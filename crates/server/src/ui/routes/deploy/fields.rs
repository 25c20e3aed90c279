//! The parameters of an application as form fields: how each is rendered and how submitted values are read.

use crate::app::drafts::{self, Draft, Kind, ParameterField};
use crate::app::mask::is_nothing;
use crate::app::value_format::lines;
use crate::state::ServerState;
use crate::ui::errors::UiError;
use crate::ui::form::Form;
use crate::ui::words;
use indexmap::IndexMap;
use margo::description::ApplicationDescription;
use margo::parameters::{DataType, ParameterValues};
use serde_json::Value;
use std::collections::HashSet;

/// Problems by parameter.
pub(super) type Problems = IndexMap<String, Vec<String>>;

/// Fields under one heading.
pub(super) struct FieldGroup {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// One parameter as a form field.
pub(super) struct Field {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) label: String,
    pub(super) hint: String,
    pub(super) kind: &'static str,
    pub(super) value: String,
    pub(super) options: Vec<(String, bool)>,
    /// Immutable, and already set.
    pub(super) locked: bool,
    pub(super) required: bool,
    pub(super) wrong: String,
    pub(super) before: Option<String>,
    /// The name of the checkbox that deletes a saved secret, and whether it is selected.
    pub(super) clear: Option<(String, bool)>,
}

/// Current values of the deployments.
pub(super) struct CurrentValues {
    /// Values of a single deployment.
    pub(super) before: Option<ParameterValues>,
    /// Parameters whose values differ between the deployments; each keeps its own unless the draft sets one for all.
    pub(super) stored: HashSet<String>,
}

impl CurrentValues {
    pub(super) async fn of(state: &ServerState, draft: &Draft) -> Result<Self, UiError> {
        Ok(Self { before: drafts::before(state, draft).await?, stored: drafts::stored_by_each(state, draft).await? })
    }

    fn present(&self, parameter: &str) -> Option<&Value> {
        self.before.as_ref().and_then(|values| values.get(parameter))
    }
}

/// All fields, and the problems by field id.
pub(super) fn sheets(
    sections: &[drafts::Section],
    draft: &Draft,
    known: &CurrentValues,
    typed: Option<&Form>,
    problems: &Problems,
) -> (Vec<FieldGroup>, Vec<(String, String)>) {
    let (mut sheets, mut wrong, mut number) = (Vec::new(), Vec::new(), 0);
    for section in sections {
        let mut fields = Vec::new();
        for parameter_field in &section.fields {
            number += 1;
            let field = field(parameter_field, number, draft, known, typed, problems);
            if !field.wrong.is_empty() {
                wrong.push((field.id.clone(), format!("{}: {}", parameter_field.name, field.wrong)));
            }
            fields.push(field);
        }
        sheets.push(FieldGroup { name: section.name.clone(), fields });
    }
    // Problems without a field, such as a parameter that no longer exists.
    for (name, messages) in problems {
        if !sections
            .iter()
            .flat_map(|section| &section.fields)
            .any(|parameter_field| parameter_field.parameter == *name)
        {
            wrong.push(("configuration".to_owned(), format!("{name}: {}", messages.join(", "))));
        }
    }
    (sheets, wrong)
}

fn field(
    parameter_field: &ParameterField,
    number: usize,
    draft: &Draft,
    known: &CurrentValues,
    typed: Option<&Form>,
    problems: &Problems,
) -> Field {
    let name = format!("p:{}", parameter_field.parameter);
    let present = known.present(&parameter_field.parameter);
    let stored = known.stored.contains(&parameter_field.parameter);
    let default = parameter_field.default.as_ref().filter(|_| !stored);
    let known = draft.values.get(&parameter_field.parameter).or(present).or(default);
    let secret = parameter_field.schema.sensitive;
    let values: Vec<String> = match typed {
        Some(form) => form.all(&name).map(str::to_owned).collect(),
        // A secret is never sent back to a browser.
        None if secret => Vec::new(),
        None => match known {
            Some(Value::Array(items)) => items.iter().map(lines).collect(),
            Some(value) => vec![lines(value)],
            None => Vec::new(),
        },
    };
    let list = parameter_field.schema.takes_list();
    let kind = match (&parameter_field.schema.options, list, parameter_field.schema.data_type.element()) {
        (Some(_), true, _) => "ticks",
        (Some(_), false, _) => "select",
        (None, true, _) => "lines",
        // An empty select means no value; a checkbox that is not checked would mean false.
        (None, false, DataType::Boolean) if stored => "select",
        (None, false, DataType::Boolean) => "tick",
        (None, false, DataType::Integer) => "number",
        (None, false, DataType::Double) => "decimal",
        (None, false, _) if secret => "secret",
        (None, false, _) => "text",
    };
    let both = [Value::Bool(true), Value::Bool(false)];
    let boolean = if kind == "select" && parameter_field.schema.options.is_none() { &both[..] } else { &[] };
    let options = parameter_field.schema.options.iter().flatten().chain(boolean).map(lines).map(|option| {
        let chosen = values.contains(&option);
        (option, chosen)
    });
    let mut hint: Vec<String> = parameter_field.description.iter().cloned().collect();
    if !parameter_field.rules.is_empty() && parameter_field.schema.options.is_none() {
        hint.push(words::capital(&parameter_field.rules.join(", ")));
    }
    let locked = parameter_field.immutable && (present.is_some() || stored);
    if locked {
        hint.push("Cannot be changed after the first installation".to_owned());
    } else if parameter_field.immutable && !hint.iter().any(|known| known.to_lowercase().contains("cannot be changed"))
    {
        hint.push("Cannot be changed later".to_owned());
    }
    let clear = clear_name(parameter_field, draft, present);
    if clear.is_some() || (secret && is_stored(parameter_field, draft, present)) {
        hint.push("A value is saved; leave empty to keep it".to_owned());
    } else if parameter_field.hides_default && !stored && present.is_none() {
        hint.push("Leave empty to use the default of the application, which is not shown".to_owned());
    } else if secret && present.is_some() {
        hint.push("Not set".to_owned());
    }
    if stored && !locked {
        let none = if kind == "ticks" { "None selected" } else { "Empty" };
        hint.push(format!("{none}: each device keeps its current value"));
    }
    if kind == "lines" {
        hint.push("One per line".to_owned());
    }
    Field {
        id: format!("f{number}"),
        label: parameter_field.name.clone(),
        hint: hint.join(". "),
        kind,
        value: values.join("\n"),
        options: options.collect(),
        locked,
        required: !parameter_field.schema.allow_empty && !stored,
        wrong: problems
            .get(&parameter_field.parameter)
            .map(|messages| words::capital(&messages.join("; ")))
            .unwrap_or_default(),
        before: present
            .filter(|_| !secret)
            .map(lines)
            .filter(|before| {
                (typed.is_some() || draft.values.contains_key(&parameter_field.parameter))
                    && *before != values.join("\n")
            })
            .map(|before| format!("Current: {before}")),
        clear: clear.map(|clear| {
            let chosen = typed.is_some_and(|form| form.has(&clear));
            (clear, chosen)
        }),
        name,
    }
}

/// Whether a secret is set, in this draft or in the deployment.
fn is_stored(parameter_field: &ParameterField, draft: &Draft, present: Option<&Value>) -> bool {
    draft.values.get(&parameter_field.parameter).or(present).is_some_and(|value| !is_nothing(value))
}

/// Saved secrets are never shown and an empty field keeps them, so deleting one needs a separate checkbox. A secret of the draft
/// can always be deleted; a secret of a deployment only if the parameter may be empty.
fn clear_name(parameter_field: &ParameterField, draft: &Draft, present: Option<&Value>) -> Option<String> {
    let may = parameter_field.schema.allow_empty || present.is_none();
    let may = may && parameter_field.schema.sensitive && !(parameter_field.immutable && present.is_some());
    (may && is_stored(parameter_field, draft, present)).then(|| format!("clear:{}", parameter_field.parameter))
}

/// The values in a form, without locked parameters and empty secrets.
pub(super) fn read(
    form: &Form,
    description: &ApplicationDescription,
    draft: &Draft,
    known: &CurrentValues,
) -> ParameterValues {
    let mut values = ParameterValues::new();
    for parameter_field in
        drafts::sections(description, draft.profile.as_deref()).iter().flat_map(|section| &section.fields)
    {
        let name = format!("p:{}", parameter_field.parameter);
        let present = known.present(&parameter_field.parameter);
        let own = known.stored.contains(&parameter_field.parameter);
        let typed: Vec<&str> = form.all(&name).collect();
        let locked = parameter_field.immutable && (present.is_some() || own);
        if locked || (own && typed.iter().all(|text| text.is_empty())) {
            continue;
        }
        let plain_boolean =
            parameter_field.schema.data_type == DataType::Boolean && parameter_field.schema.options.is_none();
        let boolean = plain_boolean && !own;
        let value = if boolean {
            Value::Bool(form.has(&name))
        } else {
            if parameter_field.schema.sensitive && typed.iter().all(|text| text.is_empty()) {
                if clear_name(parameter_field, draft, present).is_some_and(|name| form.has(&name)) {
                    if present.is_some() {
                        values.insert(
                            parameter_field.parameter.clone(),
                            drafts::parse_value(description, parameter_field, &[""]),
                        );
                    }
                    continue;
                }
                if let Some(known) = draft.values.get(&parameter_field.parameter) {
                    values.insert(parameter_field.parameter.clone(), known.clone());
                }
                continue;
            }
            drafts::parse_value(description, parameter_field, &typed)
        };
        // Empty without a default means no value; with a default it is a value, which validation may reject.
        let empty = matches!(&value, Value::String(text) if text.is_empty());
        if empty && parameter_field.default.is_none() && present.is_none() {
            continue;
        }
        // Existing deployments get only the differences.
        if draft.kind != Kind::Create && present == Some(&value) {
            continue;
        }
        values.insert(parameter_field.parameter.clone(), value);
    }
    values
}

/// The display name of a parameter.
pub(super) fn label(sections: &[drafts::Section], parameter: &str) -> String {
    let all = sections.iter().flat_map(|section| &section.fields);
    all.clone()
        .find(|parameter_field| parameter_field.parameter == parameter)
        .map_or_else(|| parameter.to_owned(), |parameter_field| parameter_field.name.clone())
}

/// A value for display; secrets are hidden.
pub(super) fn hidden(sections: &[drafts::Section], parameter: &str, value: &Value) -> String {
    let secret = sections
        .iter()
        .flat_map(|section| &section.fields)
        .any(|parameter_field| parameter_field.parameter == parameter && parameter_field.schema.sensitive);
    if secret { "hidden".to_owned() } else { lines(value) }
}

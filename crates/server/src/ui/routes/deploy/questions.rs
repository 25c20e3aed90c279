//! The questions of an application as fields of a form: how each is drawn, and what was typed into it.

use crate::app::drafts::{self, Asked, Draft, Kind};
use crate::app::mask::is_nothing;
use crate::app::shown::lines;
use crate::state::ServerState;
use crate::ui::errors::UiError;
use crate::ui::form::Form;
use crate::ui::words;
use indexmap::IndexMap;
use margo::description::ApplicationDescription;
use margo::parameters::{Answers, DataType};
use serde_json::Value;
use std::collections::HashSet;

/// What is wrong, by parameter.
pub(super) type Problems = IndexMap<String, Vec<String>>;

/// Questions under one heading.
pub(super) struct Sheet {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// One question as it is drawn.
pub(super) struct Field {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) label: String,
    pub(super) hint: String,
    pub(super) kind: &'static str,
    pub(super) value: String,
    pub(super) options: Vec<(String, bool)>,
    /// Cannot be changed any more.
    pub(super) locked: bool,
    pub(super) required: bool,
    pub(super) wrong: String,
    pub(super) before: Option<String>,
    /// The name under which a secret that is kept can be taken away, and whether it is.
    pub(super) clear: Option<(String, bool)>,
}

/// What the deployments have already.
pub(super) struct Known {
    /// Of one deployment.
    pub(super) before: Option<Answers>,
    /// Of many, each with a value of its own, which it keeps unless one is given for all.
    pub(super) kept: HashSet<String>,
}

impl Known {
    pub(super) async fn of(state: &ServerState, draft: &Draft) -> Result<Self, UiError> {
        Ok(Self { before: drafts::before(state, draft).await?, kept: drafts::kept_by_each(state, draft).await? })
    }

    fn present(&self, parameter: &str) -> Option<&Value> {
        self.before.as_ref().and_then(|values| values.get(parameter))
    }
}

/// All fields, and what is wrong with them by the id of each.
pub(super) fn sheets(
    sections: &[drafts::Section],
    draft: &Draft,
    known: &Known,
    typed: Option<&Form>,
    problems: &Problems,
) -> (Vec<Sheet>, Vec<(String, String)>) {
    let (mut sheets, mut wrong, mut number) = (Vec::new(), Vec::new(), 0);
    for section in sections {
        let mut fields = Vec::new();
        for question in &section.questions {
            number += 1;
            let field = field(question, number, draft, known, typed, problems);
            if !field.wrong.is_empty() {
                wrong.push((field.id.clone(), format!("{}: {}", question.name, field.wrong)));
            }
            fields.push(field);
        }
        sheets.push(Sheet { name: section.name.clone(), fields });
    }
    // What no question is beside, such as a parameter that is gone.
    for (name, messages) in problems {
        if !sections.iter().flat_map(|section| &section.questions).any(|question| question.parameter == *name) {
            wrong.push(("answers".to_owned(), format!("{name}: {}", messages.join(", "))));
        }
    }
    (sheets, wrong)
}

fn field(
    question: &Asked,
    number: usize,
    draft: &Draft,
    known: &Known,
    typed: Option<&Form>,
    problems: &Problems,
) -> Field {
    let name = format!("p:{}", question.parameter);
    let present = known.present(&question.parameter);
    let kept = known.kept.contains(&question.parameter);
    let default = question.default.as_ref().filter(|_| !kept);
    let known = draft.answers.get(&question.parameter).or(present).or(default);
    let secret = question.schema.sensitive;
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
    let list = question.schema.takes_list();
    let kind = match (&question.schema.options, list, question.schema.data_type.element()) {
        (Some(_), true, _) => "ticks",
        (Some(_), false, _) => "select",
        (None, true, _) => "lines",
        // Nothing chosen is no answer; a box that is not ticked would be one.
        (None, false, DataType::Boolean) if kept => "select",
        (None, false, DataType::Boolean) => "tick",
        (None, false, DataType::Integer) => "number",
        (None, false, DataType::Double) => "decimal",
        (None, false, _) if secret => "secret",
        (None, false, _) => "text",
    };
    let both = [Value::Bool(true), Value::Bool(false)];
    let boolean = if kind == "select" && question.schema.options.is_none() { &both[..] } else { &[] };
    let options = question.schema.options.iter().flatten().chain(boolean).map(lines).map(|option| {
        let chosen = values.contains(&option);
        (option, chosen)
    });
    let mut hint: Vec<String> = question.description.iter().cloned().collect();
    if !question.rules.is_empty() && question.schema.options.is_none() {
        hint.push(words::capital(&question.rules.join(", ")));
    }
    let locked = question.immutable && (present.is_some() || kept);
    if locked {
        hint.push("It cannot be changed after the first installation".to_owned());
    } else if question.immutable && !hint.iter().any(|known| known.contains("cannot be changed")) {
        hint.push("It cannot be changed later".to_owned());
    }
    let clear = clear_name(question, draft, present);
    if clear.is_some() || (secret && is_kept(question, draft, present)) {
        hint.push("A value is kept; leave it empty to keep it".to_owned());
    } else if question.hides_default && !kept && present.is_none() {
        hint.push("Left empty, it is what the application comes with, which is not shown".to_owned());
    } else if secret && present.is_some() {
        hint.push("It is not set".to_owned());
    }
    if kept && !locked {
        let none = if kind == "ticks" { "None ticked" } else { "Empty" };
        hint.push(format!("{none}: each device keeps what it has"));
    }
    if kind == "lines" {
        hint.push("One on each line".to_owned());
    }
    Field {
        id: format!("f{number}"),
        label: question.name.clone(),
        hint: hint.join(". "),
        kind,
        value: values.join("\n"),
        options: options.collect(),
        locked,
        required: !question.schema.allow_empty && !kept,
        wrong: problems
            .get(&question.parameter)
            .map(|messages| words::capital(&messages.join("; ")))
            .unwrap_or_default(),
        before: present
            .filter(|_| !secret)
            .map(lines)
            .filter(|before| {
                (typed.is_some() || draft.answers.contains_key(&question.parameter)) && *before != values.join("\n")
            })
            .map(|before| format!("Now: {before}")),
        clear: clear.map(|clear| {
            let chosen = typed.is_some_and(|form| form.has(&clear));
            (clear, chosen)
        }),
        name,
    }
}

/// Whether a secret has been given, in this draft or before.
fn is_kept(question: &Asked, draft: &Draft, present: Option<&Value>) -> bool {
    draft.answers.get(&question.parameter).or(present).is_some_and(|value| !is_nothing(value))
}

/// A secret that is kept is not shown, and an empty field leaves it as it is: to be rid of it takes a box of its own. What was
/// only given in this draft can be taken back; what a deployment has only where it may be empty.
fn clear_name(question: &Asked, draft: &Draft, present: Option<&Value>) -> Option<String> {
    let may = question.schema.allow_empty || present.is_none();
    let may = may && question.schema.sensitive && !(question.immutable && present.is_some());
    (may && is_kept(question, draft, present)).then(|| format!("clear:{}", question.parameter))
}

/// The answers in a form; what is locked or a secret left empty is not among them.
pub(super) fn read(form: &Form, description: &ApplicationDescription, draft: &Draft, known: &Known) -> Answers {
    let mut answers = Answers::new();
    for question in
        drafts::sections(description, draft.profile.as_deref()).iter().flat_map(|section| &section.questions)
    {
        let name = format!("p:{}", question.parameter);
        let present = known.present(&question.parameter);
        let own = known.kept.contains(&question.parameter);
        let typed: Vec<&str> = form.all(&name).collect();
        let locked = question.immutable && (present.is_some() || own);
        if locked || (own && typed.iter().all(|text| text.is_empty())) {
            continue;
        }
        let plain_boolean = question.schema.data_type == DataType::Boolean && question.schema.options.is_none();
        let boolean = plain_boolean && !own;
        let value = if boolean {
            Value::Bool(form.has(&name))
        } else {
            if question.schema.sensitive && typed.iter().all(|text| text.is_empty()) {
                if clear_name(question, draft, present).is_some_and(|name| form.has(&name)) {
                    if present.is_some() {
                        answers.insert(question.parameter.clone(), drafts::answer(description, question, &[""]));
                    }
                    continue;
                }
                if let Some(known) = draft.answers.get(&question.parameter) {
                    answers.insert(question.parameter.clone(), known.clone());
                }
                continue;
            }
            drafts::answer(description, question, &typed)
        };
        // Empty without a default is no answer; with one it is, and the rules say whether it may be.
        let empty = matches!(&value, Value::String(text) if text.is_empty());
        if empty && question.default.is_none() && present.is_none() {
            continue;
        }
        // An existing deployment gets only what differs.
        if draft.kind != Kind::Create && present == Some(&value) {
            continue;
        }
        answers.insert(question.parameter.clone(), value);
    }
    answers
}

/// What a parameter is called where it is asked for.
pub(super) fn label(sections: &[drafts::Section], parameter: &str) -> String {
    let all = sections.iter().flat_map(|section| &section.questions);
    all.clone()
        .find(|question| question.parameter == parameter)
        .map_or_else(|| parameter.to_owned(), |question| question.name.clone())
}

/// A value as it may be shown.
pub(super) fn hidden(sections: &[drafts::Section], parameter: &str, value: &Value) -> String {
    let secret = sections
        .iter()
        .flat_map(|section| &section.questions)
        .any(|question| question.parameter == parameter && question.schema.sensitive);
    if secret { "hidden".to_owned() } else { lines(value) }
}

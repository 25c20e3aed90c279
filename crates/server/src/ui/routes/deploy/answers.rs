//! Step three: the questions of the application, for all devices and for some of them alone. What is wrong is said by the one who
//! decides it, while typing and when it is kept.

use super::{Steps, next, steps};
use crate::app::drafts::{self, Asked, Kept, Kind, OVERRIDES_MAX};
use crate::app::error::{AppError, Code};
use crate::app::mask::is_nothing;
use crate::app::policies::{self, Choice};
use crate::state::ServerState;
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use indexmap::IndexMap;
use margo::description::ApplicationDescription;
use margo::parameters::{Answers, DataType};
use serde_json::Value;
use std::collections::HashSet;

#[derive(Template)]
#[template(path = "deploy/answers.html", blocks = ["live", "nav"])]
struct AnswersPage {
    shell: Shell,
    steps: Steps,
    sections: Vec<Sheet>,
    wrong: Vec<(String, String)>,
    overrides: Vec<Override>,
    /// Devices that can have answers of their own.
    devices: Vec<(String, String)>,
    parameters: Vec<(String, String)>,
    /// What devices do by themselves.
    policies: [Choice; 3],
    reaches: String,
    create: bool,
    back: Option<String>,
    override_wrong: Option<String>,
}
pages!(AnswersPage);

impl AnswersPage {
    /// Something was chosen of what devices do by themselves.
    fn chooses(&self) -> bool {
        self.policies.iter().any(|choice| choice.wanted.is_some())
    }
}

struct Sheet {
    name: String,
    fields: Vec<Field>,
}

/// One question as it is drawn.
struct Field {
    id: String,
    name: String,
    label: String,
    hint: String,
    kind: &'static str,
    value: String,
    options: Vec<(String, bool)>,
    /// Cannot be changed any more.
    locked: bool,
    required: bool,
    wrong: String,
    before: Option<String>,
    /// The name under which a secret that is kept can be taken away, and whether it is.
    clear: Option<(String, bool)>,
}

struct Override {
    device: String,
    name: String,
    own: Vec<(String, String)>,
}

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> Answer {
    let kept = drafts::get(&visit.state, visit.caller(), &id).await?;
    let problems = IndexMap::new();
    let page = page(&visit, &kept, None, &problems).await?;
    visit.show(&page)
}

async fn page(
    visit: &Visit,
    kept: &Kept,
    typed: Option<&Form>,
    problems: &IndexMap<String, Vec<String>>,
) -> Result<AnswersPage, UiError> {
    let (state, draft) = (&visit.state, &kept.draft);
    let description = drafts::description(state, draft).await?;
    let sections = drafts::sections(&description, draft.profile.as_deref());
    let known = Known::of(state, draft).await?;
    let mut sheets = Vec::new();
    let mut wrong = Vec::new();
    let mut number = 0;
    for section in &sections {
        let mut fields = Vec::new();
        for question in &section.questions {
            number += 1;
            let field = field(question, number, draft, &known, typed, problems);
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
    let steps = steps(state, kept, "answers").await?;
    let title = if wrong.is_empty() {
        "Questions".to_owned()
    } else {
        format!("{} wrong", words::count(wrong.len() as u64, "answer"))
    };
    let own = |answers: &Answers| {
        answers.iter().map(|(name, value)| (label(&sections, name), hidden(&sections, name, value))).collect()
    };
    Ok(AnswersPage {
        shell: visit.shell(Section::Catalog, format!("{title} - {}", steps.title)).await?,
        overrides: draft
            .overrides
            .iter()
            .map(|(device, answers)| Override {
                name: device.split_once('/').map_or(device.as_str(), |(_, name)| name).to_owned(),
                device: device.clone(),
                own: own(answers),
            })
            .collect(),
        devices: draft
            .devices
            .iter()
            .map(|device| (format!("{}/{}", device.client, device.device), device.device.clone()))
            .collect(),
        parameters: sections
            .iter()
            .flat_map(|section| &section.questions)
            .map(|question| (question.parameter.clone(), question.name.clone()))
            .collect(),
        policies: policies::choices(draft, policies::before(state, draft).await?),
        reaches: reaches(draft, drafts::reach(state, draft).await?),
        create: draft.kind == Kind::Create,
        back: (draft.kind != Kind::Reconfigure).then(|| {
            let step = if draft.kind == Kind::Create { "devices" } else { "version" };
            format!("/deploy/{}/{step}", kept.id)
        }),
        sections: sheets,
        wrong,
        override_wrong: None,
        steps,
    })
}

/// Of those that match only those count that fit, and how many that is the review says.
fn reaches(draft: &drafts::Draft, reach: u64) -> String {
    let devices = words::count(reach, "device");
    if draft.kind == Kind::Create && draft.selector.is_some() {
        format!("those that fit of {devices} that match")
    } else {
        devices
    }
}

fn label(sections: &[drafts::Section], parameter: &str) -> String {
    let all = sections.iter().flat_map(|section| &section.questions);
    all.clone()
        .find(|question| question.parameter == parameter)
        .map_or_else(|| parameter.to_owned(), |question| question.name.clone())
}

/// A value as it may be shown.
fn hidden(sections: &[drafts::Section], parameter: &str, value: &Value) -> String {
    let secret = sections
        .iter()
        .flat_map(|section| &section.questions)
        .any(|question| question.parameter == parameter && question.schema.sensitive);
    if secret { "hidden".to_owned() } else { plain(value) }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

/// What the deployments have already.
struct Known {
    /// Of one deployment.
    before: Option<Answers>,
    /// Of many, each with a value of its own, which it keeps unless one is given for all.
    kept: HashSet<String>,
}

impl Known {
    async fn of(state: &ServerState, draft: &drafts::Draft) -> Result<Self, UiError> {
        Ok(Self { before: drafts::before(state, draft).await?, kept: drafts::kept_by_each(state, draft).await? })
    }

    fn present(&self, parameter: &str) -> Option<&Value> {
        self.before.as_ref().and_then(|values| values.get(parameter))
    }
}

fn field(
    question: &Asked,
    number: usize,
    draft: &drafts::Draft,
    known: &Known,
    typed: Option<&Form>,
    problems: &IndexMap<String, Vec<String>>,
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
            Some(Value::Array(items)) => items.iter().map(plain).collect(),
            Some(value) => vec![plain(value)],
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
    let options = question.schema.options.iter().flatten().chain(boolean).map(plain).map(|option| {
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
            .map(plain)
            .filter(|before| draft.answers.contains_key(&question.parameter) && *before != values.join("\n")),
        clear: clear.map(|clear| {
            let chosen = typed.is_some_and(|form| form.has(&clear));
            (clear, chosen)
        }),
        name,
    }
}

/// Whether a secret has been given, in this draft or before.
fn is_kept(question: &Asked, draft: &drafts::Draft, present: Option<&Value>) -> bool {
    draft.answers.get(&question.parameter).or(present).is_some_and(|value| !is_nothing(value))
}

/// A secret that is kept is not shown, and an empty field leaves it as it is: to be rid of it takes a box of its own. What was
/// only given in this draft can be taken back; what a deployment has only where it may be empty.
fn clear_name(question: &Asked, draft: &drafts::Draft, present: Option<&Value>) -> Option<String> {
    let may = question.schema.allow_empty || present.is_none();
    let may = may && question.schema.sensitive && !(question.immutable && present.is_some());
    (may && is_kept(question, draft, present)).then(|| format!("clear:{}", question.parameter))
}

/// The answers in a form; what is locked or a secret left empty is not among them.
fn read(form: &Form, description: &ApplicationDescription, kept: &Kept, known: &Known) -> Answers {
    let draft = &kept.draft;
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

/// What was chosen of what devices do by themselves.
async fn choose(posted: &Posted, kept: &mut Kept) -> Result<(), UiError> {
    let before = policies::before(posted.state(), &kept.draft).await?;
    kept.draft.policy = policies::read(|name| posted.form.text(name), before)?;
    Ok(())
}

/// Says what is wrong without keeping anything, for a form that is being filled in.
pub(in crate::ui) async fn check(Path(id): Path<String>, posted: Posted) -> Answer {
    let mut kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    choose(&posted, &mut kept).await?;
    let description = drafts::description(posted.state(), &kept.draft).await?;
    let known = Known::of(posted.state(), &kept.draft).await?;
    let answers = read(&posted.form, &description, &kept, &known);
    let mut problems = drafts::problems(posted.state(), &kept.draft, &answers).await?;
    // What was not touched yet is not complained about.
    problems.retain(|name, _| {
        let field = format!("p:{name}");
        posted.form.all(&field).any(|text| !text.is_empty()) || kept.draft.answered
    });
    let page = page(&posted.visit, &kept, Some(&posted.form), &problems).await?;
    posted.visit.show(&page)
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> Answer {
    let mut kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    kept.revision = posted.form.number("revision").unwrap_or(kept.revision);
    choose(&posted, &mut kept).await?;
    let description = drafts::description(posted.state(), &kept.draft).await?;
    let known = Known::of(posted.state(), &kept.draft).await?;
    let answers = read(&posted.form, &description, &kept, &known);
    let form = &posted.form;
    if let Some(device) = form.text("go").strip_prefix("without:") {
        kept.draft.overrides.shift_remove(device);
    }
    let problems = drafts::problems(posted.state(), &kept.draft, &answers).await?;
    kept.draft.answers = answers;
    if form.text("go") == "own"
        && let Err(message) = add_override(&mut kept, &description, form, &posted).await?
    {
        let mut page = page(&posted.visit, &kept, Some(form), &IndexMap::new()).await?;
        page.override_wrong = Some(message);
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    if form.text("go") != "continue" {
        drafts::put(posted.state(), posted.caller(), &kept).await?;
        return Ok(go(&format!("/deploy/{id}/answers#own"), None));
    }
    if !problems.is_empty() {
        let page = page(&posted.visit, &kept, Some(form), &problems).await?;
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    if kept.draft.kind == Kind::Reconfigure && kept.draft.answers.is_empty() && kept.draft.policy.is_empty() {
        let mut page = page(&posted.visit, &kept, Some(form), &problems).await?;
        let text = "Nothing is different yet; change at least one answer, or what happens when something goes wrong.";
        page.wrong.push(("answers".to_owned(), text.to_owned()));
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    kept.draft.answered = true;
    drafts::put(posted.state(), posted.caller(), &kept).await?;
    Ok(go(&next(&kept, "answers"), None))
}

/// One answer for one device alone; the inner error says what is wrong with it.
async fn add_override(
    kept: &mut Kept,
    description: &ApplicationDescription,
    form: &Form,
    posted: &Posted,
) -> Result<Result<(), String>, UiError> {
    let (device, parameter) = (form.text("own-device").to_owned(), form.text("own-parameter").to_owned());
    let chosen = kept.draft.devices.iter().any(|known| format!("{}/{}", known.client, known.device) == device);
    let sections = drafts::sections(description, kept.draft.profile.as_deref());
    let question =
        sections.iter().flat_map(|section| &section.questions).find(|question| question.parameter == parameter);
    let (true, Some(question)) = (chosen, question) else {
        return Ok(Err("Choose a device and a question.".to_owned()));
    };
    if kept.draft.overrides.len() >= OVERRIDES_MAX && !kept.draft.overrides.contains_key(&device) {
        return Err(AppError::refused(
            Code::Invalid,
            format!("at most {OVERRIDES_MAX} devices can have answers of their own; deploy the others separately"),
        )
        .into());
    }
    let value = drafts::answer(description, question, &[form.raw("own-value").unwrap_or_default()]);
    let mut own = kept.draft.overrides.get(&device).cloned().unwrap_or_default();
    own.insert(parameter.clone(), value);
    let mut all = kept.draft.answers.clone();
    all.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    let problems = drafts::problems(posted.state(), &kept.draft, &all).await?;
    if let Some(messages) = problems.get(&parameter) {
        return Ok(Err(format!("{}: {}", question.name, messages.join("; "))));
    }
    kept.draft.overrides.insert(device, own);
    Ok(Ok(()))
}

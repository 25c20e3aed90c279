//! Answers for one device alone: the same questions once more, filled with what all get. What differs is kept.

use super::questions::{Known, Problems, Sheet, read, sheets};
use super::{Steps, device_value, elsewhere, read_device, section, steps};
use crate::app::drafts::{self, Draft, Kept, OVERRIDES_MAX};
use crate::app::error::{AppError, Code};
use crate::app::fleet::{self, Search};
use crate::app::paging::Paging;
use crate::app::shown;
use crate::state::ServerState;
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::routes::query::{Asked, link};
use crate::ui::visit::{Answer, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margo::description::ApplicationDescription;
use margo::parameters::Answers;
use margrave_api::devices::DeviceRef;
use std::collections::HashSet;

/// Devices looked at when one is named among all that have something in common.
const NAMED_MAX: u32 = 100;

#[derive(Template)]
#[template(path = "deploy/own.html", blocks = ["live", "nav"])]
struct OwnPage {
    shell: Shell,
    steps: Steps,
    device: DeviceRef,
    value: String,
    sections: Vec<Sheet>,
    wrong: Vec<(String, String)>,
    /// It has some already.
    has: bool,
}
pages!(OwnPage);

pub(super) fn address(draft: &str, device: &DeviceRef) -> String {
    link(&format!("/deploy/{draft}/own"), &[("device", &device_value(device))])
}

/// The device somebody names, if it is among those the draft is for; the inner error says what is wrong with the name.
pub(super) async fn find(state: &ServerState, draft: &Draft, name: &str) -> Result<Result<DeviceRef, String>, UiError> {
    if name.is_empty() {
        return Ok(Err("Say which device.".to_owned()));
    }
    let named = |device: &DeviceRef| device.device == name || device_value(device) == name;
    let mut found: Vec<DeviceRef> = match &draft.selector {
        None => draft.devices.iter().filter(|device| named(device)).cloned().collect(),
        Some(selector) => {
            let text = Some(name.rsplit('/').next().unwrap_or(name).to_owned());
            let search = Search { labels: Some(selector.clone()), text, ..Search::default() };
            let page = fleet::list(state, &search, &Paging { limit: Some(NAMED_MAX), after: None }).await?;
            let devices = page.items.into_iter().map(|listed| listed.device);
            devices.map(|device| DeviceRef { client: device.client, device: device.device }).filter(named).collect()
        }
    };
    let only = match (found.pop(), found.is_empty()) {
        (Some(only), true) => only,
        (Some(_), false) => {
            return Ok(Err(format!("More than one device is called `{name}`: write it as client/device.")));
        }
        (None, _) => return Ok(Err(format!("`{name}` is not among the devices that were chosen."))),
    };
    // Among all that have something in common may be some that are left out.
    if !fleet::candidate(state, &draft.wanted(), &only).await?.can_take(&draft.wanted()) {
        return Ok(Err(format!("`{name}` is left out: it does not fit, or has the application already.")));
    }
    Ok(Ok(only))
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked, Path(id): Path<String>) -> Answer {
    let kept = drafts::get(&visit.state, visit.caller(), &id).await?;
    let device = chosen(&visit.state, &kept.draft, &asked.text("device")).await?;
    // What was kept as it was typed may be wrong.
    let alone = with_own(&kept.draft, &device).answers;
    let mut problems = drafts::problems(&visit.state, &kept.draft, &alone).await?;
    let own = kept.draft.overrides.get(&device_value(&device));
    problems.retain(|name, _| own.is_some_and(|own| own.contains_key(name)));
    let page = page(&visit, &kept, &device, None, &problems).await?;
    visit.show(&page)
}

async fn chosen(state: &ServerState, draft: &Draft, value: &str) -> Result<DeviceRef, UiError> {
    let refused = |detail: String| UiError::from(AppError::refused(Code::NotFound, detail));
    let device =
        read_device(value).ok_or_else(|| refused("no device is named; choose one among the answers".to_owned()))?;
    find(state, draft, &device_value(&device)).await?.map_err(refused)
}

/// What this device would get, so that the same form can be drawn and read.
fn with_own(draft: &Draft, device: &DeviceRef) -> Draft {
    let mut alone = draft.clone();
    let own = draft.overrides.get(&device_value(device)).into_iter().flatten();
    alone.answers.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    alone
}

/// Nothing runs there yet.
fn nothing_known() -> Known {
    Known { before: None, kept: HashSet::new() }
}

async fn page(
    visit: &Visit,
    kept: &Kept,
    device: &DeviceRef,
    typed: Option<&Form>,
    problems: &Problems,
) -> Result<OwnPage, UiError> {
    let description = drafts::description(&visit.state, &kept.draft).await?;
    let questions = drafts::sections(&description, kept.draft.profile.as_deref());
    let alone = with_own(&kept.draft, device);
    let (mut sections, wrong) = sheets(&questions, &alone, &nothing_known(), typed, problems);
    let own = kept.draft.overrides.get(&device_value(device));
    // Beside what differs stands what the others get.
    let asked = questions.iter().flat_map(|section| &section.questions);
    for (field, question) in sections.iter_mut().flat_map(|sheet| &mut sheet.fields).zip(asked) {
        let differs = own.is_some_and(|own| own.contains_key(&question.parameter));
        if differs && !question.schema.sensitive {
            let common = kept.draft.answers.get(&question.parameter).or(question.default.as_ref()).map(shown::lines);
            let common = common.filter(|text| !text.is_empty()).unwrap_or_else(|| "nothing".to_owned());
            field.before = Some(format!("The others get: {common}"));
        }
    }
    let steps = steps(&visit.state, kept, "answers").await?;
    let title = if wrong.is_empty() {
        format!("Answers of {} alone", device.device)
    } else {
        format!("{} wrong", words::count(wrong.len() as u64, "answer"))
    };
    Ok(OwnPage {
        shell: visit.shell(section(&kept.draft), format!("{title} - {}", steps.title)).await?,
        steps,
        value: device_value(device),
        device: device.clone(),
        sections,
        wrong,
        has: own.is_some(),
    })
}

/// What was typed, all of it, and of that what the others do not get.
fn read_own(
    form: &Form,
    description: &ApplicationDescription,
    draft: &Draft,
    device: &DeviceRef,
) -> (Answers, Answers) {
    let alone = with_own(draft, device);
    let mut all = read(form, description, &alone, &nothing_known());
    let sections = drafts::sections(description, draft.profile.as_deref());
    let mut own = Answers::new();
    for question in sections.iter().flat_map(|section| &section.questions) {
        let name = &question.parameter;
        let common = draft.answers.get(name).or(question.default.as_ref());
        if !all.contains_key(name) && common.is_some() && !question.schema.sensitive {
            // Emptied here, though the others have something.
            all.insert(name.clone(), drafts::answer(description, question, &[""]));
        }
        if let Some(value) = all.get(name).filter(|value| Some(*value) != common) {
            own.insert(name.clone(), value.clone());
        }
    }
    (all, own)
}

/// Says what is wrong without keeping anything, for a form that is being filled in.
pub(in crate::ui) async fn check(Path(id): Path<String>, posted: Posted) -> Answer {
    let kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    let device = chosen(posted.state(), &kept.draft, posted.form.text("device")).await?;
    let description = drafts::description(posted.state(), &kept.draft).await?;
    let (all, own) = read_own(&posted.form, &description, &kept.draft, &device);
    let mut problems = drafts::problems(posted.state(), &kept.draft, &all).await?;
    // What the others have not answered either is not complained about here.
    problems.retain(|name, _| own.contains_key(name));
    let page = page(&posted.visit, &kept, &device, Some(&posted.form), &problems).await?;
    posted.visit.show(&page)
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> Answer {
    let mut kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    kept.revision = posted.form.number("revision").unwrap_or(kept.revision);
    let device = chosen(posted.state(), &kept.draft, posted.form.text("device")).await?;
    let value = device_value(&device);
    let description = drafts::description(posted.state(), &kept.draft).await?;
    let (all, own) = read_own(&posted.form, &description, &kept.draft, &device);
    let mut problems = drafts::problems(posted.state(), &kept.draft, &all).await?;
    problems.retain(|name, _| own.contains_key(name));
    let elsewhere = elsewhere(&kept, posted.form.text("go"));
    if !problems.is_empty() && elsewhere.is_none() {
        let page = page(&posted.visit, &kept, &device, Some(&posted.form), &problems).await?;
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    if own.is_empty() {
        kept.draft.overrides.shift_remove(&value);
    } else if kept.draft.overrides.len() >= OVERRIDES_MAX && !kept.draft.overrides.contains_key(&value) {
        let detail =
            format!("at most {OVERRIDES_MAX} devices can have answers of their own; deploy the others separately");
        return Err(AppError::refused(Code::Invalid, detail).into());
    } else {
        kept.draft.overrides.insert(value, own);
    }
    drafts::put(posted.state(), posted.caller(), &kept).await?;
    Ok(go(&elsewhere.unwrap_or_else(|| format!("/deploy/{id}/answers#own")), None))
}

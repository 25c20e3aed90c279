//! Step three: the questions of the application, for all devices. What is wrong is said by the one who decides it, while typing and
//! when it is kept. A device with answers of its own has a page of its own.

use super::own;
use super::questions::{Known, Problems, Sheet, hidden, label, read, sheets};
use super::{Steps, device_value, elsewhere, next, read_device, section, steps};
use crate::app::drafts::{self, Kept, Kind};
use crate::app::policies::{self, Choice};
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::visit::{Answer, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margo::parameters::Answers;

/// Devices offered in a list; of more, one is named.
const OFFERED_MAX: usize = 200;

#[derive(Template)]
#[template(path = "deploy/answers.html", blocks = ["live", "nav"])]
struct AnswersPage {
    shell: Shell,
    steps: Steps,
    sections: Vec<Sheet>,
    wrong: Vec<(String, String)>,
    overrides: Vec<Override>,
    /// Devices that can have answers of their own; empty where there are too many to list them.
    devices: Vec<(String, String)>,
    /// More than one device, so that one of them may differ.
    many: bool,
    /// The device that was named, if that could not be.
    own_device: String,
    /// What devices do by themselves.
    policies: [Choice; 3],
    reaches: String,
    create: bool,
    override_wrong: Option<String>,
    /// What a single deployment is at while its questions are answered.
    seen: Option<i64>,
}
pages!(AnswersPage);

impl AnswersPage {
    /// Something was chosen of what devices do by themselves.
    fn chooses(&self) -> bool {
        self.policies.iter().any(|choice| choice.wanted.is_some())
    }
}

struct Override {
    device: String,
    name: String,
    link: String,
    own: Vec<(String, String)>,
}

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> Answer {
    let kept = drafts::get(&visit.state, visit.caller(), &id).await?;
    let problems = kept_problems(&visit, &kept).await?;
    let page = page(&visit, &kept, None, &problems).await?;
    visit.show(&page)
}

/// What is wrong with answers that were kept as they were typed.
async fn kept_problems(visit: &Visit, kept: &Kept) -> Result<Problems, UiError> {
    let draft = &kept.draft;
    if draft.answers.is_empty() {
        return Ok(Problems::new());
    }
    let description = drafts::description(&visit.state, draft).await?;
    let sections = drafts::sections(&description, draft.profile.as_deref());
    let mut problems = drafts::problems(&visit.state, draft, &draft.answers).await?;
    // What was not answered yet is not complained about, nor what another version has asked.
    problems.retain(|name, _| {
        let asked = sections.iter().flat_map(|section| &section.questions).any(|one| one.parameter == *name);
        asked && draft.answers.contains_key(name)
    });
    Ok(problems)
}

async fn page(visit: &Visit, kept: &Kept, typed: Option<&Form>, problems: &Problems) -> Result<AnswersPage, UiError> {
    let (state, draft) = (&visit.state, &kept.draft);
    let description = drafts::description(state, draft).await?;
    let sections = drafts::sections(&description, draft.profile.as_deref());
    let known = Known::of(state, draft).await?;
    let (sheets, wrong) = sheets(&sections, draft, &known, typed, problems);
    let steps = steps(state, kept, "answers").await?;
    let title = if wrong.is_empty() {
        "Questions".to_owned()
    } else {
        format!("{} wrong", words::count(wrong.len() as u64, "answer"))
    };
    let shown = |answers: &Answers| {
        answers.iter().map(|(name, value)| (label(&sections, name), hidden(&sections, name, value))).collect()
    };
    Ok(AnswersPage {
        shell: visit.shell(section(&kept.draft), format!("{title} - {}", steps.title)).await?,
        overrides: draft
            .overrides
            .iter()
            .map(|(device, answers)| Override {
                name: device.split_once('/').map_or(device.as_str(), |(_, name)| name).to_owned(),
                link: read_device(device).map(|device| own::address(&kept.id.to_string(), &device)).unwrap_or_default(),
                device: device.clone(),
                own: shown(answers),
            })
            .collect(),
        devices: match draft.devices.len() {
            many if many > OFFERED_MAX || draft.selector.is_some() => Vec::new(),
            _ => draft.devices.iter().map(|device| (device_value(device), device.device.clone())).collect(),
        },
        many: draft.selector.is_some() || draft.devices.len() > 1,
        own_device: typed.map(|form| form.text("own-device").to_owned()).unwrap_or_default(),
        policies: policies::choices(draft, policies::before(state, draft).await?),
        reaches: reaches(draft, drafts::reach(state, draft).await?),
        create: draft.kind == Kind::Create,
        sections: sheets,
        wrong,
        override_wrong: None,
        seen: drafts::revision(state, draft).await?,
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
    let answers = read(&posted.form, &description, &kept.draft, &known);
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
    let answers = read(&posted.form, &description, &kept.draft, &known);
    let form = &posted.form;
    let problems = drafts::problems(posted.state(), &kept.draft, &answers).await?;
    kept.draft.answers = answers;
    if let Some(device) = form.text("go").strip_prefix("without:") {
        kept.draft.overrides.shift_remove(device);
        drafts::put(posted.state(), posted.caller(), &kept).await?;
        return Ok(go(&format!("/deploy/{id}/answers#own"), None));
    }
    if let Some(place) = elsewhere(&kept, form.text("go")) {
        // Somebody goes away to come back: kept as it is typed, right or wrong.
        kept.draft.answered &= problems.is_empty();
        drafts::put(posted.state(), posted.caller(), &kept).await?;
        return Ok(go(&place, None));
    }
    let present = drafts::revision(posted.state(), &kept.draft).await?;
    if present.is_some() && form.number("seen").is_some_and(|seen| Some(seen) != present) {
        let mut page = page(&posted.visit, &kept, Some(form), &problems).await?;
        let text = "Somebody else changed this deployment in the meantime. Beside your answers stands what it has now; send them again if they should hold.";
        page.wrong.insert(0, ("answers".to_owned(), text.to_owned()));
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    // Whoever names a device and presses Enter means that device.
    let names_one = form.text("go") == "continue" && !form.text("own-device").is_empty();
    if form.text("go") == "own" || names_one {
        return match own::find(posted.state(), &kept.draft, form.text("own-device")).await? {
            Ok(device) => {
                // Kept as it is typed, right or wrong: somebody goes away to come back.
                drafts::put(posted.state(), posted.caller(), &kept).await?;
                Ok(go(&own::address(&id, &device), None))
            }
            Err(message) => {
                let mut page = page(&posted.visit, &kept, Some(form), &Problems::new()).await?;
                page.override_wrong = Some(message);
                posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
            }
        };
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

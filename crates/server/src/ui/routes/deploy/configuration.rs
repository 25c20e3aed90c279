//! Step three: the parameters of the application, for all devices. The server validates values while they are typed and when they
//! are saved. Per-device overrides have a separate page.

use super::fields::{CurrentValues, FieldGroup, Problems, hidden, label, read, sheets};
use super::overrides;
use super::{Steps, device_value, elsewhere, next, read_device, section, steps};
use crate::app::drafts::{self, Kind, StoredDraft};
use crate::app::policies::{self, PolicyField};
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::visit::{PageResult, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margo::parameters::ParameterValues;

/// Devices offered in a list; with more devices, the operator types a name.
const OFFERED_MAX: usize = 200;

#[derive(Template)]
#[template(path = "deploy/configuration.html", blocks = ["live", "nav"])]
struct ConfigurationPage {
    shell: Shell,
    steps: Steps,
    sections: Vec<FieldGroup>,
    wrong: Vec<(String, String)>,
    overrides: Vec<Override>,
    /// Devices that can have overrides; empty if there are too many to list.
    devices: Vec<(String, String)>,
    /// More than one device, so that overrides make sense.
    many: bool,
    /// The device that was entered, if it was rejected.
    own_device: String,
    /// Deployment policies.
    policies: [PolicyField; 3],
    reaches: String,
    create: bool,
    override_wrong: Option<String>,
    /// The revision of a single deployment while it is configured.
    seen: Option<i64>,
}
pages!(ConfigurationPage);

impl ConfigurationPage {
    /// The draft sets at least one policy.
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

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> PageResult {
    let kept = drafts::get(&visit.state, visit.caller(), &id).await?;
    let problems = kept_problems(&visit, &kept).await?;
    let page = page(&visit, &kept, None, &problems).await?;
    visit.show(&page)
}

/// Problems of values that were saved without being valid.
async fn kept_problems(visit: &Visit, kept: &StoredDraft) -> Result<Problems, UiError> {
    let draft = &kept.draft;
    if draft.answers.is_empty() {
        return Ok(Problems::new());
    }
    let description = drafts::description(&visit.state, draft).await?;
    let sections = drafts::sections(&description, draft.profile.as_deref());
    let mut problems = drafts::problems(&visit.state, draft, &draft.answers).await?;
    // Ignore parameters without a value yet, and parameters of another version.
    problems.retain(|name, _| {
        let asked = sections.iter().flat_map(|section| &section.questions).any(|one| one.parameter == *name);
        asked && draft.answers.contains_key(name)
    });
    Ok(problems)
}

async fn page(
    visit: &Visit,
    kept: &StoredDraft,
    typed: Option<&Form>,
    problems: &Problems,
) -> Result<ConfigurationPage, UiError> {
    let (state, draft) = (&visit.state, &kept.draft);
    let description = drafts::description(state, draft).await?;
    let sections = drafts::sections(&description, draft.profile.as_deref());
    let known = CurrentValues::of(state, draft).await?;
    let (sheets, wrong) = sheets(&sections, draft, &known, typed, problems);
    let steps = steps(state, kept, "configuration").await?;
    let title =
        if wrong.is_empty() { "Configuration".to_owned() } else { words::count(wrong.len() as u64, "invalid value") };
    let shown = |answers: &ParameterValues| {
        answers.iter().map(|(name, value)| (label(&sections, name), hidden(&sections, name, value))).collect()
    };
    Ok(ConfigurationPage {
        shell: visit.shell(section(&kept.draft), format!("{title} - {}", steps.title)).await?,
        overrides: draft
            .overrides
            .iter()
            .map(|(device, answers)| Override {
                name: device.split_once('/').map_or(device.as_str(), |(_, name)| name).to_owned(),
                link: read_device(device)
                    .map(|device| overrides::address(&kept.id.to_string(), &device))
                    .unwrap_or_default(),
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

/// Only compatible devices among the matching ones count; the review says how many.
fn reaches(draft: &drafts::Draft, reach: u64) -> String {
    if draft.kind == Kind::Create && draft.selector.is_some() {
        format!("the compatible ones of {}", words::count(reach, "matching device"))
    } else {
        words::count(reach, "device")
    }
}

/// Stores the submitted policies in the draft.
async fn choose(posted: &Posted, kept: &mut StoredDraft) -> Result<(), UiError> {
    let before = policies::before(posted.state(), &kept.draft).await?;
    kept.draft.policy = policies::read(|name| posted.form.text(name), before)?;
    Ok(())
}

/// Validates without saving, for a form that is being filled in.
pub(in crate::ui) async fn check(Path(id): Path<String>, posted: Posted) -> PageResult {
    let mut kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    choose(&posted, &mut kept).await?;
    let description = drafts::description(posted.state(), &kept.draft).await?;
    let known = CurrentValues::of(posted.state(), &kept.draft).await?;
    let answers = read(&posted.form, &description, &kept.draft, &known);
    let mut problems = drafts::problems(posted.state(), &kept.draft, &answers).await?;
    // Ignore fields that are still empty.
    problems.retain(|name, _| {
        let field = format!("p:{name}");
        posted.form.all(&field).any(|text| !text.is_empty()) || kept.draft.answered
    });
    let page = page(&posted.visit, &kept, Some(&posted.form), &problems).await?;
    posted.visit.show(&page)
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> PageResult {
    let mut kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    kept.revision = posted.form.number("revision").unwrap_or(kept.revision);
    choose(&posted, &mut kept).await?;
    let description = drafts::description(posted.state(), &kept.draft).await?;
    let known = CurrentValues::of(posted.state(), &kept.draft).await?;
    let answers = read(&posted.form, &description, &kept.draft, &known);
    let form = &posted.form;
    let problems = drafts::problems(posted.state(), &kept.draft, &answers).await?;
    kept.draft.answers = answers;
    if let Some(device) = form.text("go").strip_prefix("without:") {
        kept.draft.overrides.shift_remove(device);
        drafts::put(posted.state(), posted.caller(), &kept).await?;
        return Ok(go(&format!("/deploy/{id}/configuration#own"), None));
    }
    if let Some(place) = elsewhere(&kept, form.text("go")) {
        // The operator leaves this step and comes back: save the values, valid or not.
        kept.draft.answered &= problems.is_empty();
        drafts::put(posted.state(), posted.caller(), &kept).await?;
        return Ok(go(&place, None));
    }
    let present = drafts::revision(posted.state(), &kept.draft).await?;
    if present.is_some() && form.number("seen").is_some_and(|seen| Some(seen) != present) {
        let mut page = page(&posted.visit, &kept, Some(form), &problems).await?;
        let text = "Another operator changed this deployment in the meantime. The current values are shown next to yours; submit again to overwrite them.";
        page.wrong.insert(0, ("configuration".to_owned(), text.to_owned()));
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    // Enter after typing a device name means Add override.
    let names_one = form.text("go") == "continue" && !form.text("own-device").is_empty();
    if form.text("go") == "override" || names_one {
        return match overrides::find(posted.state(), &kept.draft, form.text("own-device")).await? {
            Ok(device) => {
                // The operator leaves this step and comes back: save the values, valid or not.
                drafts::put(posted.state(), posted.caller(), &kept).await?;
                Ok(go(&overrides::address(&id, &device), None))
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
        let text = "No changes yet; change at least one value or policy.";
        page.wrong.push(("configuration".to_owned(), text.to_owned()));
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    kept.draft.answered = true;
    drafts::put(posted.state(), posted.caller(), &kept).await?;
    Ok(go(&next(&kept, "configuration"), None))
}

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
        self.policies.iter().any(|choice| choice.requested.is_some())
    }
}

struct Override {
    device: String,
    name: String,
    link: String,
    own: Vec<(String, String)>,
}

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> PageResult {
    let stored = drafts::get(&visit.state, visit.caller(), &id).await?;
    let problems = stored_problems(&visit, &stored).await?;
    let page = page(&visit, &stored, None, &problems).await?;
    visit.show(&page)
}

/// Problems of values that were saved without being valid.
async fn stored_problems(visit: &Visit, stored: &StoredDraft) -> Result<Problems, UiError> {
    let draft = &stored.draft;
    if draft.values.is_empty() {
        return Ok(Problems::new());
    }
    let description = drafts::description(&visit.state, draft).await?;
    let sections = drafts::sections(&description, draft.profile.as_deref());
    let mut problems = drafts::problems(&visit.state, draft, &draft.values).await?;
    // Ignore parameters without a value yet, and parameters of another version.
    problems.retain(|name, _| {
        let is_parameter = sections.iter().flat_map(|section| &section.fields).any(|one| one.parameter == *name);
        is_parameter && draft.values.contains_key(name)
    });
    Ok(problems)
}

async fn page(
    visit: &Visit,
    stored: &StoredDraft,
    typed: Option<&Form>,
    problems: &Problems,
) -> Result<ConfigurationPage, UiError> {
    let (state, draft) = (&visit.state, &stored.draft);
    let description = drafts::description(state, draft).await?;
    let sections = drafts::sections(&description, draft.profile.as_deref());
    let current = CurrentValues::of(state, draft).await?;
    let (sheets, wrong) = sheets(&sections, draft, &current, typed, problems);
    let steps = steps(state, stored, "configuration").await?;
    let title =
        if wrong.is_empty() { "Configuration".to_owned() } else { words::count(wrong.len() as u64, "invalid value") };
    let shown = |values: &ParameterValues| {
        values.iter().map(|(name, value)| (label(&sections, name), hidden(&sections, name, value))).collect()
    };
    Ok(ConfigurationPage {
        shell: visit.shell(section(&stored.draft), format!("{title} - {}", steps.title)).await?,
        overrides: draft
            .overrides
            .iter()
            .map(|(device, values)| Override {
                name: device.split_once('/').map_or(device.as_str(), |(_, name)| name).to_owned(),
                link: read_device(device)
                    .map(|device| overrides::address(&stored.id.to_string(), &device))
                    .unwrap_or_default(),
                device: device.clone(),
                own: shown(values),
            })
            .collect(),
        devices: match draft.devices.len() {
            many if many > OFFERED_MAX || draft.selector.is_some() => Vec::new(),
            _ => draft.devices.iter().map(|device| (device_value(device), device.device.clone())).collect(),
        },
        many: draft.selector.is_some() || draft.devices.len() > 1,
        own_device: typed.map(|form| form.text("own-device").to_owned()).unwrap_or_default(),
        policies: policies::choices(draft, policies::before(state, draft).await?),
        reaches: reaches(draft, drafts::target_count(state, draft).await?),
        create: draft.kind == Kind::Create,
        sections: sheets,
        wrong,
        override_wrong: None,
        seen: drafts::revision(state, draft).await?,
        steps,
    })
}

/// Only compatible devices among the matching ones count; the review says how many.
fn reaches(draft: &drafts::Draft, target_count: u64) -> String {
    if draft.kind == Kind::Create && draft.selector.is_some() {
        format!("the compatible ones of {}", words::count(target_count, "matching device"))
    } else {
        words::count(target_count, "device")
    }
}

/// Stores the submitted policies in the draft.
async fn choose(posted: &Posted, stored: &mut StoredDraft) -> Result<(), UiError> {
    let before = policies::before(posted.state(), &stored.draft).await?;
    stored.draft.policy = policies::read(|name| posted.form.text(name), before)?;
    Ok(())
}

/// Validates without saving, for a form that is being filled in.
pub(in crate::ui) async fn check(Path(id): Path<String>, posted: Posted) -> PageResult {
    let mut stored = drafts::get(posted.state(), posted.caller(), &id).await?;
    choose(&posted, &mut stored).await?;
    let description = drafts::description(posted.state(), &stored.draft).await?;
    let current = CurrentValues::of(posted.state(), &stored.draft).await?;
    let values = read(&posted.form, &description, &stored.draft, &current);
    let mut problems = drafts::problems(posted.state(), &stored.draft, &values).await?;
    // Ignore fields that are still empty.
    problems.retain(|name, _| {
        let field = format!("p:{name}");
        posted.form.all(&field).any(|text| !text.is_empty()) || stored.draft.configured
    });
    let page = page(&posted.visit, &stored, Some(&posted.form), &problems).await?;
    posted.visit.show(&page)
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> PageResult {
    let mut stored = drafts::get(posted.state(), posted.caller(), &id).await?;
    stored.revision = posted.form.number("revision").unwrap_or(stored.revision);
    choose(&posted, &mut stored).await?;
    let description = drafts::description(posted.state(), &stored.draft).await?;
    let current = CurrentValues::of(posted.state(), &stored.draft).await?;
    let values = read(&posted.form, &description, &stored.draft, &current);
    let form = &posted.form;
    let problems = drafts::problems(posted.state(), &stored.draft, &values).await?;
    stored.draft.values = values;
    if let Some(device) = form.text("go").strip_prefix("without:") {
        stored.draft.overrides.shift_remove(device);
        drafts::put(posted.state(), posted.caller(), &stored).await?;
        return Ok(go(&format!("/deploy/{id}/configuration#own"), None));
    }
    if let Some(place) = elsewhere(&stored, form.text("go")) {
        // The operator leaves this step and comes back: save the values, valid or not.
        stored.draft.configured &= problems.is_empty();
        drafts::put(posted.state(), posted.caller(), &stored).await?;
        return Ok(go(&place, None));
    }
    let present = drafts::revision(posted.state(), &stored.draft).await?;
    if present.is_some() && form.number("seen").is_some_and(|seen| Some(seen) != present) {
        let mut page = page(&posted.visit, &stored, Some(form), &problems).await?;
        let text = "Another operator changed this deployment in the meantime. The current values are shown next to yours; submit again to overwrite them.";
        page.wrong.insert(0, ("configuration".to_owned(), text.to_owned()));
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    // Enter after typing a device name means Add override.
    let names_one = form.text("go") == "continue" && !form.text("own-device").is_empty();
    if form.text("go") == "override" || names_one {
        return match overrides::find(posted.state(), &stored.draft, form.text("own-device")).await? {
            Ok(device) => {
                // The operator leaves this step and comes back: save the values, valid or not.
                drafts::put(posted.state(), posted.caller(), &stored).await?;
                Ok(go(&overrides::address(&id, &device), None))
            }
            Err(message) => {
                let mut page = page(&posted.visit, &stored, Some(form), &Problems::new()).await?;
                page.override_wrong = Some(message);
                posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
            }
        };
    }
    if !problems.is_empty() {
        let page = page(&posted.visit, &stored, Some(form), &problems).await?;
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    if stored.draft.kind == Kind::Reconfigure && stored.draft.values.is_empty() && stored.draft.policy.is_empty() {
        let mut page = page(&posted.visit, &stored, Some(form), &problems).await?;
        let text = "No changes yet; change at least one value or policy.";
        page.wrong.push(("configuration".to_owned(), text.to_owned()));
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    stored.draft.configured = true;
    drafts::put(posted.state(), posted.caller(), &stored).await?;
    Ok(go(&next(&stored, "configuration"), None))
}

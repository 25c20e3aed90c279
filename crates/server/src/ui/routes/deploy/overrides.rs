//! Per-device overrides: the same parameters, prefilled with the common values. Only differing values are stored.

use super::fields::{CurrentValues, FieldGroup, Problems, read, sheets};
use super::{Steps, device_value, elsewhere, read_device, section, steps};
use crate::app::drafts::{self, Draft, OVERRIDES_MAX, StoredDraft};
use crate::app::error::{AppError, Code};
use crate::app::fleet::{self, Search};
use crate::app::paging::Paging;
use crate::app::sorting::Order;
use crate::app::value_format;
use crate::state::ServerState;
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::routes::query::{Params, link};
use crate::ui::visit::{PageResult, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margo::description::ApplicationDescription;
use margo::parameters::ParameterValues;
use margrave_api::devices::DeviceRef;
use std::collections::HashSet;

/// Devices searched when a name is entered and a selector is used.
const NAMED_MAX: u32 = 100;

#[derive(Template)]
#[template(path = "deploy/override.html", blocks = ["live", "nav"])]
struct OverridePage {
    shell: Shell,
    steps: Steps,
    device: DeviceRef,
    value: String,
    sections: Vec<FieldGroup>,
    wrong: Vec<(String, String)>,
    /// The device already has an override.
    has: bool,
}
pages!(OverridePage);

pub(super) fn address(draft: &str, device: &DeviceRef) -> String {
    link(&format!("/deploy/{draft}/override"), &[("device", &device_value(device))])
}

/// The named device, if the draft includes it; the inner error says what is wrong with the name.
pub(super) async fn find(state: &ServerState, draft: &Draft, name: &str) -> Result<Result<DeviceRef, String>, UiError> {
    if name.is_empty() {
        return Ok(Err("Select a device.".to_owned()));
    }
    let named = |device: &DeviceRef| device.device == name || device_value(device) == name;
    let mut found: Vec<DeviceRef> = match &draft.selector {
        None => draft.devices.iter().filter(|device| named(device)).cloned().collect(),
        Some(selector) => {
            let text = Some(name.rsplit('/').next().unwrap_or(name).to_owned());
            let search = Search { labels: Some(selector.clone()), text, ..Search::default() };
            let page =
                fleet::list(state, &search, Order::default(), &Paging { limit: Some(NAMED_MAX), after: None }).await?;
            let devices = page.items.into_iter().map(|listed| listed.device);
            devices.map(|device| DeviceRef { client: device.client, device: device.device }).filter(named).collect()
        }
    };
    let only = match (found.pop(), found.is_empty()) {
        (Some(only), true) => only,
        (Some(_), false) => {
            return Ok(Err(format!("More than one device is named `{name}`: enter it as client/device.")));
        }
        (None, _) => return Ok(Err(format!("`{name}` is not among the selected devices."))),
    };
    // A selector may match devices that are skipped.
    if !fleet::candidate(state, &draft.eligibility_query(), &only).await?.can_take(&draft.eligibility_query()) {
        return Ok(Err(format!("`{name}` is skipped: it is incompatible or already has the application.")));
    }
    Ok(Ok(only))
}

pub(in crate::ui) async fn show(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let stored = drafts::get(&visit.state, visit.caller(), &id).await?;
    let device = chosen(&visit.state, &stored.draft, &params.text("device")).await?;
    // Saved values may be invalid.
    let alone = with_overrides(&stored.draft, &device).values;
    let mut problems = drafts::problems(&visit.state, &stored.draft, &alone).await?;
    let own = stored.draft.overrides.get(&device_value(&device));
    problems.retain(|name, _| own.is_some_and(|own| own.contains_key(name)));
    let page = page(&visit, &stored, &device, None, &problems).await?;
    visit.show(&page)
}

async fn chosen(state: &ServerState, draft: &Draft, value: &str) -> Result<DeviceRef, UiError> {
    let refused = |detail: String| UiError::from(AppError::refused(Code::NotFound, detail));
    let device = read_device(value)
        .ok_or_else(|| refused("no device is selected; select one in the configuration step".to_owned()))?;
    find(state, draft, &device_value(&device)).await?.map_err(refused)
}

/// The draft with the values of this device, so that the same form code can be used.
fn with_overrides(draft: &Draft, device: &DeviceRef) -> Draft {
    let mut alone = draft.clone();
    let own = draft.overrides.get(&device_value(device)).into_iter().flatten();
    alone.values.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    alone
}

/// No deployment exists yet.
fn no_current_values() -> CurrentValues {
    CurrentValues { before: None, stored: HashSet::new() }
}

async fn page(
    visit: &Visit,
    stored: &StoredDraft,
    device: &DeviceRef,
    typed: Option<&Form>,
    problems: &Problems,
) -> Result<OverridePage, UiError> {
    let description = drafts::description(&visit.state, &stored.draft).await?;
    let fields = drafts::sections(&description, stored.draft.profile.as_deref());
    let alone = with_overrides(&stored.draft, device);
    let (mut sections, wrong) = sheets(&fields, &alone, &no_current_values(), typed, problems);
    let own = stored.draft.overrides.get(&device_value(device));
    // Show the common value next to each override.
    let parameter_fields = fields.iter().flat_map(|section| &section.fields);
    for (field, parameter_field) in sections.iter_mut().flat_map(|sheet| &mut sheet.fields).zip(parameter_fields) {
        let differs = own.is_some_and(|own| own.contains_key(&parameter_field.parameter));
        if differs && !parameter_field.schema.sensitive {
            let common = stored
                .draft
                .values
                .get(&parameter_field.parameter)
                .or(parameter_field.default.as_ref())
                .map(value_format::lines);
            let common = common.filter(|text| !text.is_empty()).unwrap_or_else(|| "none".to_owned());
            field.before = Some(format!("Common value: {common}"));
        }
    }
    let steps = steps(&visit.state, stored, "configuration").await?;
    let title = if wrong.is_empty() {
        format!("Override for {}", device.device)
    } else {
        words::count(wrong.len() as u64, "invalid value")
    };
    Ok(OverridePage {
        shell: visit.shell(section(&stored.draft), format!("{title} - {}", steps.title)).await?,
        steps,
        value: device_value(device),
        device: device.clone(),
        sections,
        wrong,
        has: own.is_some(),
    })
}

/// All submitted values, and those that differ from the common ones.
fn read_overrides(
    form: &Form,
    description: &ApplicationDescription,
    draft: &Draft,
    device: &DeviceRef,
) -> (ParameterValues, ParameterValues) {
    let alone = with_overrides(draft, device);
    let mut all = read(form, description, &alone, &no_current_values());
    let sections = drafts::sections(description, draft.profile.as_deref());
    let mut own = ParameterValues::new();
    for parameter_field in sections.iter().flat_map(|section| &section.fields) {
        let name = &parameter_field.parameter;
        let common = draft.values.get(name).or(parameter_field.default.as_ref());
        if !all.contains_key(name) && common.is_some() && !parameter_field.schema.sensitive {
            // Empty here, although a common value exists.
            all.insert(name.clone(), drafts::parse_value(description, parameter_field, &[""]));
        }
        if let Some(value) = all.get(name).filter(|value| Some(*value) != common) {
            own.insert(name.clone(), value.clone());
        }
    }
    (all, own)
}

/// Validates without saving, for a form that is being filled in.
pub(in crate::ui) async fn check(Path(id): Path<String>, posted: Posted) -> PageResult {
    let stored = drafts::get(posted.state(), posted.caller(), &id).await?;
    let device = chosen(posted.state(), &stored.draft, posted.form.text("device")).await?;
    let description = drafts::description(posted.state(), &stored.draft).await?;
    let (all, own) = read_overrides(&posted.form, &description, &stored.draft, &device);
    let mut problems = drafts::problems(posted.state(), &stored.draft, &all).await?;
    // Report problems of overridden values only.
    problems.retain(|name, _| own.contains_key(name));
    let page = page(&posted.visit, &stored, &device, Some(&posted.form), &problems).await?;
    posted.visit.show(&page)
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> PageResult {
    let mut stored = drafts::get(posted.state(), posted.caller(), &id).await?;
    stored.revision = posted.form.number("revision").unwrap_or(stored.revision);
    let device = chosen(posted.state(), &stored.draft, posted.form.text("device")).await?;
    let value = device_value(&device);
    let description = drafts::description(posted.state(), &stored.draft).await?;
    let (all, own) = read_overrides(&posted.form, &description, &stored.draft, &device);
    let mut problems = drafts::problems(posted.state(), &stored.draft, &all).await?;
    problems.retain(|name, _| own.contains_key(name));
    let elsewhere = elsewhere(&stored, posted.form.text("go"));
    if !problems.is_empty() && elsewhere.is_none() {
        let page = page(&posted.visit, &stored, &device, Some(&posted.form), &problems).await?;
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    if own.is_empty() {
        stored.draft.overrides.shift_remove(&value);
    } else if stored.draft.overrides.len() >= OVERRIDES_MAX && !stored.draft.overrides.contains_key(&value) {
        let detail = format!("at most {OVERRIDES_MAX} devices can have overrides; deploy the others separately");
        return Err(AppError::refused(Code::Invalid, detail).into());
    } else {
        stored.draft.overrides.insert(value, own);
    }
    drafts::put(posted.state(), posted.caller(), &stored).await?;
    Ok(go(&elsewhere.unwrap_or_else(|| format!("/deploy/{id}/configuration#own")), None))
}

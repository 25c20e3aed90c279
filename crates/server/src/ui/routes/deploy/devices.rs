//! Step two: where to. Every device says whether it fits; one that does not cannot be chosen (CON-02).

use super::{Steps, device_value, next, read_device, section, steps};
use crate::app::drafts::{self, CHOSEN_MAX, Kept};
use crate::app::error::{AppError, Code};
use crate::app::fleet::{self, Candidate, Search, TAKERS_MAX, Wanted};
use crate::app::paging::{Paging, whole};
use crate::app::{groups, overview};
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::markup::Markup;
use crate::ui::routes::catalog::shelf::{Fit, fit};
use crate::ui::routes::query::{Asked, device_link, link};
use crate::ui::visit::{Answer, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margrave_api::devices::DeviceRef;
use margrave_core::model::DeviceState;

/// Groups offered in the filter.
const GROUPS_MAX: u32 = 500;

#[derive(Template)]
#[template(path = "deploy/devices.html", blocks = ["live", "nav"])]
struct DevicesPage {
    shell: Shell,
    steps: Steps,
    filter: Filter,
    sites: Vec<String>,
    groups: Vec<String>,
    rows: Vec<Row>,
    /// Chosen one by one, on this page and others.
    chosen: u64,
    /// Everything that matches, instead of one by one.
    selector: Option<String>,
    /// Where those that match are listed.
    selected_link: String,
    /// What the filter comes to as a selector, where it does.
    offered: Option<String>,
    matching: u64,
    /// Of those that match, how many can take it; none when too many match to tell here.
    takers: Option<u64>,
    next: Option<String>,
    first: bool,
    wrong: Option<String>,
    fitting_here: usize,
    /// Devices there are, whatever the filter.
    known: u64,
    /// The device this began with, which cannot take it.
    refused: Option<Refused>,
}
pages!(DevicesPage);

/// A device somebody wanted to deploy to, and why that cannot be.
struct Refused {
    device: String,
    link: String,
    reasons: Vec<String>,
    /// It has the application already, in this version and as this deployment.
    has: Option<(String, String)>,
}

#[derive(Default)]
struct Filter {
    text: String,
    labels: String,
    site: String,
    group: String,
    state: String,
}

struct Row {
    value: String,
    device: String,
    site: String,
    state: Markup,
    simulated: bool,
    fit: Fit,
    /// The version it has already.
    has: Option<String>,
    /// It can be chosen.
    open: bool,
    ticked: bool,
}

impl Filter {
    fn of(read: impl Fn(&str) -> String) -> Self {
        Self { text: read("q"), labels: read("labels"), site: read("site"), group: read("group"), state: read("state") }
    }

    fn search(&self) -> Search {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Search {
            text: some(&self.text),
            labels: some(&self.labels),
            site: some(&self.site),
            group: some(&self.group),
            state: DeviceState::parse(&self.state),
        }
    }

    fn link(&self, id: &str, after: &str) -> String {
        let members = [
            ("q", self.text.as_str()),
            ("labels", &self.labels),
            ("site", &self.site),
            ("group", &self.group),
            ("state", &self.state),
            ("after", after),
        ];
        link(&format!("/deploy/{id}/devices"), &members)
    }
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked, Path(id): Path<String>) -> Answer {
    let kept = drafts::get(&visit.state, visit.caller(), &id).await?;
    let mut page = page(&visit, &kept, Filter::of(|name| asked.text(name)), &asked.paging()).await?;
    if let Some(device) = read_device(&asked.text("for")) {
        page.refused = refused(&visit, &kept, &device).await?;
    }
    visit.show(&page)
}

async fn refused(visit: &Visit, kept: &Kept, device: &DeviceRef) -> Result<Option<Refused>, UiError> {
    let candidate = match fleet::candidate(&visit.state, &wanted(&kept.draft), device).await {
        Ok(candidate) => candidate,
        // It may be gone by now.
        Err(AppError::Refused { .. }) => return Ok(None),
        Err(other) => return Err(other.into()),
    };
    if candidate.can_take(&wanted(&kept.draft)) {
        return Ok(None);
    }
    let here = |placed: &&fleet::Placed| placed.application == kept.draft.application && !placed.removing;
    let has = candidate.listed.placed.iter().find(here);
    let has = has.map(|placed| (placed.version.clone(), format!("/deployments/{}", placed.id)));
    Ok(Some(Refused {
        device: device.device.clone(),
        link: device_link(&device.client, &device.device),
        has,
        reasons: row(kept, candidate).fit.reasons,
    }))
}

async fn page(visit: &Visit, kept: &Kept, filter: Filter, paging: &Paging) -> Result<DevicesPage, UiError> {
    let (state, draft) = (&visit.state, &kept.draft);
    // Once all of them are chosen, those are what is counted.
    let search = match &draft.selector {
        Some(selector) => Search { labels: Some(selector.clone()), ..Search::default() },
        None => filter.search(),
    };
    let wanted = wanted(draft);
    let found = fleet::candidates(state, &wanted, &search, paging).await;
    let (found, wrong) = match found {
        Ok(page) => (page, None),
        Err(AppError::Refused { detail, .. }) => (whole(Vec::new()), Some(detail)),
        Err(other) => return Err(other.into()),
    };
    let matching =
        if wrong.is_none() { fleet::counted(state, &search).await? } else { std::collections::BTreeMap::new() };
    let matching =
        search.state.map_or_else(|| matching.values().sum(), |one| matching.get(&one).copied().unwrap_or_default());
    // A piece of a name or a state is nothing a group of devices can have in common for long.
    let by_labels = search.text.is_none() && search.state.is_none() && wrong.is_none();
    let offered = if by_labels { Some(search.selector(state).await?.to_string()) } else { None };
    let takers = match &offered {
        Some(_) if matching <= TAKERS_MAX => fleet::takers(state, &wanted, &search).await?,
        _ => None,
    };
    let rows: Vec<Row> = found.items.into_iter().map(|candidate| row(kept, candidate)).collect();
    let names = groups::list(state, &Paging { limit: Some(GROUPS_MAX), after: None }).await?;
    let steps = steps(state, kept, "devices").await?;
    Ok(DevicesPage {
        shell: visit.shell(section(&kept.draft), format!("Devices - {}", steps.title)).await?,
        sites: fleet::sites(state).await?,
        groups: names.items.into_iter().map(|group| group.name).collect(),
        fitting_here: rows.iter().filter(|row| row.open).count(),
        rows,
        known: overview::get(state).await?.devices.values().sum(),
        chosen: draft.devices.len() as u64,
        selected_link: link("/devices", &[("labels", draft.selector.as_deref().unwrap_or_default())]),
        selector: draft.selector.clone(),
        offered,
        matching,
        takers,
        next: found.next,
        first: paging.after.is_none(),
        wrong,
        filter,
        steps,
        refused: None,
    })
}

pub(super) fn wanted(draft: &drafts::Draft) -> Wanted<'_> {
    Wanted { application: &draft.application, version: &draft.version, profile: draft.profile.as_deref() }
}

fn row(kept: &Kept, candidate: Candidate) -> Row {
    let open = candidate.can_take(&wanted(&kept.draft));
    let Candidate { listed, fit: judged } = candidate;
    let device = &listed.device;
    let has = listed.placed.iter().find(|placed| placed.application == kept.draft.application && !placed.removing);
    let mut fit = fit(&judged);
    if listed.state == DeviceState::ShutOut {
        fit.reasons.push("Its client is not accepted and gets nothing; accept it first.".to_owned());
    }
    let reference = DeviceRef { client: device.client.clone(), device: device.device.clone() };
    let label = device.operator_labels.get("site").cloned();
    let site = label.or_else(|| device.device_labels.get("site").map(crate::ui::routes::devices::plain));
    Row {
        value: device_value(&reference),
        site: site.unwrap_or_default(),
        state: words::device_state(listed.state),
        has: has.map(|placed| placed.version.clone()),
        simulated: device.simulated,
        ticked: kept.draft.devices.contains(&reference),
        fit,
        open,
        device: device.device.clone(),
    }
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> Answer {
    let mut kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    kept.revision = posted.form.number("revision").unwrap_or(kept.revision);
    let form = &posted.form;
    take(&mut kept, form);
    let filter = Filter::of(|name| form.text(name).to_owned());
    match form.text("go") {
        "all" => kept.draft.selector = Some(filter.search().selector(posted.state()).await?.to_string()),
        "named" => kept.draft.selector = None,
        _ => {}
    }
    if kept.draft.devices.len() > CHOSEN_MAX {
        let detail = format!(
            "choose at most {} one by one; for more, choose all that match a filter",
            words::thousands(CHOSEN_MAX as u64)
        );
        return Err(AppError::refused(Code::Invalid, detail).into());
    }
    kept.revision = drafts::put(posted.state(), posted.caller(), &kept).await?;
    if form.text("go") != "continue" {
        let after = if form.text("go") == "next" { form.text("after") } else { "" };
        return Ok(go(&filter.link(&id, after), None));
    }
    if kept.draft.devices.is_empty() && kept.draft.selector.is_none() {
        let mut page =
            page(&posted.visit, &kept, filter, &Paging { limit: Some(crate::ui::routes::query::ROWS), after: None })
                .await?;
        page.wrong = Some("No device is chosen yet. Tick at least one that fits.".to_owned());
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    Ok(go(&next(&kept, "devices"), None))
}

/// What was ticked on this page; what other pages had stays.
fn take(kept: &mut Kept, form: &Form) {
    let shown: Vec<DeviceRef> = form.all("shown").filter_map(read_device).collect();
    kept.draft.devices.retain(|device| !shown.contains(device));
    for device in form.all("device").filter_map(read_device) {
        if !kept.draft.devices.contains(&device) {
            kept.draft.devices.push(device);
        }
    }
    let chosen: Vec<String> = kept.draft.devices.iter().map(device_value).collect();
    if kept.draft.selector.is_none() {
        kept.draft.overrides.retain(|device, _| chosen.contains(device));
    }
}

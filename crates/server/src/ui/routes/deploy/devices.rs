//! Step two: where to. Every device says whether it fits; one that does not cannot be chosen (CON-02).

use super::begin::moving;
use super::{Steps, device_value, elsewhere, next, read_device, section, steps};
use crate::app::drafts::{self, CHOSEN_MAX, Draft, Kept, Kind};
use crate::app::error::{AppError, Code};
use crate::app::fleet::{self, Candidate, Search, TAKERS_MAX};
use crate::app::paging::{Paging, whole};
use crate::app::{overview, shown};
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::markup::Markup;
use crate::ui::routes::catalog::shelf::{Fit, fit};
use crate::ui::routes::devices::filter::{Filter, Offers};
use crate::ui::routes::query::{Asked, ROWS, device_link, link};
use crate::ui::visit::{Answer, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margrave_api::applications::FitOutcome;
use margrave_api::devices::DeviceRef;
use margrave_core::model::DeviceState;
use std::collections::HashSet;

#[derive(Template)]
#[template(path = "deploy/devices.html", blocks = ["live", "nav"])]
#[expect(clippy::struct_excessive_bools, reason = "independent facts a template asks for")]
struct DevicesPage {
    shell: Shell,
    steps: Steps,
    filter: Filter,
    /// Only those that can take it are listed.
    fits: bool,
    offers: Offers,
    rows: Vec<Row>,
    /// Chosen one by one, on this page and others.
    chosen: u64,
    /// Of those, the ones that are not on this page.
    elsewhere: u64,
    /// Everything that matches, instead of one by one.
    selector: Option<String>,
    /// Where those that match are listed.
    selected_link: String,
    /// Who comes into question, of a change of what exists.
    who: Option<String>,
    /// Whether a device fits matters.
    judged: bool,
    /// The filter holds as long as devices have what it asks for; a piece of a name or a state is looked up once.
    lasting: bool,
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

struct Row {
    value: String,
    device: String,
    site: String,
    state: Markup,
    simulated: bool,
    fit: Fit,
    /// The version it has already.
    has: Option<String>,
    /// What it has can be brought to the version that is deployed.
    moves: Option<String>,
    /// It can be chosen.
    open: bool,
    ticked: bool,
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked, Path(id): Path<String>) -> Answer {
    let kept = drafts::get(&visit.state, visit.caller(), &id).await?;
    let (filter, fits) = (Filter::of(|name| asked.text(name)), asked.get("fits").is_some());
    let mut page = page(&visit, &kept, filter, fits, &asked.paging()).await?;
    if let Some(device) = read_device(&asked.text("for")) {
        page.refused = refused(&visit, &kept, &device).await?;
    }
    visit.show(&page)
}

async fn refused(visit: &Visit, kept: &Kept, device: &DeviceRef) -> Result<Option<Refused>, UiError> {
    let candidate = match fleet::candidate(&visit.state, &kept.draft.wanted(), device).await {
        Ok(candidate) => candidate,
        // It may be gone by now.
        Err(AppError::Refused { .. }) => return Ok(None),
        Err(other) => return Err(other.into()),
    };
    if candidate.can_take(&kept.draft.wanted()) {
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

async fn page(visit: &Visit, kept: &Kept, filter: Filter, fits: bool, paging: &Paging) -> Result<DevicesPage, UiError> {
    let (state, draft) = (&visit.state, &kept.draft);
    // Once all of them are chosen, those are what is counted.
    let search = match &draft.selector {
        Some(selector) => Search { labels: Some(selector.clone()), ..Search::default() },
        None => filter.search(),
    };
    let wanted = draft.wanted();
    let found = if fits {
        fleet::takers_page(state, &wanted, &search, paging).await
    } else {
        fleet::candidates(state, &wanted, &search, paging).await
    };
    let (found, wrong) = match found {
        Ok(page) => (page, None),
        Err(AppError::Refused { detail, .. }) => (whole(Vec::new()), Some(detail)),
        Err(other) => return Err(other.into()),
    };
    let matching = if wrong.is_some() {
        0
    } else if draft.is_wide() && search.is_everything() {
        drafts::meant(state, draft).await?
    } else {
        let counted = fleet::counted_for(state, &wanted, &search).await?;
        search.state.map_or_else(|| counted.values().sum(), |one| counted.get(&one).copied().unwrap_or_default())
    };
    let takers = match wrong {
        None if matching <= TAKERS_MAX => fleet::takers(state, &wanted, &search).await?,
        _ => None,
    };
    let rows: Vec<Row> = found.items.into_iter().map(|candidate| row(kept, candidate)).collect();
    let chosen = if draft.is_wide() { draft.deployments.len() } else { draft.devices.len() };
    let here: usize = rows.iter().filter(|row| row.ticked).map(|row| values(&row.value).count()).sum();
    let elsewhere = chosen.saturating_sub(here) as u64;
    let steps = steps(state, kept, "devices").await?;
    Ok(DevicesPage {
        shell: visit.shell(section(&kept.draft), format!("Devices - {}", steps.title)).await?,
        offers: Offers::read(state, false).await?,
        fitting_here: rows.iter().filter(|row| row.open).count(),
        rows,
        known: overview::get(state).await?.devices.values().sum(),
        chosen: chosen as u64,
        who: who(draft),
        judged: matches!(draft.kind, Kind::Create | Kind::Upgrade),
        lasting: is_lasting(&search),
        elsewhere,
        selected_link: link("/devices", &[("labels", draft.selector.as_deref().unwrap_or_default())]),
        selector: draft.selector.clone(),
        matching,
        takers,
        next: found.next,
        first: paging.after.is_none(),
        wrong,
        filter,
        fits,
        steps,
        refused: None,
    })
}

/// What the devices have that come into question, for a change of what exists.
fn who(draft: &Draft) -> Option<String> {
    match draft.kind {
        Kind::Create => None,
        Kind::Upgrade => Some(format!("runs it in another version than {}", draft.version)),
        Kind::Reconfigure => Some(format!("runs {}", draft.version)),
        Kind::Remove => Some("runs it".to_owned()),
    }
}

/// A piece of a name or a state is nothing a group of devices can have in common for long.
fn is_lasting(search: &Search) -> bool {
    search.text.is_none() && search.state.is_none()
}

/// What a box stands for: one device, or of what exists its deployments.
fn values(value: &str) -> impl Iterator<Item = &str> {
    value.split(',')
}

fn row(kept: &Kept, candidate: Candidate) -> Row {
    let (draft, wanted) = (&kept.draft, kept.draft.wanted());
    let open = candidate.can_take(&wanted);
    let meant: Vec<String> = candidate.meant(&wanted).map(|placed| placed.id.clone()).collect();
    let Candidate { listed, fit: judged } = candidate;
    let device = &listed.device;
    let has = listed.placed.iter().find(|placed| placed.application == draft.application && !placed.removing);
    let fits = judged.outcome == FitOutcome::Fits && listed.state != DeviceState::ShutOut;
    let mut fit = fit(&judged);
    if !matches!(draft.kind, Kind::Create | Kind::Upgrade) {
        fit.reasons.clear();
    }
    if listed.state == DeviceState::ShutOut {
        fit.reasons.push("Its client is not accepted and gets nothing; accept it first.".to_owned());
    }
    let reference = DeviceRef { client: device.client.clone(), device: device.device.clone() };
    let label = device.operator_labels.get("site").cloned();
    let site = label.or_else(|| device.device_labels.get("site").map(shown::plain));
    let moves = has.filter(|placed| draft.kind == Kind::Create && fits && placed.version != draft.version);
    Row {
        moves: moves.map(|placed| placed.id.clone()),
        ticked: if draft.is_wide() {
            !meant.is_empty() && meant.iter().all(|id| draft.deployments.contains(id))
        } else {
            draft.devices.contains(&reference)
        },
        value: if draft.is_wide() { meant.join(",") } else { device_value(&reference) },
        site: site.unwrap_or_default(),
        state: words::device_state(listed.state),
        has: has.map(|placed| placed.version.clone()),
        simulated: device.simulated,
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
        "all" if is_lasting(&filter.search()) => {
            kept.draft.selector = Some(filter.search().selector(posted.state()).await?.to_string());
        }
        "all" => {
            let found = fleet::named(posted.state(), &kept.draft.wanted(), &filter.search(), CHOSEN_MAX).await?;
            add(&mut kept.draft, found);
        }
        "named" => kept.draft.selector = None,
        _ => {}
    }
    if kept.draft.devices.len().max(kept.draft.deployments.len()) > CHOSEN_MAX {
        let detail = format!(
            "choose at most {} one by one; for more, choose all that match a filter",
            words::thousands(CHOSEN_MAX as u64)
        );
        return Err(AppError::refused(Code::Invalid, detail).into());
    }
    kept.revision = drafts::put(posted.state(), posted.caller(), &kept).await?;
    if let Some(place) = elsewhere(&kept, form.text("go")) {
        return Ok(go(&place, None));
    }
    if let Some(deployment) = form.text("go").strip_prefix("move:") {
        return Ok(go(&moving(&posted, deployment, &kept.draft).await?, None));
    }
    if form.text("go") != "continue" {
        let after = if form.text("go") == "next" { form.text("after") } else { "" };
        let mut place = filter.link(&format!("/deploy/{id}/devices"), after);
        if form.has("fits") {
            place.push_str(if place.contains('?') { "&fits=yes" } else { "?fits=yes" });
        }
        return Ok(go(&place, None));
    }
    let chosen = !kept.draft.devices.is_empty() || !kept.draft.deployments.is_empty();
    if !chosen && kept.draft.selector.is_none() {
        let paging = Paging { limit: Some(ROWS), after: None };
        let mut page = page(&posted.visit, &kept, filter, form.has("fits"), &paging).await?;
        page.wrong = Some(
            if kept.draft.is_wide() {
                "No device is chosen yet. Tick at least one."
            } else {
                "No device is chosen yet. Tick at least one that fits."
            }
            .to_owned(),
        );
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    Ok(go(&next(&kept, "devices"), None))
}

/// Those that were found are chosen as well, each once.
fn add(draft: &mut Draft, found: Vec<fleet::Named>) {
    let (devices, deployments): (Vec<DeviceRef>, Vec<Vec<String>>) = found.into_iter().unzip();
    if draft.is_wide() {
        let known: HashSet<String> = draft.deployments.iter().cloned().collect();
        draft.deployments.extend(deployments.into_iter().flatten().filter(|id| !known.contains(id)));
    } else {
        let known: HashSet<String> = draft.devices.iter().map(device_value).collect();
        draft.devices.extend(devices.into_iter().filter(|device| !known.contains(&device_value(device))));
    }
}

/// What was ticked on this page; what other pages had stays.
fn take(kept: &mut Kept, form: &Form) {
    if kept.draft.is_wide() {
        let shown: HashSet<&str> = form.all("shown").flat_map(values).collect();
        kept.draft.deployments.retain(|id| !shown.contains(id.as_str()));
        let ticked = form.all("device").flat_map(values).filter(|id| shown.contains(id));
        kept.draft.deployments.extend(ticked.map(str::to_owned));
        return;
    }
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

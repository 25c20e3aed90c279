//! Step two: the devices. Each row shows the compatibility; incompatible devices cannot be selected (CON-02).

use super::begin::moving;
use super::{Steps, device_value, elsewhere, next, read_device, section, steps};
use crate::app::drafts::{self, Draft, Kind, SELECTED_MAX, StoredDraft};
use crate::app::error::{AppError, Code};
use crate::app::fleet::{self, Candidate, ELIGIBLE_MAX, Search};
use crate::app::paging::{Listing, Paging};
use crate::app::sorting::Order;
use crate::app::{overview, value_format, versions};
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::markup::Markup;
use crate::ui::routes::catalog::catalog_view::{CompatibilityCheck, ShownReason, badge};
use crate::ui::routes::devices::filter::{Filter, Offers};
use crate::ui::routes::heads::Heads;
use crate::ui::routes::query::{Params, ROWS, device_link, link};
use crate::ui::visit::{PageResult, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margrave_api::applications::Compatibility;
use margrave_api::devices::DeviceRef;
use margrave_api::devices::DeviceState;
use std::collections::HashSet;

#[derive(Template)]
#[template(path = "deploy/devices.html", blocks = ["live", "nav"])]
#[expect(clippy::struct_excessive_bools, reason = "independent facts a template asks for")]
struct DevicesPage {
    shell: Shell,
    steps: Steps,
    filter: Filter,
    heads: Heads,
    /// The devices are still being sorted.
    in_progress: bool,
    /// Lists eligible devices only.
    compatible: bool,
    offers: Offers,
    rows: Vec<Row>,
    /// Individually selected devices, on this page and others.
    chosen: u64,
    /// Selected devices that are not on this page.
    elsewhere: u64,
    /// Selects all matching devices instead of individual ones.
    selector: Option<String>,
    /// URL that lists the matching devices.
    selected_link: String,
    /// Which devices are candidates, for changes to existing deployments.
    who: Option<String>,
    /// Compatibility matters for this kind of rollout.
    evaluated: bool,
    /// The filter can be stored as a selector; a name fragment or a state is evaluated once.
    lasting: bool,
    matching: u64,
    /// Eligible devices among the matching ones; none if too many match to count them here.
    eligible_count: Option<u64>,
    next: Option<String>,
    first: bool,
    /// Why the filter cannot be used.
    wrong: Option<String>,
    /// The form was sent without a selection.
    nothing_selected: bool,
    fitting_here: usize,
    /// All devices, regardless of the filter.
    all_devices: u64,
    /// The device the draft started with, if it is not eligible.
    refused: Option<Refused>,
}
pages!(DevicesPage);

/// A device that was requested but cannot be selected, and why.
struct Refused {
    device: String,
    link: String,
    reasons: Vec<ShownReason>,
    /// The device already has the application: version and link to the deployment.
    has: Option<(String, String)>,
}

struct Row {
    value: String,
    device: String,
    site: String,
    state: Markup,
    simulated: bool,
    compatibility: CompatibilityCheck,
    /// The version it already has.
    has: Option<String>,
    /// Its deployment, if that can be moved to the selected version.
    moves: Option<String>,
    /// Whether that move is an upgrade or a downgrade.
    verb: &'static str,
    /// It can be selected.
    open: bool,
    ticked: bool,
}

pub(in crate::ui) async fn show(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let stored = drafts::get(&visit.state, visit.caller(), &id).await?;
    let (filter, compatible) = (Filter::of(|name| params.text(name)), params.get("compatible").is_some());
    let mut page = page(&visit, &stored, (filter, compatible), &params.text("sort"), &params.paging()).await?;
    if let Some(device) = read_device(&params.text("for")) {
        page.refused = refused(&visit, &stored, &device).await?;
    }
    visit.show(&page)
}

async fn refused(visit: &Visit, stored: &StoredDraft, device: &DeviceRef) -> Result<Option<Refused>, UiError> {
    let candidate = match fleet::candidate(&visit.state, &stored.draft.eligibility_query(), device).await {
        Ok(candidate) => candidate,
        // The device may have been deleted.
        Err(AppError::Refused { .. }) => return Ok(None),
        Err(other) => return Err(other.into()),
    };
    if candidate.can_take(&stored.draft.eligibility_query()) {
        return Ok(None);
    }
    let here = |placed: &&fleet::PlacedDeployment| placed.application == stored.draft.application && !placed.removing;
    let has = candidate.listed.placed.iter().find(here);
    let has = has.map(|placed| (placed.version.clone(), format!("/deployments/{}", placed.id)));
    Ok(Some(Refused {
        device: device.device.clone(),
        link: device_link(&device.client, &device.device),
        has,
        reasons: row(stored, candidate).compatibility.reasons,
    }))
}

async fn page(
    visit: &Visit,
    stored: &StoredDraft,
    (filter, compatible): (Filter, bool),
    sort: &str,
    paging: &Paging,
) -> Result<DevicesPage, UiError> {
    let (state, draft) = (&visit.state, &stored.draft);
    // With a stored selector, count the devices it selects.
    let search = match &draft.selector {
        Some(selector) => Search { labels: Some(selector.clone()), ..Search::default() },
        None => filter.search(),
    };
    let eligibility_query = draft.eligibility_query();
    let order = Order::of_page(sort);
    let found = if compatible {
        fleet::eligible_page(state, &eligibility_query, &search, order, paging).await
    } else {
        fleet::candidates(state, &eligibility_query, &search, order, paging).await
    };
    let (found, wrong) = match found {
        Ok(page) => (page, None),
        Err(AppError::Refused { detail, .. }) => (Listing::default(), Some(detail)),
        Err(other) => return Err(other.into()),
    };
    let matching = if wrong.is_some() {
        0
    } else if draft.is_by_device() && search.is_everything() {
        drafts::matching_count(state, draft).await?
    } else {
        let counted = fleet::counted_for(state, &eligibility_query, &search).await?;
        search.state.map_or_else(|| counted.values().sum(), |one| counted.get(&one).copied().unwrap_or_default())
    };
    let eligible_count = match wrong {
        None if matching <= ELIGIBLE_MAX => fleet::eligible_count(state, &eligibility_query, &search).await?,
        _ => None,
    };
    let rows: Vec<Row> = found.items.into_iter().map(|candidate| row(stored, candidate)).collect();
    let chosen = if draft.is_by_device() { draft.deployments.len() } else { draft.devices.len() };
    let here: usize = rows.iter().filter(|row| row.ticked).map(|row| values(&row.value).count()).sum();
    let elsewhere = chosen.saturating_sub(here) as u64;
    let steps = steps(state, stored, "devices").await?;
    Ok(DevicesPage {
        shell: visit.shell(section(&stored.draft), format!("Devices - {}", steps.title)).await?,
        offers: Offers::read(state, false).await?,
        fitting_here: rows.iter().filter(|row| row.open).count(),
        rows,
        all_devices: overview::get(state).await?.devices.values().sum(),
        chosen: chosen as u64,
        who: who(draft),
        evaluated: matches!(draft.kind, Kind::Create | Kind::Upgrade),
        lasting: is_lasting(&search),
        elsewhere,
        selected_link: link("/devices", &[("labels", draft.selector.as_deref().unwrap_or_default())]),
        selector: draft.selector.clone(),
        matching,
        eligible_count,
        heads: Heads::in_form(&order.sort.map(|sort| sort.to_string()).unwrap_or_default()),
        in_progress: found.in_progress,
        next: found.next,
        first: paging.after.is_none(),
        wrong,
        nothing_selected: false,
        filter,
        compatible,
        steps,
        refused: None,
    })
}

/// What the candidates have in common, for changes to existing deployments.
fn who(draft: &Draft) -> Option<String> {
    match draft.kind {
        Kind::Create => None,
        Kind::Upgrade => Some(format!("run a version other than {}", draft.version)),
        Kind::Reconfigure => Some(format!("run {}", draft.version)),
        Kind::Remove => Some("run it".to_owned()),
    }
}

/// A name fragment or a state cannot be stored as a selector.
fn is_lasting(search: &Search) -> bool {
    search.text.is_none() && search.state.is_none()
}

/// What a checkbox stands for: one device, or its existing deployments.
fn values(value: &str) -> impl Iterator<Item = &str> {
    value.split(',')
}

fn row(stored: &StoredDraft, candidate: Candidate) -> Row {
    let (draft, eligibility_query) = (&stored.draft, stored.draft.eligibility_query());
    let open = candidate.can_take(&eligibility_query);
    let matching_deployments: Vec<String> =
        candidate.matching_deployments(&eligibility_query).map(|placed| placed.id.clone()).collect();
    let Candidate { listed, compatibility: evaluated } = candidate;
    let device = &listed.device;
    let has = listed.placed.iter().find(|placed| placed.application == draft.application && !placed.removing);
    let compatible = evaluated.outcome == Compatibility::Compatible && listed.device.state != DeviceState::Blocked;
    let mut compatibility = badge(&evaluated);
    if !matches!(draft.kind, Kind::Create | Kind::Upgrade) {
        compatibility.reasons.clear();
    }
    if listed.device.state == DeviceState::Blocked {
        compatibility.reasons.push(ShownReason::new("not-accepted", "Its client is not accepted; approve it first."));
    }
    let reference = DeviceRef { client: device.client.clone(), device: device.device.clone() };
    let label = device.operator_labels.get("site").cloned();
    let site = label.or_else(|| device.device_labels.get("site").map(value_format::plain));
    let moves = has.filter(|placed| draft.kind == Kind::Create && compatible && placed.version != draft.version);
    let downgrade = moves.is_some_and(|placed| versions::is_older(&draft.version, &placed.version));
    Row {
        moves: moves.map(|placed| placed.id.clone()),
        verb: if downgrade { "Downgrade" } else { "Upgrade" },
        ticked: if draft.is_by_device() {
            !matching_deployments.is_empty() && matching_deployments.iter().all(|id| draft.deployments.contains(id))
        } else {
            draft.devices.contains(&reference)
        },
        value: if draft.is_by_device() { matching_deployments.join(",") } else { device_value(&reference) },
        site: site.unwrap_or_default(),
        state: words::device_state(listed.device.state),
        has: has.map(|placed| placed.version.clone()),
        simulated: device.simulated,
        compatibility,
        open,
        device: device.device.clone(),
    }
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> PageResult {
    let mut stored = drafts::get(posted.state(), posted.caller(), &id).await?;
    stored.revision = posted.form.number("revision").unwrap_or(stored.revision);
    let form = &posted.form;
    take(&mut stored, form);
    let filter = Filter::of(|name| form.text(name).to_owned());
    match form.text("go") {
        "all" if is_lasting(&filter.search()) => {
            stored.draft.selector = Some(filter.search().selector(posted.state()).await?.to_string());
        }
        "all" => {
            let found =
                fleet::named(posted.state(), &stored.draft.eligibility_query(), &filter.search(), SELECTED_MAX).await?;
            add(&mut stored.draft, found);
        }
        "named" => stored.draft.selector = None,
        _ => {}
    }
    if stored.draft.devices.len().max(stored.draft.deployments.len()) > SELECTED_MAX {
        let detail = format!(
            "select at most {} devices individually; to select more, select all that match a filter",
            words::thousands(SELECTED_MAX as u64)
        );
        return Err(AppError::refused(Code::Invalid, detail).into());
    }
    stored.revision = drafts::put(posted.state(), posted.caller(), &stored).await?;
    if let Some(place) = elsewhere(&stored, form.text("go")) {
        return Ok(go(&place, None));
    }
    if let Some(deployment) = form.text("go").strip_prefix("move:") {
        return Ok(go(&moving(&posted, deployment, &stored.draft).await?, None));
    }
    if form.text("go") != "continue" {
        let after = if form.text("go") == "next" { form.text("after") } else { "" };
        let sort = form.text("go").strip_prefix("sort:").unwrap_or_else(|| form.text("sort"));
        let mut place = filter.link(&format!("/deploy/{id}/devices"), sort, after);
        if form.has("compatible") {
            place.push_str(if place.contains('?') { "&compatible=yes" } else { "?compatible=yes" });
        }
        return Ok(go(&place, None));
    }
    let chosen = !stored.draft.devices.is_empty() || !stored.draft.deployments.is_empty();
    if !chosen && stored.draft.selector.is_none() {
        let paging = Paging { limit: Some(ROWS), after: None };
        let mut page =
            page(&posted.visit, &stored, (filter, form.has("compatible")), form.text("sort"), &paging).await?;
        page.nothing_selected = true;
        return posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page);
    }
    Ok(go(&next(&stored, "devices"), None))
}

/// Adds the found devices to the selection, without duplicates.
fn add(draft: &mut Draft, found: Vec<fleet::NamedDevice>) {
    let (devices, deployments): (Vec<DeviceRef>, Vec<Vec<String>>) = found.into_iter().unzip();
    if draft.is_by_device() {
        let known: HashSet<String> = draft.deployments.iter().cloned().collect();
        draft.deployments.extend(deployments.into_iter().flatten().filter(|id| !known.contains(id)));
    } else {
        let known: HashSet<String> = draft.devices.iter().map(device_value).collect();
        draft.devices.extend(devices.into_iter().filter(|device| !known.contains(&device_value(device))));
    }
}

/// Replaces the selection of this page and keeps that of other pages.
fn take(stored: &mut StoredDraft, form: &Form) {
    if stored.draft.is_by_device() {
        let shown: HashSet<&str> = form.all("shown").flat_map(values).collect();
        stored.draft.deployments.retain(|id| !shown.contains(id.as_str()));
        let ticked = form.all("device").flat_map(values).filter(|id| shown.contains(id));
        stored.draft.deployments.extend(ticked.map(str::to_owned));
        return;
    }
    let shown: Vec<DeviceRef> = form.all("shown").filter_map(read_device).collect();
    stored.draft.devices.retain(|device| !shown.contains(device));
    for device in form.all("device").filter_map(read_device) {
        if !stored.draft.devices.contains(&device) {
            stored.draft.devices.push(device);
        }
    }
    let chosen: Vec<String> = stored.draft.devices.iter().map(device_value).collect();
    if stored.draft.selector.is_none() {
        stored.draft.overrides.retain(|device, _| chosen.contains(device));
    }
}

//! Rollouts: one operator decision for many devices, with live progress.

mod asks;

use super::deployments::list::{BY_DEVICE_MAX, Row, are_simulated, row};
use super::overview::{ShownRollout, rollout_title, shown_rollout};
use super::tiles::Tile;
use crate::app::deployments::{self, Query};
use crate::app::drafts;
use crate::app::error::{AppError, Code};
use crate::app::idempotency;
use crate::app::paging::Paging;
use crate::app::rollouts::{self, NEWEST_FIRST, RolloutFilter};
use crate::app::sorting::Order;
use crate::app::{overview, value_format};
use crate::ui::confirm::confirm;
use crate::ui::form::Posted;
use crate::ui::routes::heads::Heads;
use crate::ui::routes::query::{Params, device_link, link};
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use margrave_api::deployments::DeploymentState;
use margrave_api::rollouts::{Rollout, RolloutKind};
use margrave_core::sort::Sort;

/// Rollouts on one page; the deployments of each are counted separately.
const ROLLOUTS_MAX: u32 = 25;

#[derive(Template)]
#[template(path = "rollouts.html", blocks = ["live", "nav"])]
struct ListPage {
    shell: Shell,
    heads: Heads,
    /// The operator chose the order.
    sorted: bool,
    rollouts: Vec<ShownRollout>,
    application: String,
    applications: Vec<(String, String)>,
    /// In progress, completed, or both.
    state: String,
    next: Option<String>,
}
pages!(ListPage);

#[derive(Template)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts a template asks for")]
#[template(path = "rollout.html", blocks = ["live", "nav"])]
struct RolloutPage {
    shell: Shell,
    shown: ShownRollout,
    tiles: Vec<Tile>,
    heads: Heads,
    /// The deployments are still being sorted.
    sorting: bool,
    rows: Vec<Row>,
    /// All deployments on this page are simulated, so that is said once.
    simulated: bool,
    state: String,
    next: Option<String>,
    first: Option<String>,
    /// The progress in one sentence.
    sentence: String,
    in_progress: bool,
    /// Devices are still pending or updating.
    goes_on: bool,
    left: u64,
    /// Offline devices that have not been updated yet.
    offline: u64,
    /// It can be withdrawn on them.
    can_withdraw: bool,
    /// Failed deployments that can be retried together.
    failed: u64,
    /// Its deployments that can be changed or removed together.
    these: u64,
    /// Configuration of the rollout, by parameter name.
    values: Vec<(String, String)>,
    /// The named ones, each with a link to the device.
    skipped: Vec<(String, rollouts::Skipped)>,
    skipped_more: usize,
}
pages!(RolloutPage);

pub(in crate::ui) async fn list(visit: Visit, params: Params) -> PageResult {
    let overview = overview::get(&visit.state).await?;
    let paging = Paging { limit: Some(ROLLOUTS_MAX), after: params.get("after") };
    let (application, state) = (params.text("application"), params.text("state"));
    let over = match state.as_str() {
        "in-progress" => Some(false),
        "completed" => Some(true),
        _ => None,
    };
    let requested = RolloutFilter { application: params.get("application"), over };
    let named = Sort::parse(&params.text("sort"));
    let sort = named.unwrap_or(NEWEST_FIRST);
    let page = rollouts::list_filtered_rollouts(&visit.state, &requested, sort, &paging).await?;
    let order = named.map(|sort| sort.to_string()).unwrap_or_default();
    let filter = [("application", application.as_str()), ("state", &state)];
    let at = |after: &str| link("/rollouts", &[filter[0], filter[1], ("sort", &order), ("after", after)]);
    let listing = ListPage {
        shell: visit.shell(Section::Deployments, "Rollouts").await?,
        rollouts: page.items.into_iter().map(|with_device| shown_rollout(&overview, with_device)).collect(),
        heads: Heads::new("/rollouts", &filter, &sort.to_string()),
        sorted: named.is_some(),
        next: page.next.map(|next| at(&next)),
        applications: overview.applications(),
        application: application.clone(),
        state: state.clone(),
    };
    visit.show(&listing)
}

pub(in crate::ui) async fn show(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let state = &visit.state;
    let overview = overview::get(state).await?;
    let with_device = rollouts::with_device(state, &id).await?;
    let name = overview.names.get(&with_device.rollout.application).unwrap_or(&with_device.rollout.application).clone();
    let title = rollout_title(&name, &with_device);
    let rollout = with_device.rollout.clone();
    match params.get("ask").as_deref() {
        Some("cancel") => return confirm(&visit, Section::Deployments, asks::cancelling(&name, &rollout)).await,
        Some("again") => return confirm(&visit, Section::Deployments, asks::retrying_failed(&name, &rollout)).await,
        Some("withdraw") => {
            return confirm(&visit, Section::Deployments, asks::withdrawing_offline(&name, &rollout)).await;
        }
        _ => {}
    }
    let word = params.text("state");
    let deployment_state = DeploymentState::ALL.into_iter().find(|known| known.as_str() == word);
    let query = Query { rollout: Some(id.clone()), state: deployment_state, with_absent: true, ..Query::default() };
    let removing = rollout.kind == RolloutKind::Remove;
    let counts = rollout.deployments.clone().unwrap_or_default();
    let chosen_order = Order::of_page(&params.text("sort"));
    let by_device = counts.total() <= BY_DEVICE_MAX;
    let order = if chosen_order.sort.is_none() && by_device { Order::of_page("device") } else { chosen_order };
    let sort = order.sort.map(|sort| sort.to_string()).unwrap_or_default();
    let page = deployments::list_in_order(state, &query, None, order, &params.paging()).await?;
    let path = format!("/rollouts/{id}");
    let at = |state: &str, after: &str| {
        // The position after a page belongs to its order.
        let order = if after.is_empty() && chosen_order.sort.is_none() { "" } else { sort.as_str() };
        link(&path, &[("state", state), ("sort", order), ("after", after)])
    };
    let tiles = DeploymentState::ALL
        .into_iter()
        .map(|one| {
            let chosen = deployment_state == Some(one);
            let link = at(if chosen { "" } else { one.as_str() }, "");
            Tile::new(counts.of(one), words::deployment_state_badge(one), link, chosen)
        })
        .filter(Tile::is_shown)
        .collect();
    let failed = counts.of(DeploymentState::Failed);
    let left = rollout.total.saturating_sub(rollout.published);
    let sentence = sentence(&rollout);
    let head = match (failed, rollout.state != margrave_api::rollouts::RolloutState::InProgress) {
        (0, true) => format!("Completed - {title}"),
        (0, false) => format!("In progress - {title}"),
        (failed, _) => format!("{} failed - {title}", words::thousands(failed)),
    };
    let simulated = are_simulated(&page.items);
    let mut rows: Vec<Row> = page.items.into_iter().map(|deployment| row(deployment, &overview.names)).collect();
    if chosen_order.sort.is_none() {
        rows.sort_by_key(|row| row.deployment.state != DeploymentState::Failed);
    }
    let (in_progress, goes_on) = (!rollout.finished, rollout.state == margrave_api::rollouts::RolloutState::InProgress);
    let skipped = rollouts::skipped(state, &rollout).await?.into_iter().map(|one| {
        let link = device_link(&one.client, one.device.trim_end_matches("/*"));
        (link, one)
    });
    let skipped: Vec<_> = skipped.collect();
    let names = drafts::names(state, &rollout.application, &rollout.version).await;
    let shown_value = |(name, value): (&String, &serde_json::Value)| {
        (names.get(name).unwrap_or(name).clone(), value_format::answer(value))
    };
    let page = RolloutPage {
        values: rollout.values.iter().map(shown_value).collect(),
        skipped_more: rollout.skipped.len().saturating_sub(skipped.len()),
        skipped,
        shell: visit.shell(Section::Deployments, head).await?,
        shown: shown_rollout(&overview, with_device),
        tiles,
        heads: Heads::new(
            &path,
            &[("state", &word)],
            &chosen_order.sort.map(|sort| sort.to_string()).unwrap_or_default(),
        ),
        sorting: page.in_progress,
        rows,
        simulated,
        next: page.next.map(|next| at(&word, &next)),
        first: params.get("after").map(|_| at(&word, "")),
        state: word.clone(),
        sentence,
        in_progress,
        goes_on,
        left,
        offline: counts.of(DeploymentState::DeviceOffline),
        can_withdraw: !removing && !in_progress,
        failed: if removing { 0 } else { failed },
        these: if removing || in_progress || counts.total() > drafts::SELECTED_MAX as u64 { 0 } else { counts.total() },
    };
    visit.show(&page)
}

/// The progress in one sentence; a second sentence says whether later rollouts changed the deployments again.
fn sentence(rollout: &Rollout) -> String {
    let counts = rollout.deployments.clone().unwrap_or_default();
    let open = rollout.unfinished();
    let left = rollout.total.saturating_sub(rollout.published);
    let outcome = rollout.outcome();
    let (done, failed) = (outcome.done(), outcome.of(DeploymentState::Failed));
    let mut sentence = if !rollout.finished {
        "Publishing to the devices.".to_owned()
    } else if left > 0 {
        format!("Cancelled; {} not updated. The others continue.", words::count(left, "device"))
    } else if open > 0 {
        let offline = counts.of(DeploymentState::DeviceOffline);
        let busy = open - offline;
        let mut parts = Vec::new();
        if busy > 0 {
            parts.push(match rollout.total {
                1 => "Published; the device is still updating".to_owned(),
                _ => format!("Published to all devices; {} still updating", words::thousands(busy)),
            });
        }
        // The manifests are published; offline devices fetch theirs when they reconnect.
        match offline {
            0 => {}
            1 => parts.push("1 device is offline and will update when it reconnects".to_owned()),
            many => parts
                .push(format!("{} devices are offline and will update when they reconnect", words::thousands(many))),
        }
        format!("{}.", parts.join(". "))
    } else if done == rollout.total {
        "Completed on all devices.".to_owned()
    } else {
        let mut parts = vec![format!("{} done", words::thousands(done))];
        if failed > 0 {
            parts.push(format!("{} failed", words::thousands(failed)));
        }
        if !rollout.skipped.is_empty() {
            parts.push(format!("{} skipped", words::thousands(rollout.skipped.len() as u64)));
        }
        let replaced = outcome.total() - done - failed;
        if replaced > 0 {
            parts.push(format!("{} superseded before completion", words::thousands(replaced)));
        }
        format!("Completed: {}.", parts.join(", "))
    };
    let since = match rollout.changed_again() {
        0 => "",
        all if all == rollout.total => " Later rollouts have changed all of its deployments.",
        _ => " Later rollouts have changed some of its deployments.",
    };
    sentence.push_str(since);
    sentence
}

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> PageResult {
    let (state, caller, reason) = (posted.state(), posted.caller(), posted.comment());
    match posted.form.text("action") {
        "again" => {
            let rollout = posted.once(rollouts::again(state, caller, &id, reason)).await?;
            Ok(go(&format!("/rollouts/{}", rollout.id), None))
        }
        "withdraw" => {
            // When the form is sent again, the idempotency record has the rollout.
            if let Some(call) = posted.call(0)
                && let Some(rollout) = idempotency::stored::<Rollout>(state, &call).await?
            {
                return Ok(go(&format!("/rollouts/{}", rollout.id), None));
            }
            let made = match rollouts::withdraw(state, |index| posted.caller_of(index), &id, reason).await {
                Err(AppError::Refused { code: Code::Unchanged, detail, .. }) => {
                    return Ok(go(
                        &format!("/rollouts/{id}"),
                        Some(("unchanged", &format!("Nothing was withdrawn: {detail}."))),
                    ));
                }
                made => made?,
            };
            Ok(match made.as_slice() {
                [only] => go(&format!("/rollouts/{}", only.id), None),
                _ => go(
                    "/rollouts",
                    Some(("rollouts-created", &format!("{} rollouts created, grouped by previous state.", made.len()))),
                ),
            })
        }
        "cancel" => {
            let left = rollouts::cancel(state, caller, &id, reason).await?;
            let sentence = match left {
                0 => "Already published to all devices; nothing left to cancel.".to_owned(),
                1 => "Cancelled: 1 device stays unchanged.".to_owned(),
                left => format!("Cancelled: {} stay unchanged.", words::count(left, "device")),
            };
            Ok(go(
                &format!("/rollouts/{id}"),
                Some((if left == 0 { "already-published" } else { "cancelled" }, &sentence)),
            ))
        }
        _ => Err(AppError::refused(Code::Invalid, "missing or unknown `action` for the rollout").into()),
    }
}

//! Changes: one intent over many devices, and how far it is, live.

mod asks;

use super::deployments::list::{Row, row};
use super::overview::{ShownChange, change_title, open, shown_change};
use super::tiles::Tile;
use crate::app::changes::{self, Wanted};
use crate::app::deployments::{self, Query};
use crate::app::drafts;
use crate::app::error::{AppError, Code};
use crate::app::idempotency;
use crate::app::paging::Paging;
use crate::app::{overview, shown};
use crate::ui::ask::ask;
use crate::ui::form::Posted;
use crate::ui::routes::query::{Asked, device_link, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use margrave_api::changes::{Change, ChangeKind};
use margrave_api::deployments::Convergence;

/// Changes on one page: each is counted by itself.
const CHANGES_MAX: u32 = 25;

#[derive(Template)]
#[template(path = "changes.html", blocks = ["live", "nav"])]
struct ListPage {
    shell: Shell,
    changes: Vec<ShownChange>,
    application: String,
    applications: Vec<(String, String)>,
    /// Under way, over, or either.
    state: String,
    next: Option<String>,
}
pages!(ListPage);

#[derive(Template)]
#[template(path = "change.html", blocks = ["live", "nav"])]
struct ChangePage {
    shell: Shell,
    shown: ShownChange,
    tiles: Vec<Tile>,
    rows: Vec<Row>,
    state: String,
    next: Option<String>,
    first: Option<String>,
    /// What is going on, in one sentence.
    sentence: String,
    under_way: bool,
    /// Somebody is still to be told or to answer.
    goes_on: bool,
    left: u64,
    /// Devices that do not call, where something can still be done about it.
    silent: u64,
    /// It can be called off on them.
    can_call_off: bool,
    /// Failed, and can be tried again together.
    failed: u64,
    /// Deployments of it that can be changed or removed together.
    these: u64,
    /// The answers it gives, in the words of the questions.
    answers: Vec<(String, String)>,
    /// Device, where it is, and why it was skipped.
    skipped: Vec<(String, String, String)>,
    skipped_more: usize,
}
pages!(ChangePage);

pub(in crate::ui) async fn list(visit: Visit, asked: Asked) -> Answer {
    let overview = overview::get(&visit.state).await?;
    let paging = Paging { limit: Some(CHANGES_MAX), after: asked.get("after") };
    let (application, state) = (asked.text("application"), asked.text("state"));
    let over = match state.as_str() {
        "under-way" => Some(false),
        "over" => Some(true),
        _ => None,
    };
    let wanted = Wanted { application: asked.get("application"), over };
    let page = changes::list_wanted(&visit.state, &wanted, &paging).await?;
    let at = |after: &str| link("/changes", &[("application", &application), ("state", &state), ("after", after)]);
    let listing = ListPage {
        shell: visit.shell(Section::Deployments, "Changes").await?,
        changes: page.items.into_iter().map(|told| shown_change(&overview, told)).collect(),
        next: page.next.map(|next| at(&next)),
        applications: overview.applications(),
        application: application.clone(),
        state: state.clone(),
    };
    visit.show(&listing)
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked, Path(id): Path<String>) -> Answer {
    let state = &visit.state;
    let overview = overview::get(state).await?;
    let told = changes::told(state, &id).await?;
    let name = overview.names.get(&told.change.application).unwrap_or(&told.change.application).clone();
    let title = change_title(&name, &told);
    let change = told.change.clone();
    match asked.get("ask").as_deref() {
        Some("cancel") => return ask(&visit, Section::Deployments, asks::cancelling(&name, &change)).await,
        Some("again") => return ask(&visit, Section::Deployments, asks::trying_again(&name, &change)).await,
        Some("call-off") => return ask(&visit, Section::Deployments, asks::calling_off(&name, &change)).await,
        _ => {}
    }
    let word = asked.text("state");
    let convergence = Convergence::ALL.into_iter().find(|known| known.as_str() == word);
    let query = Query { change: Some(id.clone()), convergence, with_absent: true, ..Query::default() };
    let page = deployments::list(state, &query, &asked.paging()).await?;
    let removing = change.kind == ChangeKind::Remove;
    let counts = change.deployments.clone().unwrap_or_default();
    let at = |state: &str, after: &str| link(&format!("/changes/{id}"), &[("state", state), ("after", after)]);
    // What can occur has its place from the beginning: a tile that comes and goes moves all the others.
    let never = |one: Convergence| {
        let pair = (one, change.kind);
        matches!(pair, (Convergence::OlderRevision, ChangeKind::Create) | (Convergence::Waiting, ChangeKind::Remove))
    };
    let tiles = Convergence::ALL
        .into_iter()
        .filter(|one| !never(*one) || counts.of(*one) > 0 || convergence == Some(*one))
        .map(|one| {
            let chosen = convergence == Some(one);
            let link = at(if chosen { "" } else { one.as_str() }, "");
            Tile::new(counts.of(one), words::of_convergence(one, removing), link, chosen)
        })
        .collect();
    let failed = counts.of(Convergence::Failed);
    let left = change.total.saturating_sub(change.published);
    let sentence = sentence(&change);
    let head = match (failed, change.finished && open(&change) == 0) {
        (0, true) => format!("Finished - {title}"),
        (0, false) => format!("Under way - {title}"),
        (failed, _) => format!("{} failed - {title}", words::thousands(failed)),
    };
    let mut rows: Vec<Row> = page.items.into_iter().map(|deployment| row(deployment, &overview.names)).collect();
    rows.sort_by_key(|row| row.deployment.convergence != Convergence::Failed);
    let (under_way, goes_on) = (!change.finished, !change.finished || open(&change) > 0);
    let skipped = changes::skipped(state, &change).await?.into_iter().map(|one| {
        let link = device_link(&one.client, one.device.trim_end_matches("/*"));
        (one.device, link, one.reason)
    });
    let skipped: Vec<_> = skipped.collect();
    let names = drafts::names(state, &change.application, &change.version).await;
    let said =
        |(name, value): (&String, &serde_json::Value)| (names.get(name).unwrap_or(name).clone(), shown::answer(value));
    let page = ChangePage {
        answers: change.answers.iter().map(said).collect(),
        skipped_more: change.skipped.len().saturating_sub(skipped.len()),
        skipped,
        shell: visit.shell(Section::Deployments, head).await?,
        shown: shown_change(&overview, told),
        tiles,
        rows,
        next: page.next.map(|next| at(&word, &next)),
        first: asked.get("after").map(|_| at(&word, "")),
        state: word.clone(),
        sentence,
        under_way,
        goes_on,
        left,
        silent: counts.of(Convergence::NotHeardOf),
        can_call_off: !removing && !under_way,
        failed: if removing { 0 } else { failed },
        these: if removing || under_way || counts.total() > drafts::CHOSEN_MAX as u64 { 0 } else { counts.total() },
    };
    visit.show(&page)
}

/// What is going on, in one sentence; and in a second one what has become of it since. Spoken when it changes, so what changes
/// with every device is left to the counts beside it.
fn sentence(change: &Change) -> String {
    let counts = change.deployments.clone().unwrap_or_default();
    let open = open(change);
    let left = change.total.saturating_sub(change.published);
    let outcome = change.outcome();
    let (done, failed) = (outcome.of(Convergence::Converged), outcome.of(Convergence::Failed));
    let mut said = if !change.finished {
        "Telling the devices.".to_owned()
    } else if left > 0 {
        format!("Cancelled with {} not told; the others go on.", words::count(left, "device"))
    } else if open > 0 {
        let silent = counts.of(Convergence::NotHeardOf);
        let busy = open - silent;
        let mut parts = Vec::new();
        if busy > 0 {
            let told = match change.total {
                1 => "Told; waiting for the device to finish",
                _ => "All devices are told; waiting for some to finish",
            };
            parts.push(told.to_owned());
        }
        // What a device is to have is there for it to fetch; one that does not call knows nothing of it.
        match silent {
            0 => {}
            1 => parts.push("1 device does not call; it waits until it does".to_owned()),
            many => parts.push(format!("{} devices do not call; it waits for them", words::thousands(many))),
        }
        format!("{}.", parts.join(", "))
    } else if done == change.total {
        "Finished: done everywhere.".to_owned()
    } else {
        let mut parts = vec![format!("{} done", words::thousands(done))];
        if failed > 0 {
            parts.push(format!("{} failed", words::thousands(failed)));
        }
        if !change.skipped.is_empty() {
            parts.push(format!("{} skipped", words::thousands(change.skipped.len() as u64)));
        }
        let replaced = outcome.total() - done - failed;
        if replaced > 0 {
            parts.push(format!("{} changed again before it was done", words::thousands(replaced)));
        }
        format!("Finished: {}.", parts.join(", "))
    };
    let since = match change.changed_again() {
        0 => "",
        all if all == change.total => " All of it was changed again since: what is there now is in later changes.",
        _ => " Some of it was changed again since: what is there now is in later changes.",
    };
    said.push_str(since);
    said
}

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> Answer {
    let (state, caller, reason) = (posted.state(), posted.caller(), posted.reason());
    match posted.form.text("action") {
        "again" => {
            let change = posted.once(changes::again(state, caller, &id, reason)).await?;
            Ok(go(&format!("/changes/{}", change.id), None))
        }
        "call-off" => {
            // A form sent again finds what came of it.
            if let Some(call) = posted.call(0)
                && let Some(change) = idempotency::kept::<Change>(state, &call).await?
            {
                return Ok(go(&format!("/changes/{}", change.id), None));
            }
            let made = match changes::call_off(state, |index| posted.caller_of(index), &id, reason).await {
                Err(AppError::Refused { code: Code::Unchanged, detail, .. }) => {
                    return Ok(go(&format!("/changes/{id}"), Some(&format!("Nothing was called off: {detail}."))));
                }
                made => made?,
            };
            Ok(match made.as_slice() {
                [only] => go(&format!("/changes/{}", only.id), None),
                _ => go("/changes", Some(&format!("{} changes were made, one for each kind of before.", made.len()))),
            })
        }
        "cancel" => {
            let said = match changes::cancel(state, caller, &id, reason).await? {
                0 => "Every device was told already; nothing was left to cancel.".to_owned(),
                1 => "Cancelled: 1 device stays as it is.".to_owned(),
                left => format!("Cancelled: {} stay as they are.", words::count(left, "device")),
            };
            Ok(go(&format!("/changes/{id}"), Some(&said)))
        }
        _ => Err(AppError::refused(Code::Invalid, "say what should be done with the change").into()),
    }
}

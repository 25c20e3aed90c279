//! Changes: one intent over many devices, and how far it is, live.

use super::deployments::list::{Row, row};
use super::overview::{ShownChange, change_title, open, shown_change};
use crate::app::changes;
use crate::app::deployments::{self, Query};
use crate::app::drafts;
use crate::app::error::{AppError, Code};
use crate::app::overview;
use crate::app::paging::Paging;
use crate::ui::ask::{Question, ask};
use crate::ui::form::Posted;
use crate::ui::markup::Markup;
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
    left: u64,
    /// The answers it gives, in the words of the questions.
    answers: Vec<(String, String)>,
    /// Device, where it is, and why it was skipped.
    skipped: Vec<(String, String, String)>,
    skipped_more: usize,
}
pages!(ChangePage);

struct Tile {
    count: u64,
    state: Markup,
    tone: &'static str,
    link: String,
    chosen: bool,
}

pub(in crate::ui) async fn list(visit: Visit, asked: Asked) -> Answer {
    let overview = overview::get(&visit.state).await?;
    let paging = Paging { limit: Some(CHANGES_MAX), after: asked.get("after") };
    let page = changes::list(&visit.state, &paging).await?;
    let mut shown = Vec::with_capacity(page.items.len());
    for change in page.items {
        shown.push(shown_change(&overview, changes::told(&visit.state, &change.id).await?));
    }
    let next = page.next.map(|next| link("/changes", &[("after", &next)]));
    visit.show(&ListPage { shell: visit.shell(Section::Deployments, "Changes").await?, changes: shown, next })
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked, Path(id): Path<String>) -> Answer {
    let state = &visit.state;
    let overview = overview::get(state).await?;
    let told = changes::told(state, &id).await?;
    let name = overview.names.get(&told.change.application).unwrap_or(&told.change.application).clone();
    let title = change_title(&name, &told);
    let change = told.change.clone();
    if asked.get("ask").as_deref() == Some("cancel") {
        return ask(&visit, Section::Deployments, cancelling(&name, &change)).await;
    }
    let word = asked.text("state");
    let convergence = Convergence::ALL.into_iter().find(|known| known.as_str() == word);
    let query = Query { change: Some(id.clone()), convergence, with_absent: true, ..Query::default() };
    let page = deployments::list(state, &query, &asked.paging()).await?;
    let removing = change.kind == ChangeKind::Remove;
    let counts = change.deployments.clone().unwrap_or_default();
    let at = |state: &str, after: &str| link(&format!("/changes/{id}"), &[("state", state), ("after", after)]);
    let tiles = Convergence::ALL
        .into_iter()
        .filter(|one| counts.of(*one) > 0 || convergence == Some(*one))
        .map(|one| {
            let look = words::of_convergence(one, removing);
            let chosen = convergence == Some(one);
            let link = at(if chosen { "" } else { one.as_str() }, "");
            Tile { count: counts.of(one), state: words::convergence(one, removing), tone: look.tone, link, chosen }
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
    let under_way = !change.finished;
    let skipped = changes::skipped(state, &change).await?.into_iter().map(|one| {
        let link = device_link(&one.client, one.device.trim_end_matches("/*"));
        (one.device, link, one.reason)
    });
    let skipped: Vec<_> = skipped.collect();
    let names = drafts::names(state, &change.application, &change.version).await;
    let said = |(name, value): (&String, &serde_json::Value)| {
        (names.get(name).unwrap_or(name).clone(), super::devices::said(value))
    };
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
        left,
    };
    visit.show(&page)
}

/// What is asked before the rest of a change is cancelled; where nothing is left, only that.
fn cancelling(name: &str, change: &Change) -> Question {
    let left = if change.finished { 0 } else { change.total.saturating_sub(change.published) };
    let goes_on = match change.published {
        0 => String::new(),
        1 => "The device told already goes on; change or remove what it got if it should not.".to_owned(),
        told => format!(
            "The {} told already go on; change or remove what they got if they should not.",
            words::count(told, "device")
        ),
    };
    let back = format!("/changes/{}", change.id);
    if left == 0 {
        let title = "Nothing is left to cancel".to_owned();
        let every = "Every device this change is for was told already, or it was cancelled before.".to_owned();
        return Question { title, text: vec![every, goes_on], back, ..Question::default() };
    }
    let stays = match left {
        1 => "1 device not told yet stays as it is.".to_owned(),
        left => format!("{} not told yet stay as they are.", words::count(left, "device")),
    };
    Question {
        title: format!("Cancel the rest of this change of {name}?"),
        text: vec![stays, goes_on],
        devices: Some(left),
        action: back.clone(),
        fields: vec![("action", "cancel".to_owned())],
        button: "Cancel the rest".to_owned(),
        danger: true,
        back,
    }
}

/// What is going on, in one sentence; and in a second one what has become of it since.
fn sentence(change: &Change) -> String {
    let counts = change.deployments.clone().unwrap_or_default();
    let open = open(change);
    let left = change.total.saturating_sub(change.published);
    let outcome = change.outcome();
    let (done, failed) = (outcome.of(Convergence::Converged), outcome.of(Convergence::Failed));
    let mut said = if !change.finished {
        format!(
            "Telling the devices: {} of {} told.",
            words::thousands(change.published),
            words::thousands(change.total)
        )
    } else if left > 0 {
        format!("Cancelled with {} not told; the others go on.", words::count(left, "device"))
    } else if open > 0 {
        let silent = counts.of(Convergence::NotHeardOf);
        let busy = open - silent;
        let mut parts = Vec::new();
        if busy > 0 {
            parts.push(format!("{} still at it", words::count(busy, "device")));
        }
        if silent > 0 {
            // What a device is to have is there for it to fetch; one that does not call knows nothing of it.
            let verb = if silent == 1 { "does" } else { "do" };
            parts.push(format!("{} {verb} not call; it waits for them", words::count(silent, "device")));
        }
        let text = parts.join(", ");
        format!("{}.", if silent == 1 { text.replace("waits for them", "waits until it does") } else { text })
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
    if posted.form.text("action") != "cancel" {
        return Err(AppError::refused(Code::Invalid, "say what should be done with the change").into());
    }
    let left = changes::cancel(posted.state(), posted.caller(), &id, posted.reason()).await?;
    let said = match left {
        0 => "Every device was told already; nothing was left to cancel.".to_owned(),
        1 => "Cancelled: 1 device stays as it is.".to_owned(),
        left => format!("Cancelled: {} stay as they are.", words::count(left, "device")),
    };
    Ok(go(&format!("/changes/{id}"), Some(&said)))
}

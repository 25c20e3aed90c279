//! Bulk actions on devices or clients: the selected ones, or all that match up to the limit of one request; a confirmation
//! with counts; and the result.

pub(super) mod clients;
pub(super) mod devices;

use crate::app::bulk::{BULK_MAX, Outcome, Refused};
use crate::ui::form::Posted;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use http::StatusCode;

/// Names shown at once; the rest is collapsed.
const NAMED_MAX: usize = 10;

/// A confirmation of a bulk action.
#[derive(Default)]
struct Confirmation {
    title: String,
    text: Vec<String>,
    /// How many devices it affects, as a sentence.
    touches: String,
    devices: u64,
    action: &'static str,
    /// Hidden fields, in the order they are sent.
    fields: Vec<(&'static str, String)>,
    /// Names of the selected ones.
    names: Vec<String>,
    /// The form has fields for a label.
    label: Option<Typed>,
    comment: String,
    /// What the button does, for `data-action`.
    verb: &'static str,
    button: String,
    danger: bool,
    back: String,
    /// Field and message.
    wrong: Vec<(&'static str, String)>,
}

/// A label as typed.
#[derive(Default)]
struct Typed {
    name: String,
    value: String,
    gone: bool,
}

#[derive(Template)]
#[template(path = "bulk/ask.html", blocks = ["live", "nav"])]
struct ConfirmPage {
    shell: Shell,
    confirmation: Confirmation,
    first: Vec<String>,
    rest: Vec<String>,
}
pages!(ConfirmPage);

impl ConfirmPage {
    fn is_wrong(&self, field: &str) -> bool {
        self.confirmation.wrong.iter().any(|(known, _)| *known == field)
    }
}

#[derive(Template)]
#[template(path = "bulk/done.html", blocks = ["live", "nav"])]
struct DonePage {
    shell: Shell,
    /// For `data-reason`.
    code: &'static str,
    changed: u64,
    notice: String,
    refused: Vec<Refused>,
    /// The address of the next batch, and the batch size.
    next: Option<String>,
    most: usize,
    back: String,
}
pages!(DonePage);

async fn confirm(visit: &Visit, section: Section, mut confirmation: Confirmation) -> PageResult {
    let shell = visit.shell(section, confirmation.title.clone()).await?;
    let mut first = std::mem::take(&mut confirmation.names);
    let rest = first.split_off(first.len().min(NAMED_MAX));
    let status = if confirmation.wrong.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    visit.show_with(status, &ConfirmPage { shell, confirmation, first, rest })
}

/// Redirects to the list if everything succeeded; otherwise shows what was rejected, and links to the next batch.
async fn done(
    posted: &Posted,
    section: Section,
    outcome: Outcome,
    (code, notice): (&'static str, String),
    next: Option<String>,
    back: String,
) -> PageResult {
    if outcome.refused.is_empty() && next.is_none() {
        return Ok(go(&back, Some((code, &notice))));
    }
    let title = match outcome.refused.len() as u64 {
        0 => "Batch completed".to_owned(),
        refused => format!("{} not changed", words::thousands(refused)),
    };
    let shell = posted.visit.shell(section, title).await?;
    let page =
        DonePage { shell, code, changed: outcome.done, notice, refused: outcome.refused, next, most: BULK_MAX, back };
    posted.visit.show(&page)
}

/// `These are 500 of the 27,000 matching`, if one request does not cover all of them.
fn part(chosen: usize, matching: u64) -> String {
    format!(
        "These are {} of the {} matching: one request changes at most {}. The next page continues with the rest.",
        words::thousands(chosen as u64),
        words::thousands(matching),
        words::thousands(BULK_MAX as u64)
    )
}

/// `Set label line=7 on 12 devices; 3 unchanged.`
fn result_notice(outcome: &Outcome, before: &str, noun: &str, after: &str) -> String {
    let notice = format!("{before}{}{after}", words::count(outcome.done, noun));
    match outcome.already {
        0 => format!("{notice}."),
        already => format!("{notice}; {} unchanged.", words::thousands(already)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_changed_and_unchanged() {
        let outcome = |done, already| Outcome { done, already, refused: Vec::new() };
        assert_eq!(
            result_notice(&outcome(1, 0), "Removed label line from ", "device", ""),
            "Removed label line from 1 device."
        );
        assert_eq!(
            result_notice(&outcome(1200, 3), "", "device identity", " decommissioned"),
            "1,200 device identities decommissioned; 3 unchanged."
        );
    }
}

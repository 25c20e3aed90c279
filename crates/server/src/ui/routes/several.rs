//! Several devices or clients at once: what was ticked, or all that match as far as one request goes, a question that counts what
//! it touches, and what came of it.

pub(super) mod clients;
pub(super) mod devices;

use crate::app::several::{Outcome, Refused, SEVERAL_MAX};
use crate::ui::form::Posted;
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use http::StatusCode;

/// Names that stand on the page at once; the rest is unfolded.
const NAMED_MAX: usize = 10;

/// A question about several.
#[derive(Default)]
struct Question {
    title: String,
    text: Vec<String>,
    /// How many devices it touches, as a sentence.
    touches: String,
    action: &'static str,
    /// What goes with it, in the order it is sent.
    fields: Vec<(&'static str, String)>,
    /// Names of those chosen.
    names: Vec<String>,
    /// A label is asked for.
    label: Option<Typed>,
    reason: String,
    button: String,
    danger: bool,
    back: String,
    /// Field and message.
    wrong: Vec<(&'static str, String)>,
}

/// A label as it is being written.
#[derive(Default)]
struct Typed {
    name: String,
    value: String,
    gone: bool,
}

#[derive(Template)]
#[template(path = "several/ask.html", blocks = ["live", "nav"])]
struct AskPage {
    shell: Shell,
    question: Question,
    first: Vec<String>,
    rest: Vec<String>,
}
pages!(AskPage);

impl AskPage {
    fn is_wrong(&self, field: &str) -> bool {
        self.question.wrong.iter().any(|(known, _)| *known == field)
    }
}

#[derive(Template)]
#[template(path = "several/done.html", blocks = ["live", "nav"])]
struct DonePage {
    shell: Shell,
    said: String,
    refused: Vec<Refused>,
    /// Where the next ones are asked about, and how many are done in one go.
    next: Option<String>,
    most: usize,
    back: String,
}
pages!(DonePage);

async fn ask(visit: &Visit, section: Section, mut question: Question) -> Answer {
    let shell = visit.shell(section, question.title.clone()).await?;
    let mut first = std::mem::take(&mut question.names);
    let rest = first.split_off(first.len().min(NAMED_MAX));
    let status = if question.wrong.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    visit.show_with(status, &AskPage { shell, question, first, rest })
}

/// Back to the list where all is done; else a page that names what was not, and leads to the next ones.
async fn done(
    posted: &Posted,
    section: Section,
    outcome: Outcome,
    said: String,
    next: Option<String>,
    back: String,
) -> Answer {
    if outcome.refused.is_empty() && next.is_none() {
        return Ok(go(&back, Some(&said)));
    }
    let title = match outcome.refused.len() as u64 {
        0 => "Done so far".to_owned(),
        refused => format!("{} not done", words::thousands(refused)),
    };
    let shell = posted.visit.shell(section, title).await?;
    let page = DonePage { shell, said, refused: outcome.refused, next, most: SEVERAL_MAX, back };
    posted.visit.show(&page)
}

/// `These are 500 of 27,000 that match`, where one request does not do all.
fn part(chosen: usize, matching: u64) -> String {
    format!(
        "These are {} of the {} that match: at most {} are done in one go. The page after this one goes on with the next.",
        words::thousands(chosen as u64),
        words::thousands(matching),
        words::thousands(SEVERAL_MAX as u64)
    )
}

/// `12 devices were labelled; 3 were so already.`
fn told(outcome: &Outcome, noun: &str, done: &str) -> String {
    let were = |count: u64| if count == 1 { "was" } else { "were" };
    let said = format!("{} {} {done}", words::count(outcome.done, noun), were(outcome.done));
    match outcome.already {
        0 => format!("{said}."),
        already => format!("{said}; {} {} so already.", words::thousands(already), were(already)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_it_is_counted() {
        let outcome = |done, already| Outcome { done, already, refused: Vec::new() };
        assert_eq!(told(&outcome(1, 0), "device", "labelled"), "1 device was labelled.");
        assert_eq!(told(&outcome(1200, 3), "client", "retired"), "1,200 clients were retired; 3 were so already.");
    }
}

//! Before anything is taken away or set going somebody is asked: what it is, how many devices it touches, why. The same page is a
//! dialog where there is script.

use super::visit::{Answer, Section, Shell, Visit, pages};
use super::words;
use askama::Template;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Question {
    pub(super) title: String,
    /// What will happen, in sentences.
    pub(super) text: Vec<String>,
    /// How many devices it touches; none where it touches none.
    pub(super) devices: Option<u64>,
    /// Where the answer goes.
    pub(super) action: String,
    /// What goes with it.
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) button: String,
    pub(super) danger: bool,
    pub(super) back: String,
}

#[derive(Template)]
#[template(path = "ask.html", blocks = ["live", "nav"])]
struct AskPage {
    shell: Shell,
    question: Question,
    touches: Option<String>,
}
pages!(AskPage);

pub(super) async fn ask(visit: &Visit, section: Section, question: Question) -> Answer {
    let shell = visit.shell(section, question.title.clone()).await?;
    let touches = question.devices.map(|devices| match devices {
        0 => "No device is touched.".to_owned(),
        devices => format!("This touches {}.", words::count(devices, "device")),
    });
    visit.show(&AskPage { shell, question, touches })
}

//! Confirmation before an action: what happens, how many devices it affects, and a comment. The same page is a dialog when
//! JavaScript runs.

use super::visit::{PageResult, Section, Shell, Visit, pages};
use super::words;
use askama::Template;

/// A confirmation.
#[derive(Debug, Clone, Default)]
pub(super) struct Confirmation {
    pub(super) title: String,
    /// What will happen, in sentences.
    pub(super) text: Vec<String>,
    /// How many devices it affects; none where the page does not say.
    pub(super) devices: Option<u64>,
    /// Where the form is posted.
    pub(super) action: String,
    /// Hidden fields of the form.
    pub(super) fields: Vec<(&'static str, String)>,
    /// What the button does, for `data-action`.
    pub(super) verb: &'static str,
    pub(super) button: String,
    pub(super) danger: bool,
    pub(super) back: String,
}

#[derive(Template)]
#[template(path = "ask.html", blocks = ["live", "nav"])]
struct ConfirmPage {
    shell: Shell,
    confirmation: Confirmation,
    touches: Option<String>,
}
pages!(ConfirmPage);

pub(super) async fn confirm(visit: &Visit, section: Section, confirmation: Confirmation) -> PageResult {
    let shell = visit.shell(section, confirmation.title.clone()).await?;
    let touches = confirmation.devices.map(|devices| match devices {
        0 => "No device is affected.".to_owned(),
        devices => format!("Affects {}.", words::count(devices, "device")),
    });
    visit.show(&ConfirmPage { shell, confirmation, touches })
}

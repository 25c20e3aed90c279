//! Adding a device: creates a one-time enrollment token and shows the command that uses it.

use crate::app::clients::{self, InUse};
use crate::app::error::AppError;
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::routes::query::{device_link, link};
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use askama::Template;
use http::StatusCode;
use margrave_api::clients::{CreateEnrollmentToken, IssuedEnrollmentToken};
use margrave_api::problem::FieldProblem;

#[derive(Template)]
#[template(path = "devices/add.html", blocks = ["live", "nav"])]
struct AddPage {
    shell: Shell,
    client: String,
    hours: String,
    wrong: Option<(String, Vec<FieldProblem>)>,
    made: Option<IssuedEnrollmentToken>,
    /// The client that already exists under this name.
    there: Option<ExistingClient>,
    comment: String,
    /// The address is a loopback address.
    only_here: bool,
}
pages!(AddPage);

/// An existing client.
struct ExistingClient {
    link: String,
    waiting: bool,
    last_seen_at: Option<String>,
}

/// The client of this name, if it exists.
async fn there(visit: &Visit, client: &str) -> Result<Option<ExistingClient>, UiError> {
    let InUse { device, waiting, last_seen_at } = match clients::in_use(&visit.state, client).await {
        Ok(Some(in_use)) => in_use,
        // Creating the token reports an invalid name.
        Ok(None) | Err(AppError::Refused { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let link =
        device.map_or_else(|| link("/settings/identities", &[("q", client)]), |device| device_link(client, &device));
    Ok(Some(ExistingClient { link, waiting, last_seen_at }))
}

const HOUR_SECONDS: u64 = 3600;

pub(in crate::ui) async fn form(visit: Visit) -> PageResult {
    let shell = visit.shell(Section::Devices, "Add a device").await?;
    visit.show(&AddPage {
        shell,
        client: String::new(),
        hours: "1".to_owned(),
        wrong: None,
        made: None,
        there: None,
        comment: String::new(),
        only_here: false,
    })
}

pub(in crate::ui) async fn create_token(posted: Posted) -> PageResult {
    let (client, hours) = (posted.form.text("client").to_owned(), posted.form.text("hours").to_owned());
    let comment = posted.form.text("comment").to_owned();
    let again = posted.form.text("again") == client;
    if !again {
        let there = there(&posted.visit, &client).await?;
        if there.is_some() {
            let shell = posted.visit.shell(Section::Devices, format!("{client} already exists")).await?;
            let page = AddPage { shell, client, hours, wrong: None, made: None, there, comment, only_here: false };
            return posted.visit.show_with(StatusCode::CONFLICT, &page);
        }
    }
    let body = CreateEnrollmentToken {
        valid_for_seconds: Some(hours.parse::<u64>().unwrap_or_default().saturating_mul(HOUR_SECONDS)),
        again,
        comment: posted.comment(),
    };
    let work = clients::create_enrollment_token(posted.state(), posted.caller(), &client, body);
    let (made, wrong) = match posted.once(work).await {
        Ok(made) => (Some(made), None),
        Err(AppError::Refused { detail, errors, .. }) => (None, Some((detail, errors))),
        Err(error) => return Err(error.into()),
    };
    let only_here = made.as_ref().is_some_and(|made| is_loopback(&made.trust_url));
    let title = if made.is_some() { format!("Enrollment token for {client}") } else { "Add a device".to_owned() };
    let shell = posted.visit.shell(Section::Devices, title).await?;
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    posted.visit.show_with(status, &AddPage { shell, client, hours, wrong, made, there: None, comment, only_here })
}

fn is_loopback(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    })
}

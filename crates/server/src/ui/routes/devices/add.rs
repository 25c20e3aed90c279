//! Inviting a device: a token that works once, and the command to use it with.

use crate::app::clients::{self, InUse};
use crate::app::error::AppError;
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::routes::query::{device_link, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use askama::Template;
use http::StatusCode;
use margrave_api::clients::{CreateEnrolmentToken, EnrolmentToken};
use margrave_api::problem::FieldProblem;

#[derive(Template)]
#[template(path = "devices/add.html", blocks = ["live", "nav"])]
struct AddPage {
    shell: Shell,
    client: String,
    hours: String,
    wrong: Option<(String, Vec<FieldProblem>)>,
    made: Option<EnrolmentToken>,
    /// There is such a client already, and what joining again would come to.
    there: Option<There>,
    reason: String,
    /// The address in it is one of this machine alone.
    only_here: bool,
}
pages!(AddPage);

/// A client that exists.
struct There {
    link: String,
    waiting: bool,
    last_seen_at: Option<String>,
}

/// The client of this name, when it has been here.
async fn there(visit: &Visit, client: &str) -> Result<Option<There>, UiError> {
    let InUse { device, waiting, last_seen_at } = match clients::in_use(&visit.state, client).await {
        Ok(Some(in_use)) => in_use,
        // What is no name at all is told by whoever makes the invitation.
        Ok(None) | Err(AppError::Refused { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let link =
        device.map_or_else(|| link("/settings/clients", &[("q", client)]), |device| device_link(client, &device));
    Ok(Some(There { link, waiting, last_seen_at }))
}

const HOUR_SECONDS: u64 = 3600;

pub(in crate::ui) async fn form(visit: Visit) -> Answer {
    let shell = visit.shell(Section::Devices, "Add a device").await?;
    visit.show(&AddPage {
        shell,
        client: String::new(),
        hours: "1".to_owned(),
        wrong: None,
        made: None,
        there: None,
        reason: String::new(),
        only_here: false,
    })
}

pub(in crate::ui) async fn invite(posted: Posted) -> Answer {
    let (client, hours) = (posted.form.text("client").to_owned(), posted.form.text("hours").to_owned());
    let reason = posted.form.text("reason").to_owned();
    let again = posted.form.text("again") == client;
    if !again {
        let there = there(&posted.visit, &client).await?;
        if there.is_some() {
            let shell = posted.visit.shell(Section::Devices, format!("{client} exists already")).await?;
            let page = AddPage { shell, client, hours, wrong: None, made: None, there, reason, only_here: false };
            return posted.visit.show_with(StatusCode::CONFLICT, &page);
        }
    }
    let body = CreateEnrolmentToken {
        valid_for_seconds: Some(hours.parse::<u64>().unwrap_or_default().saturating_mul(HOUR_SECONDS)),
        again,
        reason: posted.reason(),
    };
    let work = clients::create_enrolment_token(posted.state(), posted.caller(), &client, body);
    let (made, wrong) = match posted.once(work).await {
        Ok(made) => (Some(made), None),
        Err(AppError::Refused { detail, errors, .. }) => (None, Some((detail, errors))),
        Err(error) => return Err(error.into()),
    };
    let only_here = made.as_ref().is_some_and(|made| is_loopback(&made.trust_url));
    let title = if made.is_some() { format!("Invitation for {client}") } else { "Add a device".to_owned() };
    let shell = posted.visit.shell(Section::Devices, title).await?;
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    posted.visit.show_with(status, &AddPage { shell, client, hours, wrong, made, there: None, reason, only_here })
}

fn is_loopback(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    })
}

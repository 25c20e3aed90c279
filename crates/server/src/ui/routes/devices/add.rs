//! Inviting a device: a token that works once, and the command to use it with.

use crate::app::clients;
use crate::app::error::AppError;
use crate::ui::form::Posted;
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
    /// The address in it is one of this machine alone.
    only_here: bool,
}
pages!(AddPage);

const HOUR_SECONDS: u64 = 3600;

pub(in crate::ui) async fn form(visit: Visit) -> Answer {
    let shell = visit.shell(Section::Devices, "Add a device").await?;
    visit.show(&AddPage {
        shell,
        client: String::new(),
        hours: "1".to_owned(),
        wrong: None,
        made: None,
        only_here: false,
    })
}

pub(in crate::ui) async fn invite(posted: Posted) -> Answer {
    let (client, hours) = (posted.form.text("client").to_owned(), posted.form.text("hours").to_owned());
    let body = CreateEnrolmentToken {
        valid_for_seconds: Some(hours.parse::<u64>().unwrap_or_default().saturating_mul(HOUR_SECONDS)),
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
    posted.visit.show_with(status, &AddPage { shell, client, hours, wrong, made, only_here })
}

fn is_loopback(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    })
}

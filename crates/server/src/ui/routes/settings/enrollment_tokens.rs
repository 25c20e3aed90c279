//! Enrollment tokens, which devices enroll with, once.

use crate::app::clients::{self, EnrollmentToken};
use crate::ui::ask::{Confirmation, ask};
use crate::ui::form::Posted;
use crate::ui::routes::query::Asked;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;

#[derive(Template)]
#[template(path = "settings/enrollment_tokens.html", blocks = ["live", "nav"])]
struct EnrollmentTokensPage {
    shell: Shell,
    tab: &'static str,
    enrollment_tokens: Vec<EnrollmentToken>,
    open: u64,
    more: bool,
}
pages!(EnrollmentTokensPage);

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> PageResult {
    if let Some(client) = asked.get("withdraw") {
        return ask_to_withdraw(&visit, &client).await;
    }
    let found = clients::enrollment_tokens(&visit.state).await?;
    let page = EnrollmentTokensPage {
        open: found.items.iter().filter(|one| one.is_open()).count() as u64,
        more: found.more,
        enrollment_tokens: found.items,
        shell: visit.shell(Section::Settings, "Enrollment tokens - Settings").await?,
        tab: "enrollment-tokens",
    };
    visit.show(&page)
}

async fn ask_to_withdraw(visit: &Visit, client: &str) -> PageResult {
    let unused = clients::unused_enrollment_tokens(&visit.state, client).await?;
    let (what, them) = match unused {
        1 => ("the enrollment token".to_owned(), "it"),
        unused => (format!("all {}", words::count(unused, "enrollment token")), "them"),
    };
    let question = Confirmation {
        title: format!("Revoke {what} for {client}?"),
        text: vec![format!(
            "No device can enroll as `{client}` with {them} any more. Devices that have already enrolled are not affected."
        )],
        devices: Some(0),
        action: "/settings/enrollment-tokens".to_owned(),
        fields: vec![("client", client.to_owned())],
        verb: "revoke",
        button: format!("Revoke {}", words::count(unused, "enrollment token")),
        danger: true,
        back: "/settings/enrollment-tokens".to_owned(),
    };
    ask(visit, Section::Settings, question).await
}

pub(in crate::ui) async fn act(posted: Posted) -> PageResult {
    let client = posted.form.text("client").to_owned();
    let gone = clients::revoke_enrollment_tokens(posted.state(), posted.caller(), &client, posted.comment()).await?;
    Ok(go(
        "/settings/enrollment-tokens",
        Some(("revoked", &format!("{} for {client} revoked.", words::count(gone, "enrollment token")))),
    ))
}

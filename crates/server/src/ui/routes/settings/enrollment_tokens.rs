//! Enrollment tokens, which devices enroll with, once.

use crate::app::clients::{self, EnrollmentToken};
use crate::ui::confirm::{Confirmation, confirm};
use crate::ui::form::Posted;
use crate::ui::markup::Markup;
use crate::ui::routes::heads::{Compare, Heads, sort_rows};
use crate::ui::routes::query::Params;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;

#[derive(Template)]
#[template(path = "settings/enrollment_tokens.html", blocks = ["live", "nav"])]
struct EnrollmentTokensPage {
    shell: Shell,
    tab: &'static str,
    heads: Heads,
    enrollment_tokens: Vec<(Markup, EnrollmentToken)>,
    open: u64,
    more: bool,
}
pages!(EnrollmentTokensPage);

const COLUMNS: [(&str, Compare<EnrollmentToken>); 4] = [
    ("for", |one, other| one.client.cmp(&other.client)),
    // Active ones first.
    ("state", |one, other| (!one.is_open(), one.state.as_str()).cmp(&(!other.is_open(), other.state.as_str()))),
    ("created", |one, other| one.created_at.cmp(&other.created_at)),
    ("expires", |one, other| one.expires_at.cmp(&other.expires_at)),
];

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    if let Some(client) = params.get("revoke") {
        return ask_to_revoke(&visit, &client).await;
    }
    let mut found = clients::enrollment_tokens(&visit.state).await?;
    let sort = params.text("sort");
    sort_rows(&mut found.items, &sort, &COLUMNS);
    let page = EnrollmentTokensPage {
        heads: Heads::new("/settings/enrollment-tokens", &[], &sort),
        open: found.items.iter().filter(|one| one.is_open()).count() as u64,
        more: found.more,
        enrollment_tokens: found.items.into_iter().map(|one| (words::enrollment_token_state(one.state), one)).collect(),
        shell: visit.shell(Section::Settings, "Enrollment tokens - Settings").await?,
        tab: "enrollment-tokens",
    };
    visit.show(&page)
}

async fn ask_to_revoke(visit: &Visit, client: &str) -> PageResult {
    let unused = clients::unused_enrollment_tokens(&visit.state, client).await?;
    let (what, them) = match unused {
        1 => ("the enrollment token".to_owned(), "it"),
        unused => (format!("all {}", words::count(unused, "enrollment token")), "them"),
    };
    let confirmation = Confirmation {
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
    confirm(visit, Section::Settings, confirmation).await
}

pub(in crate::ui) async fn act(posted: Posted) -> PageResult {
    let client = posted.form.text("client").to_owned();
    let gone = clients::revoke_enrollment_tokens(posted.state(), posted.caller(), &client, posted.comment()).await?;
    Ok(go(
        "/settings/enrollment-tokens",
        Some(("revoked", &format!("{} for {client} revoked.", words::count(gone, "enrollment token")))),
    ))
}

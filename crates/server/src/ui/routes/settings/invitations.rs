//! Invitations: tokens devices join with, once.

use crate::app::clients::{self, Invitation};
use crate::ui::ask::{Question, ask};
use crate::ui::form::Posted;
use crate::ui::routes::query::Asked;
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;

#[derive(Template)]
#[template(path = "settings/invitations.html", blocks = ["live", "nav"])]
struct InvitationsPage {
    shell: Shell,
    tab: &'static str,
    invitations: Vec<Invitation>,
    open: u64,
    more: bool,
}
pages!(InvitationsPage);

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    if let Some(client) = asked.get("withdraw") {
        return ask_to_withdraw(&visit, &client).await;
    }
    let found = clients::invitations(&visit.state).await?;
    let page = InvitationsPage {
        open: found.items.iter().filter(|one| one.is_open()).count() as u64,
        more: found.more,
        invitations: found.items,
        shell: visit.shell(Section::Settings, "Invitations - Settings").await?,
        tab: "invitations",
    };
    visit.show(&page)
}

async fn ask_to_withdraw(visit: &Visit, client: &str) -> Answer {
    let unused = clients::unused_invitations(&visit.state, client).await?;
    let (what, them) = match unused {
        1 => ("the invitation".to_owned(), "it"),
        unused => (format!("all {}", words::count(unused, "invitation")), "them"),
    };
    let question = Question {
        title: format!("Withdraw {what} for {client}?"),
        text: vec![format!(
            "No device can join as `{client}` with {them} any more. Who has joined already is not affected."
        )],
        devices: Some(0),
        action: "/settings/invitations".to_owned(),
        fields: vec![("client", client.to_owned())],
        button: format!("Withdraw {}", words::count(unused, "invitation")),
        danger: true,
        back: "/settings/invitations".to_owned(),
    };
    ask(visit, Section::Settings, question).await
}

pub(in crate::ui) async fn act(posted: Posted) -> Answer {
    let client = posted.form.text("client").to_owned();
    let gone = clients::withdraw_invitations(posted.state(), posted.caller(), &client, posted.reason()).await?;
    Ok(go("/settings/invitations", Some(&format!("{} for {client} withdrawn.", words::count(gone, "invitation")))))
}

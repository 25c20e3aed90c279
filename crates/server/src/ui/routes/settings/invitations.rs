//! Invitations: tokens devices join with, once.

use crate::app::clients::{self, Invitation};
use crate::ui::form::Posted;
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;

#[derive(Template)]
#[template(path = "settings/invitations.html", blocks = ["live", "nav"])]
struct InvitationsPage {
    shell: Shell,
    tab: &'static str,
    invitations: Vec<Invitation>,
}
pages!(InvitationsPage);

pub(in crate::ui) async fn show(visit: Visit) -> Answer {
    let page = InvitationsPage {
        invitations: clients::invitations(&visit.state).await?,
        shell: visit.shell(Section::Settings, "Invitations - Settings").await?,
        tab: "invitations",
    };
    visit.show(&page)
}

pub(in crate::ui) async fn act(posted: Posted) -> Answer {
    let client = posted.form.text("client").to_owned();
    let gone = clients::withdraw_invitations(posted.state(), posted.caller(), &client, posted.reason()).await?;
    Ok(go("/settings/invitations", Some(&format!("{} for {client} withdrawn.", words::count(gone, "invitation")))))
}

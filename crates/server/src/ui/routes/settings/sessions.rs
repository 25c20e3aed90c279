//! Browsers that are signed in.

use crate::app::sessions::{self, Session};
use crate::ui::form::Posted;
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use askama::Template;

#[derive(Template)]
#[template(path = "settings/sessions.html", blocks = ["live", "nav"])]
struct SessionsPage {
    shell: Shell,
    tab: &'static str,
    sessions: Vec<(Session, bool)>,
}
pages!(SessionsPage);

pub(in crate::ui) async fn show(visit: Visit) -> Answer {
    let sessions = sessions::list(&visit.state).await?;
    let page = SessionsPage {
        shell: visit.shell(Section::Settings, "Web sessions - Settings").await?,
        tab: "sessions",
        sessions: sessions
            .into_iter()
            .map(|session| {
                let mine = session.id == visit.visitor.session;
                (session, mine)
            })
            .collect(),
    };
    visit.show(&page)
}

pub(in crate::ui) async fn act(posted: Posted) -> Answer {
    sessions::end(posted.state(), posted.caller(), posted.form.text("id"), posted.reason()).await?;
    Ok(go("/settings/sessions", Some("The session was ended.")))
}

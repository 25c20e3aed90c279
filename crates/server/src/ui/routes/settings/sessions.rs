//! Web sessions.

use crate::app::error::AppError;
use crate::app::sessions::{self, Session};
use crate::ui::confirm::{Confirmation, confirm};
use crate::ui::form::Posted;
use crate::ui::routes::heads::{Compare, Heads, sort_rows};
use crate::ui::routes::query::Params;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use askama::Template;

#[derive(Template)]
#[template(path = "settings/sessions.html", blocks = ["live", "nav"])]
struct SessionsPage {
    shell: Shell,
    tab: &'static str,
    heads: Heads,
    sessions: Vec<Row>,
}
pages!(SessionsPage);

struct Row {
    session: Session,
    mine: bool,
    /// The name of the browser.
    browser: String,
}

const COLUMNS: [(&str, Compare<Row>); 4] = [
    ("name", |one, other| one.session.name.cmp(&other.session.name)),
    ("address", |one, other| one.session.address.cmp(&other.session.address)),
    ("signed-in", |one, other| one.session.created_at.cmp(&other.session.created_at)),
    ("expires", |one, other| one.session.expires_at.cmp(&other.session.expires_at)),
];

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    let sessions = sessions::list(&visit.state).await?;
    if let Some(id) = params.get("end") {
        return ask_to_end(&visit, sessions, &id).await;
    }
    let row = |session: Session| Row {
        mine: session.id == visit.visitor.session,
        browser: browser(&session.browser),
        session,
    };
    let sort = params.text("sort");
    let mut sessions: Vec<Row> = sessions.into_iter().map(row).collect();
    sort_rows(&mut sessions, &sort, &COLUMNS);
    let page = SessionsPage {
        heads: Heads::new("/settings/sessions", &[], &sort),
        shell: visit.shell(Section::Settings, "Web sessions - Settings").await?,
        tab: "sessions",
        sessions,
    };
    visit.show(&page)
}

async fn ask_to_end(visit: &Visit, sessions: Vec<Session>, id: &str) -> PageResult {
    let session = sessions.into_iter().find(|session| session.id.to_string() == id);
    let session = session.ok_or_else(|| AppError::not_found(format_args!("web session `{id}`")))?;
    let mut text = vec![format!(
        "{}, signed in from `{}`, is signed out immediately. Unsaved input there is lost.",
        browser(&session.browser),
        session.address
    )];
    if session.id == visit.visitor.session {
        text.push("This is your current session.".to_owned());
    }
    let confirmation = Confirmation {
        title: format!("End the session of {}?", session.name),
        text,
        devices: Some(0),
        action: "/settings/sessions".to_owned(),
        fields: vec![("id", id.to_owned())],
        verb: "end-session",
        button: "End session".to_owned(),
        danger: true,
        back: "/settings/sessions".to_owned(),
    };
    confirm(visit, Section::Settings, confirmation).await
}

pub(in crate::ui) async fn act(posted: Posted) -> PageResult {
    sessions::end(posted.state(), posted.caller(), posted.form.text("id"), posted.comment()).await?;
    Ok(go("/settings/sessions", Some(("session-ended", "Session ended."))))
}

/// `Firefox on Windows`, from the user agent string. Unknown programs are named by its first word.
fn browser(agent: &str) -> String {
    // A browser that is based on another one names it as well, so the most specific come first.
    let names = [
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("SamsungBrowser/", "Samsung Internet"),
        ("Firefox/", "Firefox"),
        ("FxiOS/", "Firefox"),
        ("CriOS/", "Chrome"),
        ("HeadlessChrome/", "Chrome (headless)"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    let systems = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ];
    let of =
        |known: &[(&str, &'static str)]| known.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, name)| *name);
    match (of(&names), of(&systems)) {
        (Some(name), Some(system)) => format!("{name} on {system}"),
        (Some(name), None) => name.to_owned(),
        (None, _) => {
            let word = agent.split([' ', '/', ';']).next().filter(|word| !word.is_empty());
            word.unwrap_or("Unknown browser").to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::browser;

    #[test]
    fn recognizes_browsers() {
        for (agent, name) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/147.0.0.0 Safari/537.36",
                "Chrome on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/147.0.0.0 Safari/537.36 Edg/147.0.0.0",
                "Edge on Windows",
            ),
            ("Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Windows"),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Mobile/15E148 Safari/604.1",
                "Safari on iPhone",
            ),
            ("curl/8.14.1", "curl"),
            ("", "Unknown browser"),
        ] {
            assert_eq!(browser(agent), name, "{agent}");
        }
    }
}

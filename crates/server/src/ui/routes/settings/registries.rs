//! Registries: the one of this server, and others that packages come from.

pub(in crate::ui) mod edit;

use crate::app::error::AppError;
use crate::app::paging::whole;
use crate::app::{registries, registry};
use crate::copies;
use crate::ui::ask::{Question, ask};
use crate::ui::form::Posted;
use crate::ui::markup::{self, Markup};
use crate::ui::routes::query::{Asked, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::response::Response;
use http::Uri;
use margrave_api::copies::Copy;
use margrave_api::registries::{CheckOutcome, SavedRegistry};
use margrave_api::registry::{Registry, Repository};

const HERE: &str = "/settings/registries";

#[derive(Template)]
#[template(path = "settings/registries.html", blocks = ["live", "nav"])]
struct RegistriesPage {
    shell: Shell,
    tab: &'static str,
    others: Vec<Row>,
    registry: Option<(Registry, String)>,
    repositories: Vec<(Repository, String)>,
    copies: Vec<Copy>,
    next: Option<String>,
}
pages!(RegistriesPage);

/// One of the others.
struct Row {
    registry: SavedRegistry,
    state: Markup,
    /// What came of the last check, in words, and whether that is good.
    words: Option<(bool, String)>,
    change: String,
    remove: String,
}

impl Row {
    fn of(registry: SavedRegistry) -> Self {
        let (word, tone, symbol) = match registry.last_check.as_ref().map(|check| check.outcome) {
            None => ("Not checked yet", "idle", "clock"),
            Some(outcome) => look(outcome, registry.username.is_some()),
        };
        let words = registry.last_check.as_ref().map(|check| (check.outcome.is_good(), check.message.clone()));
        let (change, remove) =
            (link(&format!("{HERE}/change"), &[("host", &registry.host)]), link(HERE, &[("remove", &registry.host)]));
        Self { state: markup::state(tone, symbol, word), words, change, remove, registry }
    }
}

/// What a check came to: word, tone and symbol.
fn look(outcome: CheckOutcome, signs_in: bool) -> (&'static str, &'static str, &'static str) {
    match outcome {
        CheckOutcome::Answered => ("Answered", "good", "check"),
        CheckOutcome::NameUnknown => ("Name not found", "bad", "cross"),
        CheckOutcome::Unreachable => ("Not reached", "bad", "unplugged"),
        CheckOutcome::Untrusted => ("Certificate not trusted", "bad", "lock"),
        CheckOutcome::Denied if signs_in => ("Sign-in refused", "bad", "lock"),
        CheckOutcome::Denied => ("Wants a user and password", "warn", "lock"),
        CheckOutcome::NoRegistry => ("Not a registry", "bad", "cross"),
    }
}

/// The old address, which also had what is under Trust now.
pub(in crate::ui) async fn moved(uri: Uri) -> Response {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    go(&format!("{HERE}{query}"), None)
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    if asked.get("ask").as_deref() == Some("collect") {
        return ask_to_collect(&visit).await;
    }
    if let Some(host) = asked.get("remove") {
        return ask_to_remove(&visit, &host).await;
    }
    let state = &visit.state;
    // Without a registry of its own the rest of the page is there all the same.
    let registry = match registry::get(state) {
        Ok(found) => {
            let size = words::bytes(found.bytes);
            Some((found, size))
        }
        Err(AppError::Refused { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let repositories =
        if registry.is_some() { registry::repositories(state, &asked.paging())? } else { whole(Vec::new()) };
    let page = RegistriesPage {
        shell: visit.shell(Section::Settings, "Registries - Settings").await?,
        tab: "registries",
        others: registries::list(state).await?.items.into_iter().map(Row::of).collect(),
        copies: if registry.is_some() { copies::list(state)?.items } else { Vec::new() },
        registry,
        next: repositories.next.map(|next| link(HERE, &[("after", &next)])),
        repositories: repositories
            .items
            .into_iter()
            .map(|repository| {
                let size = words::bytes(repository.bytes);
                (repository, size)
            })
            .collect(),
    };
    visit.show(&page)
}

async fn ask_to_collect(visit: &Visit) -> Answer {
    let held = registry::get(&visit.state)?;
    let question = Question {
        title: "Collect what nothing refers to?".to_owned(),
        text: vec![
            format!(
                "The registry holds {} in {}. Those that no tag and no other content leads to are deleted for good.",
                words::bytes(held.bytes),
                words::count(held.blobs, "blob")
            ),
            "What can be pulled by name stays. How many go is known only when they are gone; the page says it then."
                .to_owned(),
        ],
        devices: Some(0),
        action: HERE.to_owned(),
        fields: vec![("action", "collect".to_owned())],
        button: "Collect them".to_owned(),
        danger: true,
        back: HERE.to_owned(),
    };
    ask(visit, Section::Settings, question).await
}

async fn ask_to_remove(visit: &Visit, host: &str) -> Answer {
    let registry = registries::get(&visit.state, host).await?;
    let came = match registries::versions_from(&visit.state, &registry.host).await? {
        0 => "Nothing in the catalog came from it.".to_owned(),
        1 => "One version in the catalog came from it; it stays, and so does what runs of it.".to_owned(),
        came => format!(
            "{} in the catalog came from it; they stay, and so does what runs of them.",
            words::count(came, "version")
        ),
    };
    let forgotten = match (&registry.username, &registry.ca) {
        (Some(user), _) => format!(
            "The password of `{user}` is forgotten. Whoever adds an application from there types user and password again."
        ),
        (None, Some(_)) => "Its CA is forgotten. Whoever adds an application from there gives it again.".to_owned(),
        (None, None) => "Applications can still be added from there, by its address.".to_owned(),
    };
    let question = Question {
        title: format!("Remove registry {}?", registry.host),
        text: vec![forgotten, came],
        devices: Some(0),
        action: HERE.to_owned(),
        fields: vec![
            ("action", "remove".to_owned()),
            ("host", registry.host.clone()),
            ("revision", registry.revision.to_string()),
        ],
        button: "Remove this registry".to_owned(),
        danger: true,
        back: HERE.to_owned(),
    };
    ask(visit, Section::Settings, question).await
}

/// Checks or removes one of the others, or collects what nothing in our own refers to.
pub(in crate::ui) async fn act(posted: Posted) -> Answer {
    let (state, caller, host) = (posted.state(), posted.caller(), posted.form.text("host"));
    let said = match posted.form.text("action") {
        "check" => {
            let check = registries::check(state, caller, host, posted.reason()).await?;
            checked(host, check.outcome)
        }
        "remove" => {
            registries::delete(state, caller, host, posted.reason(), posted.form.number("revision")).await?;
            format!("Registry {host} was removed.")
        }
        _ => {
            let gone = registry::collect(state).await?;
            format!("{} collected, {} free again.", words::count(gone.blobs, "blob"), words::bytes(gone.bytes))
        }
    };
    Ok(go(HERE, Some(&said)))
}

fn checked(host: &str, outcome: CheckOutcome) -> String {
    if outcome.is_good() {
        format!("{host} answered.")
    } else {
        format!("{host} cannot be used as it is kept; its line says why.")
    }
}

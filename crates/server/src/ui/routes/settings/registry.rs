//! The registry of this server, and how devices come to trust it.

use crate::app::error::AppError;
use crate::app::paging::whole;
use crate::app::{registry, trust};
use crate::copies;
use crate::ui::ask::{Question, ask};
use crate::ui::form::Posted;
use crate::ui::routes::query::{Asked, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::clients::Trust;
use margrave_api::copies::Copy;
use margrave_api::registry::{Registry, Repository};

#[derive(Template)]
#[template(path = "settings/registry.html", blocks = ["live", "nav"])]
struct RegistryPage {
    shell: Shell,
    tab: &'static str,
    registry: Option<(Registry, String)>,
    repositories: Vec<(Repository, String)>,
    copies: Vec<Copy>,
    trust: Trust,
    next: Option<String>,
    version: &'static str,
}
pages!(RegistryPage);

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    let state = &visit.state;
    if asked.get("ask").as_deref() == Some("collect") {
        return ask_to_collect(&visit).await;
    }
    // Without a registry the rest of the page still says how the server is reached.
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
    let page = RegistryPage {
        shell: visit.shell(Section::Settings, "Registry and trust - Settings").await?,
        tab: "registry",
        copies: if registry.is_some() { copies::list(state)?.items } else { Vec::new() },
        registry,
        next: repositories.next.map(|next| link("/settings/registry", &[("after", &next)])),
        repositories: repositories
            .items
            .into_iter()
            .map(|repository| {
                let size = words::bytes(repository.bytes);
                (repository, size)
            })
            .collect(),
        trust: trust::get(state),
        version: env!("CARGO_PKG_VERSION"),
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
        action: "/settings/registry".to_owned(),
        fields: Vec::new(),
        button: "Collect them".to_owned(),
        danger: true,
        back: "/settings/registry".to_owned(),
    };
    ask(visit, Section::Settings, question).await
}

/// Collects what nothing refers to any more.
pub(in crate::ui) async fn act(posted: Posted) -> Answer {
    let gone = registry::collect(posted.state()).await?;
    let said = format!("{} collected, {} free again.", words::count(gone.blobs, "blob"), words::bytes(gone.bytes));
    Ok(go("/settings/registry", Some(&said)))
}

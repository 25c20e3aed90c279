//! Registries: the embedded one, and external ones that packages come from.

pub(in crate::ui) mod edit;

use crate::app::error::AppError;
use crate::app::paging::whole;
use crate::app::{registries, registry};
use crate::copies;
use crate::ui::confirm::{Confirmation, confirm};
use crate::ui::form::Posted;
use crate::ui::markup::{self, Markup};
use crate::ui::routes::heads::{Compare, Heads, sort_rows};
use crate::ui::routes::query::{Params, link};
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::copies::Copy;
use margrave_api::registries::{CheckOutcome, SavedRegistry};
use margrave_api::registry::{Registry, Repository};

const HERE: &str = "/settings/registries";

#[derive(Template)]
#[template(path = "settings/registries.html", blocks = ["live", "nav"])]
struct RegistriesPage {
    shell: Shell,
    tab: &'static str,
    heads: Heads,
    others: Vec<Row>,
    registry: Option<(Registry, String)>,
    repositories: Vec<(Repository, String)>,
    copies: Vec<Copy>,
    next: Option<String>,
}
pages!(RegistriesPage);

/// An external registry.
struct Row {
    registry: SavedRegistry,
    state: Markup,
    /// The result of the last check, and whether it is good.
    words: Option<(bool, String)>,
    rollout: String,
    remove: String,
}

impl Row {
    fn of(registry: SavedRegistry) -> Self {
        let (word, tone, symbol) = match registry.last_check.as_ref().map(|check| check.outcome) {
            None => ("Not checked yet", "idle", "clock"),
            Some(outcome) => style(outcome, registry.username.is_some()),
        };
        let key =
            registry.last_check.as_ref().map_or_else(|| "unknown".to_owned(), |check| words::api_value(&check.outcome));
        let words = registry.last_check.as_ref().map(|check| (check.outcome.is_good(), check.message.clone()));
        let (rollout, remove) =
            (link(&format!("{HERE}/update"), &[("host", &registry.host)]), link(HERE, &[("remove", &registry.host)]));
        Self { state: markup::state(&key, tone, symbol, word), words, rollout, remove, registry }
    }
}

const COLUMNS: [(&str, Compare<Row>); 2] = [
    ("host", |one, other| one.registry.host.cmp(&other.registry.host)),
    ("last-check", |one, other| checked_at(one).cmp(&checked_at(other))),
];

fn checked_at(row: &Row) -> Option<&str> {
    row.registry.last_check.as_ref().map(|check| check.at.as_str())
}

/// The result of a check: label, tone and icon.
fn style(outcome: CheckOutcome, signs_in: bool) -> (&'static str, &'static str, &'static str) {
    match outcome {
        CheckOutcome::Reachable => ("Reachable", "good", "check"),
        CheckOutcome::NameUnknown => ("Name not found", "bad", "cross"),
        CheckOutcome::Unreachable => ("Unreachable", "bad", "unplugged"),
        CheckOutcome::Untrusted => ("Certificate not trusted", "bad", "lock"),
        CheckOutcome::Denied if signs_in => ("Sign-in rejected", "bad", "lock"),
        CheckOutcome::Denied => ("User and password required", "warn", "lock"),
        CheckOutcome::NoRegistry => ("Not a registry", "bad", "cross"),
    }
}

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    if params.get("ask").as_deref() == Some("gc") {
        return ask_to_collect(&visit).await;
    }
    if let Some(host) = params.get("remove") {
        return ask_to_remove(&visit, &host).await;
    }
    let state = &visit.state;
    // The page also works without an embedded registry.
    let registry = match registry::get(state) {
        Ok(found) => {
            let size = words::bytes(found.bytes);
            Some((found, size))
        }
        Err(AppError::Refused { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let repositories =
        if registry.is_some() { registry::repositories(state, &params.paging())? } else { whole(Vec::new()) };
    let sort = params.text("sort");
    let mut others: Vec<Row> = registries::list(state).await?.items.into_iter().map(Row::of).collect();
    sort_rows(&mut others, &sort, &COLUMNS);
    let page = RegistriesPage {
        heads: Heads::new(HERE, &[], &sort),
        shell: visit.shell(Section::Settings, "Registries - Settings").await?,
        tab: "registries",
        others,
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

async fn ask_to_collect(visit: &Visit) -> PageResult {
    let held = registry::get(&visit.state)?;
    let confirmation = Confirmation {
        title: "Run garbage collection?".to_owned(),
        text: vec![
            format!(
                "The registry holds {} in {}. Blobs that no tag and no other content refers to are deleted permanently.",
                words::bytes(held.bytes),
                words::count(held.blobs, "blob")
            ),
            "Content that can be pulled by name stays. The page shows afterwards how many blobs were deleted."
                .to_owned(),
        ],
        devices: Some(0),
        action: HERE.to_owned(),
        fields: vec![("action", "gc".to_owned())],
        verb: "collect-garbage",
        button: "Run garbage collection".to_owned(),
        danger: true,
        back: HERE.to_owned(),
    };
    confirm(visit, Section::Settings, confirmation).await
}

async fn ask_to_remove(visit: &Visit, host: &str) -> PageResult {
    let registry = registries::get(&visit.state, host).await?;
    let came = match registries::versions_from(&visit.state, &registry.host).await? {
        0 => "Nothing in the catalog came from it.".to_owned(),
        1 => "One version in the catalog came from it; that version and its deployments stay.".to_owned(),
        came => format!(
            "{} in the catalog came from it; these versions and their deployments stay.",
            words::count(came, "version")
        ),
    };
    let deleted = match (&registry.username, &registry.ca) {
        (Some(user), _) => format!(
            "The password of `{user}` is deleted. To add an application from this registry, enter user and password again."
        ),
        (None, Some(_)) => {
            "Its CA is deleted. To add an application from this registry, provide the CA again.".to_owned()
        }
        (None, None) => "You can still add applications from it, by its address.".to_owned(),
    };
    let confirmation = Confirmation {
        title: format!("Remove registry {}?", registry.host),
        text: vec![deleted, came],
        devices: Some(0),
        action: HERE.to_owned(),
        fields: vec![
            ("action", "remove".to_owned()),
            ("host", registry.host.clone()),
            ("revision", registry.revision.to_string()),
        ],
        verb: "remove",
        button: "Remove this registry".to_owned(),
        danger: true,
        back: HERE.to_owned(),
    };
    confirm(visit, Section::Settings, confirmation).await
}

/// Checks or removes an external registry, or runs garbage collection on the embedded one.
pub(in crate::ui) async fn act(posted: Posted) -> PageResult {
    let (state, caller, host) = (posted.state(), posted.caller(), posted.form.text("host"));
    let (code, notice) = match posted.form.text("action") {
        "check" => {
            let check = registries::check(state, caller, host, posted.comment()).await?;
            (reached(check.outcome), checked(host, check.outcome))
        }
        "remove" => {
            registries::delete(state, caller, host, posted.comment(), posted.form.number("revision")).await?;
            ("registry-removed", format!("Registry {host} removed."))
        }
        _ => {
            let gone = registry::collect(state).await?;
            let notice = format!("Deleted {}, freed {}.", words::count(gone.blobs, "blob"), words::bytes(gone.bytes));
            ("garbage-collected", notice)
        }
    };
    Ok(go(HERE, Some((code, &notice))))
}

/// The result of a check, for `data-reason`.
fn reached(outcome: CheckOutcome) -> &'static str {
    if outcome.is_good() { "reachable" } else { "unusable" }
}

fn checked(host: &str, outcome: CheckOutcome) -> String {
    if outcome.is_good() {
        format!("{host} is reachable.")
    } else {
        format!("{host} cannot be used with these settings; see its last check.")
    }
}

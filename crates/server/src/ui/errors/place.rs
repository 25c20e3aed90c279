//! Where an error happened: the list and the object that the address belongs to, and what happened to that object.

use crate::app::audit;
use crate::app::paging::Paging;
use crate::state::ServerState;
use crate::ui::markup::{Markup, escape};
use crate::ui::routes::about;
use crate::ui::visit::{Section, Shell};
use crate::ui::words;
use http::{Method, StatusCode};
use margrave_api::access::AuditRecord;

/// What an address refers to.
pub(super) struct Place {
    pub(super) section: Section,
    /// The list it belongs to, and the label of that list.
    list: (&'static str, &'static str),
    /// The page of the object, if the request was an action on it.
    thing: Option<String>,
    /// Its subject in the audit log.
    subject: Option<String>,
}

impl Place {
    pub(super) fn read(method: &Method, path: &str) -> Self {
        let mut parts = path.trim_matches('/').splitn(2, '/');
        let (first, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (section, list, noun) = match first {
            "devices" | "clients" => (Section::Devices, ("/devices", "All devices"), "device"),
            "groups" => (Section::Devices, ("/groups", "All groups"), "group"),
            "catalog" => (Section::Catalog, ("/catalog", "Catalog"), ""),
            "deployments" | "deploy" => (Section::Deployments, ("/deployments", "All deployments"), "deployment"),
            "rollouts" => (Section::Deployments, ("/rollouts", "All rollouts"), "rollout"),
            "activity" => (Section::Activity, ("/events", "Events"), ""),
            "settings" => (Section::Settings, ("/settings", "Settings"), ""),
            _ => (Section::Overview, ("/", "Overview"), ""),
        };
        let name = decoded(rest);
        let named = !rest.is_empty() && !matches!(first, "deploy" | "clients");
        let thing = matches!(first, "devices" | "groups" | "deployments" | "rollouts");
        Self {
            section,
            list,
            subject: (named && !noun.is_empty()).then(|| format!("{noun}/{name}")),
            thing: (named && thing && *method != Method::GET).then(|| format!("/{first}/{rest}")),
        }
    }

    /// Links to continue with, the most specific first.
    pub(super) fn links(&self, status: StatusCode, came_from: Option<String>) -> Vec<(String, String)> {
        let (list, name) = self.list;
        let mut links = Vec::new();
        if let Some(thing) = self.thing.clone().filter(|_| status != StatusCode::NOT_FOUND) {
            links.push((thing, "View the current state".to_owned()));
        }
        links.push((list.to_owned(), name.to_owned()));
        if let Some(back) = came_from.filter(|back| links.iter().all(|(known, _)| known != back)) {
            links.push((back, "Back to the previous page".to_owned()));
        }
        links
    }

    /// The last audit record of an object that does not exist.
    pub(super) async fn became(&self, state: &ServerState, shell: &Shell) -> Option<Markup> {
        let newest = Paging { limit: Some(1), after: None };
        let found = audit::list(state, Some(self.subject.as_deref()?), None, &newest).await.ok()?;
        found.items.first().map(|record| last_action(record, shell))
    }
}

/// Decodes a percent-encoded part of a path.
fn decoded(text: &str) -> String {
    let pair = format!("name={}", text.replace('+', "%2B").replace('&', "%26"));
    url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, name)| name.into_owned()).unwrap_or_default()
}

/// The last action on it.
fn last_action(record: &AuditRecord, shell: &Shell) -> Markup {
    let (what, _) = about(record, shell.names());
    let what = escape(&words::capital(&what));
    let (at, actor) = (shell.ago(&record.at), escape(&words::actor(&record.actor)));
    let reason = record.comment.as_ref().map(|reason| format!(": {}", escape(reason))).unwrap_or_default();
    let removed = [".remove", ".delete", ".decommission"].iter().any(|end| record.action.ends_with(end));
    Markup::trusted(if removed {
        format!("{what} was removed {at} by {actor}{reason}.")
    } else {
        format!("{what} no longer exists. Its last audit record is from {at} by {actor}{reason}.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_subject_from_an_address() {
        let place = Place::read(&Method::POST, "/devices/hall-3/hall-3/camera%201");
        assert_eq!(place.subject.as_deref(), Some("device/hall-3/hall-3/camera 1"));
        let links = place.links(StatusCode::CONFLICT, Some("/devices".to_owned()));
        assert_eq!(links[0].0, "/devices/hall-3/hall-3/camera%201", "the object comes first");
        assert_eq!(links[1], ("/devices".to_owned(), "All devices".to_owned()));
        assert_eq!(links.len(), 2, "no link twice");
        assert_eq!(Place::read(&Method::GET, "/nothing").subject, None);
        assert_eq!(Place::read(&Method::GET, "/deploy/1/version").subject, None);
    }
}

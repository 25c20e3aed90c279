//! Status explanations on pages: the sentences of the API, each with a link to the page for the next step.

use super::query::{device_link, link};
use margrave_api::explain::{Explanation, Fact};
use serde_json::Value;

/// Facts under one heading.
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) facts: Vec<FactView>,
}

/// A fact, with a link to its subject.
pub(super) struct FactView {
    /// For `data-reason`.
    pub(super) code: String,
    pub(super) sentence: String,
    pub(super) since: Option<String>,
    pub(super) link_to: Option<LinkTo>,
}

/// A link that replaces the command of the API.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkTo {
    pub(super) link: String,
    pub(super) words: String,
    /// What it does after a confirmation, in a dialog if possible; `None` for a link to another page.
    pub(super) action: Option<&'static str>,
}

/// An explanation under its headings, without empty parts.
pub(super) fn why(explanation: &Explanation, with_desired: bool) -> Vec<Part> {
    let desired = if with_desired { explanation.desired.as_slice() } else { &[] };
    let all = [
        ("Desired", desired),
        ("Observed", &explanation.observed),
        ("Waiting for", &explanation.waiting_for),
        ("Next steps", &explanation.next_steps),
    ];
    let parts = all.into_iter().map(|(title, facts)| Part { title, facts: facts.iter().map(fact_view).collect() });
    parts.filter(|part| !part.facts.is_empty()).collect()
}

pub(super) fn fact_view(fact: &Fact) -> FactView {
    FactView {
        code: fact.code.clone(),
        sentence: fact.sentence.clone(),
        since: fact.since.clone(),
        link_to: link_to(fact),
    }
}

fn link_to(fact: &Fact) -> Option<LinkTo> {
    let (kind, about) = fact.about.as_deref()?.split_once('/')?;
    let plain = |link: String, words: &str| Some(LinkTo { link, words: words.to_owned(), action: None });
    match (fact.code.as_str(), kind) {
        ("accept-client", "client") => {
            let link = format!("/clients/{about}?ask=accept");
            Some(LinkTo { link, words: format!("Approve {about}"), action: Some("approve") })
        }
        ("delete-device-record", "device") => {
            let (client, device) = about.split_once('/')?;
            let link = format!("{}?ask=delete", device_link(client, device));
            Some(LinkTo { link, words: format!("Delete record of {device}"), action: Some("delete") })
        }
        ("retry", "deployment") => {
            let link = format!("/deployments/{about}?ask=retry");
            Some(LinkTo { link, words: "Retry".to_owned(), action: Some("retry") })
        }
        ("new-revision", "deployment") => plain(format!("/deployments/{about}#revisions"), "Revisions"),
        ("explain-deployment", "deployment") => match fact.values.get("device").and_then(Value::as_str) {
            Some(place) => {
                let device = place.split_once('/').map_or(place, |(_, device)| device);
                plain(format!("/deployments/{about}"), &format!("Open it on {device}"))
            }
            None => plain(format!("/deployments/{about}"), "Open this deployment"),
        },
        ("publishing", "rollout") => plain(format!("/rollouts/{about}"), "Rollout"),
        ("deploy-again", "application") => plain(format!("/catalog/{about}"), "Open it in the catalog"),
        ("deploy", "device") => plain(link("/catalog", &[("device", about)]), "Select an application"),
        ("list-offline", "application") => {
            plain(link("/deployments", &[("state", "device-offline"), ("application", about)]), "Show offline devices")
        }
        ("join", "application") => plain("/devices/add".to_owned(), "Add a device"),
        ("show-compatibility", "application") => {
            plain(format!("/catalog/{about}/compatibility"), "Compatibility of each device")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fact(code: &str, about: &str, values: &Value) -> Fact {
        serde_json::from_value(json!({ "code": code, "sentence": "so it is", "about": about, "values": values }))
            .unwrap()
    }

    #[track_caller]
    fn check(code: &str, about: &str, link: &str, words: &str) {
        let link_to = link_to(&fact(code, about, &json!({ "device": "hall/press" }))).unwrap();
        assert_eq!((link_to.link.as_str(), link_to.words.as_str()), (link, words));
    }

    #[test]
    fn links_a_fact_to_the_page_for_its_action() {
        check("accept-client", "client/press-07", "/clients/press-07?ask=accept", "Approve press-07");
        check(
            "delete-device-record",
            "device/hall/hall/press",
            "/devices/hall/hall/press?ask=delete",
            "Delete record of hall/press",
        );
        check("explain-deployment", "deployment/1-2", "/deployments/1-2", "Open it on press");
        check("join", "application/vision", "/devices/add", "Add a device");
        check("deploy", "device/hall/hall/press", "/catalog?device=hall%2Fhall%2Fpress", "Select an application");
        check(
            "list-offline",
            "application/vision",
            "/deployments?state=device-offline&application=vision",
            "Show offline devices",
        );
    }

    #[test]
    fn a_fact_without_a_page_has_no_link() {
        assert_eq!(link_to(&fact("check-device", "client/press-07", &json!({}))), None);
        let nothing: Fact = serde_json::from_value(json!({ "code": "deploy", "sentence": "so it is" })).unwrap();
        assert_eq!(link_to(&nothing), None);
    }
}

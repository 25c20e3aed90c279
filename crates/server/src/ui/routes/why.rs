//! Why something is as it is, as a page shows it: the sentences every reader gets, and a link to where it can be done.

use super::query::{device_link, link};
use margrave_api::explain::{Explanation, Fact};
use serde_json::Value;

/// Facts under one heading.
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) facts: Vec<Said>,
}

/// A fact, with the way to what it speaks of.
pub(super) struct Said {
    pub(super) sentence: String,
    pub(super) since: Option<String>,
    pub(super) way: Option<Way>,
}

/// Where a page leads instead of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) link: String,
    pub(super) words: String,
    /// It asks before it acts, as a dialog where it can.
    pub(super) asks: bool,
}

/// An explanation under its headings; what is empty is left out.
pub(super) fn why(explanation: &Explanation, with_desired: bool) -> Vec<Part> {
    let desired = if with_desired { explanation.desired.as_slice() } else { &[] };
    let all = [
        ("Wanted", desired),
        ("Known", &explanation.known),
        ("Waiting for", &explanation.waiting_for),
        ("What would change it", &explanation.would_change_it),
    ];
    let parts = all.into_iter().map(|(title, facts)| Part { title, facts: facts.iter().map(said).collect() });
    parts.filter(|part| !part.facts.is_empty()).collect()
}

pub(super) fn said(fact: &Fact) -> Said {
    Said { sentence: fact.sentence.clone(), since: fact.since.clone(), way: way(fact) }
}

fn way(fact: &Fact) -> Option<Way> {
    let (kind, about) = fact.about.as_deref()?.split_once('/')?;
    let plain = |link: String, words: &str| Some(Way { link, words: words.to_owned(), asks: false });
    match (fact.code.as_str(), kind) {
        ("accept-client", "client") => {
            Some(Way { link: format!("/clients/{about}?ask=accept"), words: format!("Accept {about}"), asks: true })
        }
        ("forget-device", "device") => {
            let (client, device) = about.split_once('/')?;
            let link = format!("{}?ask=forget", device_link(client, device));
            Some(Way { link, words: format!("Forget {device}"), asks: true })
        }
        ("try-again", "deployment") => {
            Some(Way { link: format!("/deployments/{about}?ask=retry"), words: "Try again now".to_owned(), asks: true })
        }
        ("new-revision", "deployment") => plain(format!("/deployments/{about}#revisions"), "Its revisions"),
        ("explain-deployment", "deployment") => match fact.values.get("device").and_then(Value::as_str) {
            Some(place) => {
                let device = place.split_once('/').map_or(place, |(_, device)| device);
                plain(format!("/deployments/{about}"), &format!("Open it on {device}"))
            }
            None => plain(format!("/deployments/{about}"), "Open this deployment"),
        },
        ("publishing", "change") => plain(format!("/changes/{about}"), "This change"),
        ("deploy-again", "application") => plain(format!("/catalog/{about}"), "Open it in the catalog"),
        ("deploy", "device") => plain(link("/catalog", &[("device", about)]), "Choose an application"),
        ("list-silent", "application") => {
            plain(link("/deployments", &[("state", "not-heard-of"), ("application", about)]), "Where they are")
        }
        ("join", "application") => plain("/devices/add".to_owned(), "Add a device"),
        ("show-fit", "application") => plain("/devices".to_owned(), "Devices and their labels"),
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
        let way = way(&fact(code, about, &json!({ "device": "hall/press" }))).unwrap();
        assert_eq!((way.link.as_str(), way.words.as_str()), (link, words));
    }

    #[test]
    fn a_fact_leads_to_the_page_where_it_is_done() {
        check("accept-client", "client/press-07", "/clients/press-07?ask=accept", "Accept press-07");
        check("forget-device", "device/hall/hall/press", "/devices/hall/hall/press?ask=forget", "Forget hall/press");
        check("explain-deployment", "deployment/1-2", "/deployments/1-2", "Open it on press");
        check("join", "application/vision", "/devices/add", "Add a device");
        check("deploy", "device/hall/hall/press", "/catalog?device=hall%2Fhall%2Fpress", "Choose an application");
        check(
            "list-silent",
            "application/vision",
            "/deployments?state=not-heard-of&application=vision",
            "Where they are",
        );
    }

    #[test]
    fn what_no_page_does_stays_a_sentence() {
        assert_eq!(way(&fact("check-device", "client/press-07", &json!({}))), None);
        let nothing: Fact = serde_json::from_value(json!({ "code": "deploy", "sentence": "so it is" })).unwrap();
        assert_eq!(way(&nothing), None);
    }
}

//! Everything that happened, and who did what to what and why.

use crate::app::access::{self, AuditQuery};
use crate::app::error::AppError;
use crate::app::events::{self, EventsFilter, Order};
use crate::app::overview;
use crate::app::paging::whole;
use crate::ui::markup::Markup;
use crate::ui::routes::query::{Asked, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use crate::ui::words::actions as words;
use askama::Template;
use margrave_api::access::AuditRecord;
use margrave_api::events::Event;
use std::collections::HashMap;
use std::time::Duration;

/// Kinds people look for, with what they are called.
const KINDS: [(&str, &str); 9] = [
    ("deployment.failed", "Failures"),
    ("deployment", "Deployments"),
    ("change", "Changes"),
    ("client.silent", "Silence"),
    ("client", "Clients"),
    ("device", "Devices"),
    ("application", "Catalog"),
    ("group", "Groups"),
    ("session", "Signing in"),
];
const ACTIONS: [(&str, &str); 10] = [
    ("change", "Changes"),
    ("deployment", "Deployments"),
    ("client", "Clients"),
    ("device", "Devices"),
    ("group", "Groups"),
    ("application", "Catalog"),
    ("token", "Tokens"),
    ("session", "Sessions"),
    ("operator", "Passwords"),
    ("enrolment", "Invitations"),
];
const SPANS: [(&str, &str, u64); 4] = [
    ("hour", "The last hour", 1),
    ("day", "The last day", 24),
    ("week", "The last week", 24 * 7),
    ("month", "The last 30 days", 24 * 30),
];

#[derive(Template)]
#[template(path = "activity.html", blocks = ["live", "nav"])]
struct EventsPage {
    shell: Shell,
    events: Vec<Shown>,
    kind: String,
    kinds: Vec<(&'static str, &'static str)>,
    device: String,
    application: String,
    applications: Vec<(String, String)>,
    since: String,
    spans: Vec<(&'static str, &'static str)>,
    next: Option<String>,
    first: Option<String>,
    wrong: Option<String>,
}
pages!(EventsPage);

struct Shown {
    event: Event,
    /// Its kind in people's words.
    what: String,
    sentence: Markup,
    /// Where it leads, and what that is called.
    link: Option<(String, String)>,
    tone: &'static str,
}

#[derive(Template)]
#[template(path = "audit.html", blocks = ["live", "nav"])]
struct AuditPage {
    shell: Shell,
    records: Vec<Recorded>,
    actor: String,
    actors: Vec<String>,
    action: String,
    actions: Vec<(&'static str, &'static str)>,
    subject: String,
    since: String,
    spans: Vec<(&'static str, &'static str)>,
    next: Option<String>,
    first: Option<String>,
    checked: Option<(bool, String)>,
    check_link: String,
}
pages!(AuditPage);

/// A record in people's words.
struct Recorded {
    record: AuditRecord,
    /// Its action in people's words.
    what: String,
    about: String,
    link: Option<String>,
    text: String,
}

/// What a list is narrowed by, and the way to its other pages.
struct Narrowed {
    path: &'static str,
    members: Vec<(&'static str, String)>,
    /// It is not the first page.
    later: bool,
}

impl Narrowed {
    fn read(asked: &Asked, path: &'static str, names: &[&'static str]) -> Self {
        let members = names.iter().map(|name| (*name, asked.text(name))).collect();
        Self { path, members, later: asked.get("after").is_some() }
    }

    fn text(&self, name: &str) -> String {
        self.given(name).unwrap_or_default()
    }

    fn given(&self, name: &str) -> Option<String> {
        let found = self.members.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }

    /// The same list with one thing more.
    fn with(&self, name: &'static str, value: &str) -> String {
        let mut members: Vec<(&str, &str)> = self.members.iter().map(|(name, value)| (*name, value.as_str())).collect();
        members.push((name, value));
        link(self.path, &members)
    }

    fn next(&self, next: Option<String>) -> Option<String> {
        next.map(|next| self.with("after", &next))
    }

    fn first(&self) -> Option<String> {
        self.later.then(|| self.with("after", ""))
    }

    /// The beginning of the span that was chosen, as RFC 3339.
    fn since(&self, visit: &Visit) -> Option<String> {
        let word = self.text("since");
        let (_, _, hours) = SPANS.into_iter().find(|(known, _, _)| *known == word)?;
        Some(visit.state.now().minus(Duration::from_hours(hours)).to_string())
    }
}

fn spans() -> Vec<(&'static str, &'static str)> {
    SPANS.iter().map(|(word, name, _)| (*word, *name)).collect()
}

pub(in crate::ui) async fn events(visit: Visit, asked: Asked) -> Answer {
    let overview = overview::get(&visit.state).await?;
    let narrowed = Narrowed::read(&asked, "/activity", &["kind", "device", "client", "application", "since"]);
    let filter = EventsFilter {
        kind: narrowed.given("kind"),
        client: narrowed.given("client"),
        place: narrowed.given("device"),
        application: narrowed.given("application"),
        since: narrowed.since(&visit),
        ..EventsFilter::default()
    };
    let (page, wrong) = match events::history(&visit.state, filter, None, Order::Newest, &asked.paging()).await {
        Ok(page) => (page, None),
        Err(AppError::Refused { detail, .. }) => (whole(Vec::new()), Some(detail)),
        Err(error) => return Err(error.into()),
    };
    let mut applications: Vec<(String, String)> =
        overview.names.iter().map(|(id, name)| (id.clone(), name.clone())).collect();
    applications.sort_by(|one, other| one.1.cmp(&other.1));
    let shell = visit.shell(Section::Activity, "Activity").await?;
    let page = EventsPage {
        events: page.items.into_iter().map(|event| shown(event, &shell, &overview.names)).collect(),
        kinds: KINDS.to_vec(),
        spans: spans(),
        next: narrowed.next(page.next),
        first: narrowed.first(),
        kind: narrowed.text("kind"),
        device: narrowed.given("device").unwrap_or_else(|| narrowed.text("client")),
        application: narrowed.text("application"),
        since: narrowed.text("since"),
        applications,
        wrong,
        shell,
    };
    visit.show(&page)
}

fn shown(event: Event, shell: &Shell, names: &HashMap<String, String>) -> Shown {
    let tone = match event.kind.as_str() {
        "deployment.failed" => "bad",
        "client.silent" => "warn",
        "deployment.installed" | "client.back" | "client.heard" => "good",
        _ => "idle",
    };
    let application = event.application.as_ref().map(|id| names.get(id).unwrap_or(id).clone());
    let link = if let Some(id) = &event.deployment {
        let place = event.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
        let name = application.unwrap_or_else(|| "This deployment".to_owned());
        Some((format!("/deployments/{id}"), format!("{name}{place}")))
    } else if let Some(id) = &event.change {
        let name = application.map_or_else(|| "This change".to_owned(), |name| format!("This change of {name}"));
        Some((format!("/changes/{id}"), name))
    } else if let (Some(client), Some(device)) = (&event.client, &event.device) {
        Some((super::overview::place(client, device), format!("Device {device}")))
    } else {
        event.application.as_ref().map(|id| (format!("/catalog/{id}"), application.unwrap_or_else(|| id.clone())))
    };
    let what = words::happened(&event.kind);
    Shown { sentence: shell.sentence(&event.message), what, link, tone, event }
}

/// What a record is about, by name, and where it is shown.
pub(in crate::ui) fn about(record: &AuditRecord, names: &HashMap<String, String>) -> (String, Option<String>) {
    let state = record.after.as_ref().or(record.before.as_ref());
    let text = |member: &str| state.and_then(|state| state.get(member)).and_then(serde_json::Value::as_str);
    let name = |id: &str| names.get(id).cloned().unwrap_or_else(|| id.to_owned());
    let (noun, rest) = record.subject.split_once('/').unwrap_or((record.subject.as_str(), ""));
    match noun {
        "deployment" => {
            let application = text("application").map_or_else(|| "a deployment".to_owned(), name);
            let place = text("target").map(|target| format!(" on {target}")).unwrap_or_default();
            (format!("{application}{place}"), Some(format!("/deployments/{rest}")))
        }
        "change" => {
            let application = text("application").map_or_else(String::new, |id| format!(" of {}", name(id)));
            (format!("change{application}"), Some(format!("/changes/{rest}")))
        }
        "device" => {
            let (client, device) = rest.split_once('/').unwrap_or((rest, rest));
            (format!("device {device}"), Some(super::overview::place(client, device)))
        }
        "application" => {
            let (id, version) = rest.split_once('/').unwrap_or((rest, ""));
            (format!("{} {version}", name(id)), Some(link(&format!("/catalog/{id}"), &[("version", version)])))
        }
        "group" => (format!("group {rest}"), Some(format!("/groups/{rest}"))),
        "token" | "session" => (format!("{noun} of {}", text("name").unwrap_or("somebody")), None),
        _ if rest.is_empty() => (noun.to_owned(), None),
        noun => (format!("{noun} {rest}"), None),
    }
}

/// The application somebody means by a part of its name: the one whose name is shortest.
fn application_named(text: &str, names: &HashMap<String, String>) -> Option<String> {
    let text = text.to_lowercase();
    let meant = names.iter().filter(|(_, name)| name.to_lowercase().contains(&text));
    meant.min_by_key(|(id, name)| (name.len(), (*id).clone())).map(|(id, _)| id.clone())
}

pub(in crate::ui) async fn audit(visit: Visit, asked: Asked) -> Answer {
    let overview = overview::get(&visit.state).await?;
    let narrowed = Narrowed::read(&asked, "/activity/audit", &["actor", "action", "subject", "since"]);
    let query = AuditQuery {
        actor: narrowed.given("actor"),
        action: narrowed.given("action"),
        application: narrowed.given("subject").and_then(|text| application_named(&text, &overview.names)),
        subject: narrowed.given("subject"),
        since: narrowed.since(&visit),
        ..AuditQuery::default()
    };
    let page = access::search_audit(&visit.state, &query, None, &asked.paging()).await?;
    let checked = if asked.get("check").is_some() {
        let found = access::verify_audit(&visit.state).await?;
        let words = match found.broken_at {
            None => format!("All {} records fit together; none was changed or taken away.", found.records),
            Some(seq) => format!("Record {seq} does not fit: it, or one before it, was changed or taken away."),
        };
        Some((found.intact, words))
    } else {
        None
    };
    let detail = |record: &AuditRecord| {
        let side = |name: &str, value: &Option<serde_json::Value>| {
            value.as_ref().map(|value| format!("{name}: {}", serde_json::to_string_pretty(value).unwrap_or_default()))
        };
        [side("before", &record.before), side("after", &record.after)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n")
    };
    let page = AuditPage {
        shell: visit.shell(Section::Activity, "Audit").await?,
        actors: access::audit_actors(&visit.state).await?,
        actions: ACTIONS.to_vec(),
        spans: spans(),
        next: narrowed.next(page.next),
        first: narrowed.first(),
        check_link: narrowed.with("check", "yes"),
        records: page
            .items
            .into_iter()
            .map(|record| {
                let (about, link) = about(&record, &overview.names);
                Recorded { text: detail(&record), what: words::done(&record.action), about, link, record }
            })
            .collect(),
        checked,
        actor: narrowed.text("actor"),
        action: narrowed.text("action"),
        subject: narrowed.text("subject"),
        since: narrowed.text("since"),
    };
    visit.show(&page)
}

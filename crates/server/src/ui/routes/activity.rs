//! Everything that happened, and who did what to what and why.

use crate::app::audit;
use crate::app::error::{AppError, AppResult};
use crate::app::events::{self, EventsFilter, Order};
use crate::app::overview;
use crate::app::paging::whole;
use crate::app::period::{End, Period};
use crate::ui::markup::Markup;
use crate::ui::routes::query::{Asked, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use crate::ui::words::actions as words;
use askama::Template;
use margrave_api::access::AuditRecord;
use margrave_api::events::Event;
use margrave_api::page::Page;
use margrave_api::problem::FieldProblem;
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
const ACTIONS: [(&str, &str); 11] = [
    ("change", "Changes"),
    ("deployment", "Deployments"),
    ("client", "Clients"),
    ("device", "Devices"),
    ("group", "Groups"),
    ("application", "Catalog"),
    ("registry", "Registries"),
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

/// The fields of a stretch of time.
const ENDS: [(&str, &str); 2] = [("from", "From (UTC)"), ("until", "Until (UTC)")];

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
    when: When,
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
    /// What stands behind the link.
    rest: Markup,
    actor: Option<String>,
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
    when: When,
    next: Option<String>,
    first: Option<String>,
    wrong: Option<String>,
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

    /// The stretch of time that was chosen: how far back, and the two ends; all of it holds.
    fn period(&self, visit: &Visit) -> AppResult<Period> {
        let (from, until) = (self.given("from"), self.given("until"));
        let mut period =
            Period::read(End { field: "from", text: from.as_deref() }, End { field: "until", text: until.as_deref() })?;
        let word = self.text("since");
        if let Some((_, _, hours)) = SPANS.into_iter().find(|(known, _, _)| *known == word) {
            period.since = period.since.max(Some(visit.state.now().minus(Duration::from_hours(hours))));
        }
        Ok(period)
    }

    fn when(&self, wrong: &[FieldProblem]) -> When {
        let end = |name: &'static str, label| {
            let value = self.text(name);
            let wrong = wrong.iter().find(|error| error.field == name).map(|error| error.message.clone());
            EndField { name, label, kind: input_kind(&value), value, wrong }
        };
        When {
            since: self.text("since"),
            spans: SPANS.map(|(word, name, _)| (word, name)),
            ends: ENDS.map(|(name, label)| end(name, label)),
        }
    }
}

/// The fields for when something happened.
struct When {
    since: String,
    spans: [(&'static str, &'static str); SPANS.len()],
    ends: [EndField; 2],
}

struct EndField {
    name: &'static str,
    label: &'static str,
    kind: &'static str,
    value: String,
    wrong: Option<String>,
}

/// A day is chosen; a time that came by the address stays one. What is neither stays to be seen and mended.
fn input_kind(value: &str) -> &'static str {
    if value.is_empty() || value.parse::<jiff::civil::Date>().is_ok_and(|day| day.to_string() == value) {
        "date"
    } else if value.parse::<jiff::civil::DateTime>().is_ok() {
        "datetime-local"
    } else {
        "text"
    }
}

/// A list, or an empty one with what is wrong with the question.
type Found<T> = (Page<T>, Option<String>, Vec<FieldProblem>);

fn or_wrong<T>(found: AppResult<Page<T>>) -> AppResult<Found<T>> {
    match found {
        Ok(page) => Ok((page, None, Vec::new())),
        Err(AppError::Refused { detail, errors, .. }) => {
            let ends = errors.iter().filter_map(|error| {
                let (_, label) = ENDS.into_iter().find(|(name, _)| *name == error.field)?;
                Some(format!("{label}: {}", error.message))
            });
            let ends: Vec<String> = ends.collect();
            let words = if ends.is_empty() { detail } else { ends.join("; ") };
            Ok((whole(Vec::new()), Some(words), errors))
        }
        Err(error) => Err(error),
    }
}

pub(in crate::ui) async fn events(visit: Visit, asked: Asked) -> Answer {
    let overview = overview::get(&visit.state).await?;
    let narrowed =
        Narrowed::read(&asked, "/activity", &["kind", "device", "client", "application", "since", "from", "until"]);
    let found = match narrowed.period(&visit) {
        Ok(Period { since, until }) => {
            let filter = EventsFilter {
                kind: narrowed.given("kind"),
                client: narrowed.given("client"),
                place: narrowed.given("device"),
                application: narrowed.given("application"),
                since: since.map(|at| at.to_string()),
                until: until.map(|at| at.to_string()),
                ..EventsFilter::default()
            };
            events::history(&visit.state, filter, None, Order::Newest, &asked.paging()).await
        }
        Err(error) => Err(error),
    };
    let (page, wrong, errors) = or_wrong(found)?;
    let shell = visit.shell(Section::Activity, "Activity").await?;
    let page = EventsPage {
        events: page.items.into_iter().map(|event| shown(event, &shell, &overview.names)).collect(),
        kinds: KINDS.to_vec(),
        when: narrowed.when(&errors),
        next: narrowed.next(page.next),
        first: narrowed.first(),
        kind: narrowed.text("kind"),
        device: narrowed.given("device").unwrap_or_else(|| narrowed.text("client")),
        application: narrowed.text("application"),
        applications: overview.applications(),
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
    // The mark says the state, the link what and where, and the device is the one that said so: only the rest is news.
    let (sentence, rest, actor) = match rest(&event) {
        Some(rest) => (Markup::default(), shell.prose(&rest), None),
        None => (shell.sentence(&event.message), Markup::default(), event.actor.clone()),
    };
    Shown { event, what, sentence, rest, actor, link, tone }
}

/// Of a device's word about a deployment, what its state does not say.
fn rest(event: &Event) -> Option<String> {
    let (state, device) = (event.kind.strip_prefix("deployment.")?, event.device.as_ref()?);
    let by_itself = event.actor.as_deref()?.strip_prefix("client:") == event.client.as_deref();
    let (_, said) = event.message.split_once(&format!("on `{device}` ")).filter(|_| by_itself)?;
    let known = said.strip_prefix("is ").and_then(|said| said.strip_prefix(state)).or_else(|| said.strip_prefix(state));
    Some(known.unwrap_or(said).trim_start_matches([':', ' ']).to_owned())
}

/// What a record is about, by name, and where it is shown.
pub(in crate::ui) fn about(record: &AuditRecord, names: &HashMap<String, String>) -> (String, Option<String>) {
    let state = record.after.as_ref().or(record.before.as_ref());
    let (noun, rest) = record.subject.split_once('/').unwrap_or((record.subject.as_str(), ""));
    let link = match noun {
        "deployment" => Some(format!("/deployments/{rest}")),
        "change" => Some(format!("/changes/{rest}")),
        "device" => {
            let (client, device) = rest.split_once('/').unwrap_or((rest, rest));
            Some(super::overview::place(client, device))
        }
        "application" => {
            let (id, version) = rest.split_once('/').unwrap_or((rest, ""));
            Some(link(&format!("/catalog/{id}"), &[("version", version)]))
        }
        "group" => Some(format!("/groups/{rest}")),
        "registry" => Some("/settings/registries".to_owned()),
        _ => None,
    };
    (audit::about(&record.subject, state, names), link)
}

pub(in crate::ui) async fn records(visit: Visit, asked: Asked) -> Answer {
    let overview = overview::get(&visit.state).await?;
    let narrowed = Narrowed::read(&asked, "/activity/audit", &["actor", "action", "subject", "since", "from", "until"]);
    let found = match narrowed.period(&visit) {
        Ok(Period { since, until }) => {
            let query = audit::Query {
                actor: narrowed.given("actor"),
                action: narrowed.given("action"),
                about: narrowed.given("subject"),
                of: None,
                since: since.map(|at| at.to_string()),
                until: until.map(|at| at.to_string()),
            };
            audit::search(&visit.state, &query, None, &asked.paging()).await
        }
        Err(error) => Err(error),
    };
    let (page, wrong, errors) = or_wrong(found)?;
    let checked = if asked.get("check").is_some() {
        let found = audit::verify(&visit.state).await?;
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
        actors: audit::actors(&visit.state).await?,
        actions: ACTIONS.to_vec(),
        when: narrowed.when(&errors),
        wrong,
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
    };
    visit.show(&page)
}

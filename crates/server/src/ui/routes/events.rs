//! The events page and the audit log page.

use crate::app::audit;
use crate::app::error::{AppError, AppResult};
use crate::app::events::{self, EventsFilter, Order};
use crate::app::overview;
use crate::app::paging::whole;
use crate::app::period::{self, End, Period};
use crate::ui::markup::Markup;
use crate::ui::routes::heads::Heads;
use crate::ui::routes::query::{Params, link};
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use crate::ui::words::actions as words;
use askama::Template;
use margrave_api::access::AuditRecord;
use margrave_api::deployments::Failing;
use margrave_api::events::Event;
use margrave_api::page::Page;
use margrave_api::problem::FieldProblem;
use margrave_core::time::Timestamp;
use std::collections::HashMap;
use std::time::Duration;

/// Kinds in the filter, with their labels.
const KINDS: [(&str, &str); 9] = [
    ("deployment.failed", "Failures"),
    ("deployment", "Deployments"),
    ("rollout", "Rollouts"),
    ("client.offline", "Connectivity"),
    ("client", "Device identities"),
    ("device", "Devices"),
    ("application", "Catalog"),
    ("group", "Groups"),
    ("session", "Sign-ins"),
];
const ACTIONS: [(&str, &str); 11] = [
    ("rollout", "Rollouts"),
    ("deployment", "Deployments"),
    ("client", "Device identities"),
    ("device", "Devices"),
    ("group", "Groups"),
    ("application", "Catalog"),
    ("registry", "Registries"),
    ("token", "Tokens"),
    ("session", "Sessions"),
    ("operator", "Passwords"),
    ("enrollment-token", "Enrollment tokens"),
];
const SPANS: [(&str, &str, u64); 4] = [
    ("hour", "Last hour", 1),
    ("day", "Last 24 hours", 24),
    ("week", "Last 7 days", 24 * 7),
    ("month", "Last 30 days", 24 * 30),
];

/// The fields of a period.
const ENDS: [(&str, &str); 2] = [("from", "From"), ("until", "Until")];

#[derive(Template)]
#[template(path = "events.html", blocks = ["live", "nav"])]
struct EventsPage {
    shell: Shell,
    heads: Heads,
    /// Newest first.
    newest: bool,
    events: Vec<EventRow>,
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

struct EventRow {
    event: Event,
    /// The label of its kind.
    what: String,
    /// What it is about, if there is no link to it.
    subject: Markup,
    /// What it says beyond that.
    rest: Markup,
    /// Of a failure that still stands.
    failing: Option<Failing>,
    actor: Option<String>,
    /// Address and label of the link.
    link: Option<(String, String)>,
    tone: &'static str,
}

#[derive(Template)]
#[template(path = "audit.html", blocks = ["live", "nav"])]
struct AuditPage {
    shell: Shell,
    heads: Heads,
    /// Newest first.
    newest: bool,
    records: Vec<AuditRow>,
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

/// A record as it is shown.
struct AuditRow {
    record: AuditRecord,
    /// The label of its action.
    what: String,
    about: String,
    link: Option<String>,
    text: String,
}

/// The filter of a list, and links to its other pages.
struct ListFilter {
    path: &'static str,
    members: Vec<(&'static str, String)>,
    /// This is not the first page.
    later: bool,
}

impl ListFilter {
    fn read(params: &Params, path: &'static str, names: &[&'static str]) -> Self {
        let members = names.iter().map(|name| (*name, params.text(name))).collect();
        Self { path, members, later: params.get("after").is_some() }
    }

    fn text(&self, name: &str) -> String {
        self.given(name).unwrap_or_default()
    }

    fn given(&self, name: &str) -> Option<String> {
        let found = self.members.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }

    /// The same list with one more parameter.
    fn with(&self, name: &'static str, value: &str) -> String {
        let mut members: Vec<(&str, &str)> = self.members.iter().map(|(name, value)| (*name, value.as_str())).collect();
        members.push((name, value));
        link(self.path, &members)
    }

    /// Newest first, unless `sort` says otherwise.
    fn order(&self) -> Order {
        if self.text("sort") == "time" { Order::Oldest } else { Order::Newest }
    }

    /// The heads of the table; the order that is shown is always marked.
    fn heads(&self) -> Heads {
        let members: Vec<(&str, &str)> = self
            .members
            .iter()
            .filter(|(name, _)| *name != "sort")
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        Heads::new(self.path, &members, if self.order() == Order::Oldest { "time" } else { "-time" })
    }

    fn next(&self, next: Option<String>) -> Option<String> {
        next.map(|next| self.with("after", &next))
    }

    fn first(&self) -> Option<String> {
        self.later.then(|| self.with("after", ""))
    }

    /// The selected period: the time span and both ends, combined with AND.
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
            let (kind, value) = end_input(&value, period::instant(&value, name == "until"));
            EndField { name, label, kind, value, wrong }
        };
        When {
            since: self.text("since"),
            spans: SPANS.map(|(word, name, _)| (word, name)),
            ends: ENDS.map(|(name, label)| end(name, label)),
        }
    }
}

/// The fields for the time.
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

/// The input for an end of the period: a date and time in UTC, which the script shows in local time. A value that is
/// none stays visible in a text field.
fn end_input(value: &str, read: Option<Timestamp>) -> (&'static str, String) {
    match read {
        None if value.is_empty() => ("datetime-local", String::new()),
        None => ("text", value.to_owned()),
        Some(at) => ("datetime-local", at.to_string().chars().take("2026-09-21T08:00".len()).collect()),
    }
}

/// A list, or an empty one with what is wrong with the query.
type Found<T> = (Page<T>, Option<String>, Vec<FieldProblem>);

fn or_filter_errors<T>(found: AppResult<Page<T>>) -> AppResult<Found<T>> {
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

pub(in crate::ui) async fn events(visit: Visit, params: Params) -> PageResult {
    let overview = overview::get(&visit.state).await?;
    let narrowed = ListFilter::read(
        &params,
        "/events",
        &["kind", "device", "client", "application", "since", "from", "until", "sort"],
    );
    let order = narrowed.order();
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
            events::history(&visit.state, filter, None, order, &params.paging()).await
        }
        Err(error) => Err(error),
    };
    let (page, wrong, errors) = or_filter_errors(found)?;
    let shell = visit.shell(Section::Activity, "Events").await?;
    let mut failing = events::failing(&visit.state, &page.items).await?;
    let page = EventsPage {
        heads: narrowed.heads(),
        newest: order == Order::Newest,
        events: page
            .items
            .into_iter()
            .map(|event| EventRow { failing: failing.remove(&event.id), ..shown(event, &shell, &overview.names) })
            .collect(),
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

fn shown(event: Event, shell: &Shell, names: &HashMap<String, String>) -> EventRow {
    let tone = match event.kind.as_str() {
        "deployment.failed" => "bad",
        "client.offline" => "warn",
        "deployment.installed" | "client.online" | "client.connected" => "good",
        _ => "idle",
    };
    let application = event.application.as_ref().map(|id| names.get(id).unwrap_or(id).clone());
    let link = if let Some(id) = &event.deployment {
        let place = event.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
        let name = application.unwrap_or_else(|| "This deployment".to_owned());
        Some((format!("/deployments/{id}"), format!("{name}{place}")))
    } else if let Some(id) = &event.rollout {
        let name = application.map_or_else(|| "Rollout".to_owned(), |name| format!("Rollout of {name}"));
        Some((format!("/rollouts/{id}"), name))
    } else if let (Some(client), Some(device)) = (&event.client, &event.device) {
        Some((super::overview::place(client, device), format!("Device {device}")))
    } else {
        event.application.as_ref().map(|id| (format!("/catalog/{id}"), application.unwrap_or_else(|| id.clone())))
    };
    let what = words::happened(&event.kind);
    // The badge shows what happened and the link to what: each is named once.
    let subject = match &link {
        Some(_) => Markup::default(),
        None => shell.sentence(&events::subject_name(&event)),
    };
    let rest = shell.prose(&events::remark(&event));
    // A device that reports about its own deployment is named by the link.
    let by_device =
        |actor: &String| actor.strip_prefix("client:").is_some_and(|id| event.client.as_deref() == Some(id));
    let actor = event.actor.clone().filter(|actor| !by_device(actor));
    EventRow { event, what, subject, rest, failing: None, actor, link, tone }
}

/// The target of a record, by name, and its page.
pub(in crate::ui) fn about(record: &AuditRecord, names: &HashMap<String, String>) -> (String, Option<String>) {
    let state = record.after.as_ref().or(record.before.as_ref());
    let (noun, rest) = record.subject.split_once('/').unwrap_or((record.subject.as_str(), ""));
    let link = match noun {
        "deployment" => Some(format!("/deployments/{rest}")),
        "rollout" => Some(format!("/rollouts/{rest}")),
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

pub(in crate::ui) async fn records(visit: Visit, params: Params) -> PageResult {
    let overview = overview::get(&visit.state).await?;
    let narrowed =
        ListFilter::read(&params, "/audit", &["actor", "action", "subject", "since", "from", "until", "sort"]);
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
            audit::search(&visit.state, &query, None, narrowed.order(), &params.paging()).await
        }
        Err(error) => Err(error),
    };
    let (page, wrong, errors) = or_filter_errors(found)?;
    let checked = if params.get("check").is_some() {
        let found = audit::verify(&visit.state).await?;
        let words = match found.broken_at {
            None => format!("Verified: {} records, no gaps or changes.", found.records),
            Some(seq) => {
                format!("Verification failed at record {seq}: this record or the one before it was changed or removed.")
            }
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
        heads: narrowed.heads(),
        newest: narrowed.order() == Order::Newest,
        shell: visit.shell(Section::Activity, "Audit log").await?,
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
                AuditRow { text: detail(&record), what: words::done(&record.action), about, link, record }
            })
            .collect(),
        checked,
        actor: narrowed.text("actor"),
        action: narrowed.text("action"),
        subject: narrowed.text("subject"),
    };
    visit.show(&page)
}

//! A single device: capabilities, workloads, labels, events.

use super::{Row, client_state, delete_record, label, row};
use crate::app::events::{self, EventsFilter};
use crate::app::paging::Paging;
use crate::app::value_format::plain;
use crate::app::{clients, deployments, explain, fleet, overview};
use crate::ui::chart;
use crate::ui::errors::UiError;
use crate::ui::form::{Form, Posted};
use crate::ui::markup::Markup;
use crate::ui::routes::deployments::list::unexplained_error;
use crate::ui::routes::query::{Params, device_link};
use crate::ui::routes::why::{Part, why};
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use indexmap::IndexMap;
use margrave_api::clients::{Client, ClientState};
use margrave_api::deployments::{Deployment, Desired, Failing};
use margrave_api::devices::known;
use margrave_api::events::Event;

/// Devices of the same client that are shown; the device list shows the rest.
const FAMILY_MAX: u32 = 200;
const EVENTS_MAX: u32 = 15;
/// Offline and online events in the connectivity chart; with more events, the chart starts at the oldest of these.
const CONTACTS_MAX: u32 = 200;
const DEPLOYMENTS_MAX: u32 = 50;

#[derive(Template)]
#[template(path = "devices/detail.html", blocks = ["live", "nav"])]
pub(super) struct DetailPage {
    shell: Shell,
    row: Row,
    /// Connectivity over the last day.
    contact: Markup,
    client: Client,
    accepted: bool,
    waiting: bool,
    /// As in the list of clients.
    standing: Markup,
    tone: &'static str,
    summary: String,
    why: Vec<Part>,
    workloads: Vec<Workload>,
    facts: Vec<Offer>,
    device_labels: Vec<(String, String)>,
    operator_labels: Vec<(String, String)>,
    new_label: (String, String),
    /// Label names with different values from the device and from an operator.
    twice: Vec<String>,
    comment: String,
    parent: Option<(String, String)>,
    children: Vec<Row>,
    /// With the failure that still stands, for its event.
    events: Vec<(Event, Option<Failing>)>,
    raw: String,
    pub(super) wrong: Option<FormErrors>,
}
pages!(DetailPage);

/// Why labels were not saved.
pub(super) struct FormErrors {
    /// For `data-reason`.
    pub(super) code: &'static str,
    pub(super) title: String,
    /// Element id, and what is wrong.
    pub(super) errors: Vec<(&'static str, String)>,
}

/// A capability that the device reports.
#[derive(Debug, PartialEq, Eq)]
struct Offer {
    name: &'static str,
    value: String,
    /// As the device sent it, if it is shown differently.
    sent: Option<String>,
}

struct Workload {
    name: String,
    state: Markup,
    /// It should run here; otherwise it is being removed.
    desired: bool,
    /// What the device last reported about it.
    reported: Markup,
    history: Markup,
    error: Option<String>,
    deployment: Deployment,
}

pub(in crate::ui) async fn show(
    visit: Visit,
    params: Params,
    Path((client, device)): Path<(String, String)>,
) -> PageResult {
    if params.get("ask").as_deref() == Some("delete") {
        return delete_record::confirm(&visit, &client, &device).await;
    }
    let page = page(&visit, &client, &device, None).await?;
    visit.show(&page)
}

pub(super) async fn page(
    visit: &Visit,
    client: &str,
    device: &str,
    typed: Option<&Form>,
) -> Result<DetailPage, UiError> {
    let state = &visit.state;
    let listed = fleet::get(state, client, device).await?;
    let overview = overview::get(state).await?;
    let identity = clients::get(state, client).await?;
    let query =
        deployments::Query { client: Some(client.to_owned()), with_absent: true, ..deployments::Query::default() };
    let all = deployments::list(state, &query, &Paging { limit: Some(DEPLOYMENTS_MAX), after: None }).await?.items;
    let shell = visit.shell(Section::Devices, format!("{device} - Device")).await?;
    let mut workloads = Vec::new();
    for deployment in all.into_iter().filter(|deployment| is_here(deployment, device)) {
        let removing = deployment.desired == Desired::Absent;
        if deployment.state == margrave_api::deployments::DeploymentState::Removed {
            continue;
        }
        let history = deployments::status_history(state, &deployment.id).await?.items;
        let mut errors = deployment.said_wrong().into_iter().flat_map(|status| {
            status.components.iter().filter_map(|component| component.error.as_ref()).chain(status.error.as_ref())
        });
        workloads.push(Workload {
            name: overview.names.get(&deployment.application).unwrap_or(&deployment.application).clone(),
            state: words::deployment_state_badge(deployment.state).into(),
            desired: !removing,
            reported: words::reported_maybe(deployment.reported.as_ref().map(|status| status.state.as_str())),
            history: chart::history(&history, shell.now),
            error: unexplained_error(&deployment.explanation, errors.next()),
            deployment,
        });
    }
    let family = fleet::family(state, client, &Paging { limit: Some(FAMILY_MAX), after: None }).await?.items;
    let below = format!("{device}/");
    let children = family
        .into_iter()
        .filter(|one| one.device.device.strip_prefix(&below).is_some_and(|rest| !rest.contains('/')))
        .map(|one| row(one, &overview.names))
        .collect();
    let filter =
        EventsFilter { client: Some(client.to_owned()), device: Some(device.to_owned()), ..EventsFilter::default() };
    let mut events = events::lately(state, filter, EVENTS_MAX).await?;
    // Offline and online events belong to the client.
    let of_client =
        EventsFilter { client: Some(client.to_owned()), kind: Some("client".to_owned()), ..EventsFilter::default() };
    let contacts = events::lately(state, of_client, CONTACTS_MAX).await?;
    let contact = chart::contact(&contacts, shell.now, !listed.device.offline);
    events.extend(contacts.into_iter().take(EVENTS_MAX as usize));
    events.sort_by_key(|event| std::cmp::Reverse(event.id));
    events.dedup_by_key(|event| event.id);
    events.truncate(EVENTS_MAX as usize);
    let mut failing = events::failing(state, &events).await?;
    let with_failure = |event: Event| {
        let failing = failing.remove(&event.id);
        (event, failing)
    };
    let events = events.into_iter().map(with_failure).collect();
    let explanation = explain::device(state, client, device).await?;
    let (operator_labels, new_label) = labels(&listed.device.operator_labels, typed);
    Ok(DetailPage {
        why: why(&explanation, false),
        summary: explanation.summary,
        accepted: identity.state == ClientState::Accepted,
        waiting: identity.state == ClientState::Pending,
        standing: client_state(identity.state),
        tone: words::device_badge(listed.device.state).tone,
        client: identity,
        workloads,
        facts: facts(listed.device.capabilities.as_ref()),
        contact,
        device_labels: listed.device.device_labels.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        operator_labels,
        new_label,
        twice: twice(&listed.device),
        comment: typed.map(|form| form.text("comment").to_owned()).unwrap_or_default(),
        parent: device.rsplit_once('/').map(|(parent, _)| (parent.to_owned(), device_link(client, parent))),
        children,
        events,
        raw: listed
            .device
            .capabilities
            .as_ref()
            .and_then(|document| serde_json::to_string_pretty(document).ok())
            .unwrap_or_default(),
        wrong: None,
        row: row(listed, &overview.names),
        shell,
    })
}

/// On the device itself, or placed by it as a gateway.
fn is_here(deployment: &Deployment, device: &str) -> bool {
    deployment.device == device || deployment.device.strip_suffix("/*") == Some(device)
}

/// Labels with different values from the device and from an operator.
fn twice(device: &margrave_api::devices::Device) -> Vec<String> {
    let differs = |(name, own): &(&String, &String)| {
        device.device_labels.get(*name).is_some_and(|reported| plain(reported) != **own)
    };
    device.operator_labels.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

type Labels = Vec<(String, String)>;

/// The labels as stored, or as just typed.
fn labels(stored: &IndexMap<String, String>, typed: Option<&Form>) -> (Labels, (String, String)) {
    let of = |name: &String, value: &String| {
        let typed =
            typed.and_then(|form| form.raw(&format!("label:{name}"))).map_or_else(|| value.clone(), str::to_owned);
        (name.clone(), typed)
    };
    let new = typed.map_or_else(Default::default, |form| (form.text("name").to_owned(), form.text("value").to_owned()));
    (stored.iter().map(|(name, value)| of(name, value)).collect(), new)
}

/// Hardware and capabilities.
fn facts(capabilities: Option<&serde_json::Value>) -> Vec<Offer> {
    let Some(properties) = capabilities.and_then(|document| document.get("properties")) else { return Vec::new() };
    let text = |name: &str| properties.get(name).map(plain).and_then(|text| known(&text).map(ToOwned::to_owned));
    let list = |name: &str, of: &dyn Fn(&serde_json::Value) -> String| {
        let items = properties.get(name)?.as_array()?.iter().map(of).filter(|item| !item.is_empty());
        Some(items.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
    };
    let cpu = |cpu: &serde_json::Value| {
        let cores = cpu.get("cores").map(plain).unwrap_or_default();
        let cores = if cores == "1" || cores == "1.0" { "1 core".to_owned() } else { format!("{cores} cores") };
        let architecture = cpu.get("architecture").map(plain).unwrap_or_default();
        format!("{cores} {architecture}").trim().to_owned()
    };
    let kind = |thing: &serde_json::Value| {
        let part = |name: &str| thing.get(name).map(plain).unwrap_or_default();
        [part("type"), part("manufacturer"), part("model")].join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    [
        ("Vendor", text("vendor")),
        ("Model", text("modelNumber")),
        ("Serial number", text("serialNumber")),
        ("Processor", list("cpus", &cpu)),
        ("Memory", text("memory")),
        ("Storage", text("storage")),
        ("Deployment types", list("supportedDeploymentTypes", &plain)),
        ("Runtimes", list("supportedRuntimes", &plain)),
        ("Peripherals", list("peripherals", &kind)),
        ("Interfaces", list("interfaces", &kind)),
    ]
    .into_iter()
    .filter_map(|(name, value)| {
        let sent = value?;
        let readable = if matches!(name, "Memory" | "Storage") { words::quantity(&sent) } else { None };
        Some(match readable {
            Some(value) => Offer { name, value, sent: Some(sent) },
            None => Offer { name, value: sent, sent: None },
        })
    })
    .collect()
}

pub(in crate::ui) async fn act(Path((client, device)): Path<(String, String)>, posted: Posted) -> PageResult {
    match posted.form.text("action") {
        "forget" => delete_record::act(&client, &device, posted).await,
        _ => label::act(&client, &device, posted).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shows_readable_capabilities_and_keeps_reported_values() {
        let document = json!({"properties": {
            "vendor": "unknown", "modelNumber": "Unknown", "serialNumber": "7",
            "memory": "24105Mi", "storage": "as much as it takes",
        }});
        let offer = |name, value: &str, sent: Option<&str>| Offer {
            name,
            value: value.to_owned(),
            sent: sent.map(str::to_owned),
        };
        let expected = [
            offer("Serial number", "7", None),
            offer("Memory", "23.5 GiB", Some("24105Mi")),
            offer("Storage", "as much as it takes", None),
        ];
        assert_eq!(facts(Some(&document)), expected);
    }
}

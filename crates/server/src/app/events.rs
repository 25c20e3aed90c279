//! Events: pages of the history, and streams of new ones.

pub mod stream;
pub mod streams;

use super::error::{AppError, AppResult};
use super::paging::{Paging, page};
use super::period::{End, Period};
use crate::state::ServerState;
use margo::ids::DeploymentId;
use margrave_api::deployments::Failing;
use margrave_api::events as wire;
use margrave_api::page::Page;
use margrave_core::events::{About, Event, NewEvent, message};
use margrave_store::{EventFilter, EventOrder, EventRange, FailedAttempts};
use std::collections::HashMap;

/// Events scanned for recent ones.
const RECENT_EVENTS: i64 = 20_000;
/// Longest name in a filter; no name is longer.
const NAME_CHARS_MAX: usize = 500;

/// Filter for events.
#[derive(Debug, Clone, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct EventsFilter {
    /// A kind or its prefix up to a dot: `deployment` finds `deployment.failed`.
    pub kind: Option<String>,
    /// Only events of this client.
    pub client: Option<String>,
    /// Only events of this device, by the id that its client gave it.
    pub device: Option<String>,
    /// Only events of this deployment.
    pub deployment: Option<String>,
    /// Only events of this application.
    pub application: Option<String>,
    /// Only events of this rollout.
    pub rollout: Option<String>,
    /// Not older than this time (RFC 3339, or a day in UTC).
    pub since: Option<String>,
    /// Older than this time, or not newer than this day.
    pub until: Option<String>,
    /// Part of the name of the client or the device; used by pages only.
    #[serde(skip)]
    #[param(ignore)]
    pub place: Option<String>,
}

impl EventsFilter {
    fn read(self) -> AppResult<EventFilter> {
        let Self { kind, client, device, deployment, application, rollout, since, until, place } = self;
        let Period { since, until } = Period::read(
            End { field: "since", text: since.as_deref() },
            End { field: "until", text: until.as_deref() },
        )?;
        Ok(EventFilter {
            kind: named("kind", kind)?,
            client: named("client", client)?,
            device: named("device", device)?,
            deployment: named("deployment", deployment)?,
            application: named("application", application)?,
            rollout: named("rollout", rollout)?,
            place: named("device", place)?,
            since,
            until,
        })
    }
}

fn named(field: &str, name: Option<String>) -> AppResult<Option<String>> {
    match name {
        Some(name) if name.is_empty() || name.chars().count() > NAME_CHARS_MAX => {
            Err(AppError::invalid(field, format!("write 1 to {NAME_CHARS_MAX} characters, or omit it")))
        }
        name => Ok(name),
    }
}

/// Which end of the history comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    #[default]
    Newest,
    Oldest,
}

impl From<Order> for EventOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Newest => Self::NewestFirst,
            Order::Oldest => Self::OldestFirst,
        }
    }
}

pub async fn history(
    state: &ServerState,
    filter: EventsFilter,
    newer_than: Option<i64>,
    order: Order,
    paging: &Paging,
) -> AppResult<Page<wire::Event>> {
    let (filter, limit, after) = (filter.read()?, paging.limit()?, paging.after::<i64>()?);
    let mut range = EventRange { above: newer_than.unwrap_or(0), ..EventRange::ALL };
    match order {
        Order::Newest => range.below = after.unwrap_or(range.below),
        Order::Oldest => range.above = after.unwrap_or(range.above).max(range.above),
    }
    let rows = state.store.events_page(&filter, range, order.into(), limit + 1).await?;
    Ok(page(rows, limit, |event| event.id.to_string(), to_wire))
}

/// The newest matching event among the recent ones; scanning further back would read the whole history.
pub async fn lately(state: &ServerState, filter: EventsFilter, limit: u32) -> AppResult<Vec<wire::Event>> {
    let above = state.store.events_newest().borrow().saturating_sub(RECENT_EVENTS);
    let range = EventRange { above: above.max(0), ..EventRange::ALL };
    let rows = state.store.events_page(&filter.read()?, range, EventOrder::NewestFirst, limit).await?;
    Ok(rows.into_iter().map(to_wire).collect())
}

fn to_wire(event: Event) -> wire::Event {
    let Event { id, at, what: NewEvent { kind, about, actor, detail } } = event;
    let message = message(&kind, &about, detail.as_ref());
    let About { client, device, deployment, application, rollout } = about;
    wire::Event {
        id,
        at: at.to_string(),
        kind,
        client,
        device,
        deployment,
        application,
        rollout,
        actor,
        message,
        detail,
    }
}

/// What an event says beyond its kind and its subject.
pub fn remark(event: &wire::Event) -> String {
    margrave_core::events::remark(&event.kind, event.detail.as_ref())
}

/// The subject of an event.
pub fn subject_name(event: &wire::Event) -> String {
    let wire::Event { kind, client, device, deployment, application, rollout, detail, .. } = event.clone();
    let about = About { client, device, deployment, application, rollout };
    margrave_core::events::subject_name(&kind, &about, detail.as_ref())
}

/// Since when and how often the deployments of these events fail, for each failure that still stands, by the id of the
/// newest of these events that reported it. Retries are counted there and are no events of their own.
pub async fn failing(state: &ServerState, events: &[wire::Event]) -> AppResult<HashMap<i64, Failing>> {
    let mut newest: HashMap<DeploymentId, &wire::Event> = HashMap::new();
    for event in events.iter().filter(|event| event.kind == "deployment.failed") {
        if let Some(id) = event.deployment.as_deref().and_then(|id| id.parse().ok()) {
            let known = newest.entry(id).or_insert(event);
            if event.id > known.id {
                *known = event;
            }
        }
    }
    let ids: Vec<DeploymentId> = newest.keys().copied().collect();
    let mut found = HashMap::new();
    for (id, FailedAttempts { since, last_at, attempts }) in state.store.failed_attempts(&ids).await? {
        // An older event reported an earlier failure that is over.
        let stands =
            |event: &&&wire::Event| event.at.parse::<jiff::Timestamp>().is_ok_and(|at| at.as_microsecond() >= since.0);
        if let Some(event) = newest.get(&id).filter(stands) {
            let failing = Failing { since: since.to_string(), attempts, last_at: last_at.to_string() };
            found.insert(event.id, failing);
        }
    }
    Ok(found)
}

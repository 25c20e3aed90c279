//! `/api/events`.

use crate::app::error::{AppError, Code};
use crate::app::events::stream::{self, StreamToken};
use crate::app::events::{self, EventsFilter, Order};
use crate::app::paging::Paging;
use crate::operators::extract::Query;
use crate::operators::problems::{Answer, ApiError};
use crate::state::ServerState;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::{HeaderMap, HeaderValue, header};
use margrave_api::events::Event;
use margrave_api::page::Page;
use std::convert::Infallible;

/// Which part of the history.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// Only events with a greater id than this.
    newer_than: Option<i64>,
    /// `newest` (unless given) or `oldest` first.
    #[serde(default)]
    #[param(required = false, inline)]
    order: Order,
}

/// Start of a stream.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// Id of the last event seen; 0 for all kept events; omitted, only new events. `Last-Event-ID` takes precedence.
    #[param(minimum = 0)]
    after: Option<i64>,
}

/// Lists events, newest first unless requested otherwise; only the newest events are kept.
#[utoipa::path(get, path = "/api/events", tag = "events", params(EventsFilter, HistoryQuery, Paging),
    responses((status = 200, body = Page<Event>)))]
pub(super) async fn list_events(
    State(state): State<ServerState>,
    Query(filter): Query<EventsFilter>,
    Query(query): Query<HistoryQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Event>>> {
    Ok(Json(events::history(&state, filter, query.newer_than, query.order, &paging).await?))
}

/// Streams events from now on, or after a given event, as server-sent events.
///
/// Each event has its `id` and, as `data`, the same JSON as in the list. `event: gap` means that events after the
/// resume position are no longer kept. A stream ends when the server stops or the token is revoked; reconnect with
/// `Last-Event-ID` to continue without loss or duplicates.
#[utoipa::path(get, path = "/api/events/stream", tag = "events",
    params(EventsFilter, StreamQuery, ("Last-Event-ID" = Option<i64>, Header, description = "Id of the last event seen")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(super) async fn stream_events(
    State(state): State<ServerState>,
    Extension(opener): Extension<StreamToken>,
    headers: HeaderMap,
    Query(filter): Query<EventsFilter>,
    Query(query): Query<StreamQuery>,
) -> Answer<Response> {
    let after = last_event_id(&headers)?.or(query.after);
    let receiver = stream::open(&state, opener, filter, after).await?;
    let chunks = futures_util::stream::unfold(receiver, async |mut receiver| {
        let chunk = receiver.recv().await?;
        Some((Ok::<_, Infallible>(chunk), receiver))
    });
    let mut response = Body::from_stream(chunks).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Buffering proxies would delay events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    // Browsers send it empty when they have seen none.
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let detail = "`Last-Event-ID` must be the id of an event, a number";
        ApiError(AppError::refused(Code::Malformed, detail))
    })
}

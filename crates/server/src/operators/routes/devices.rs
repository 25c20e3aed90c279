//! `/api/devices`.

use crate::app::devices;
use crate::app::error::AppError;
use crate::app::fleet::{self, Search};
use crate::app::paging::Paging;
use crate::app::sorting::Order;
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, IfMatch, JsonBody, Path, Query, Tagged};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use margrave_api::devices::{Device, UpdateDevice};
use margrave_api::page::Page;
use margrave_core::model::DeviceState;

/// Filter for devices.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeviceQuery {
    /// Label selector such as `site=berlin,line in (1,2),!spare`.
    selector: Option<String>,
    /// Only devices of this client; not together with `text`, `state` or `sort`.
    client: Option<String>,
    /// Only devices with this in their id or the id of their client.
    text: Option<String>,
    /// Only devices in this state: `online`, `updating`, `degraded`, `failed`, `offline`, `blocked`.
    state: Option<String>,
    /// Sorts by `device`, `state`, `site` or `last-seen`, with `-` in front descending; not together with `client`.
    sort: Option<String>,
}

/// Lists devices in order of client and id, or of a column.
#[utoipa::path(get, path = "/api/devices", tag = "devices", params(DeviceQuery, Paging),
    responses((status = 200, body = Page<Device>)))]
pub(super) async fn list_devices(
    State(state): State<ServerState>,
    Query(query): Query<DeviceQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Device>>> {
    let DeviceQuery { selector, client, text, state: how, sort } = query;
    if text.is_none() && how.is_none() && sort.is_none() {
        return Ok(Json(devices::list(&state, selector.as_deref(), client.as_deref(), &paging).await?));
    }
    if client.is_some() {
        return Err(AppError::invalid("client", "omit it, and use the client as `text`").into());
    }
    let search =
        Search { text, labels: selector, state: how.map(|word| in_state(&word)).transpose()?, ..Search::default() };
    let order = Order::of_call(sort.as_deref())?;
    let Page { items, next } = fleet::list(&state, &search, order, &paging).await?.completed()?;
    Ok(Json(Page { items: items.into_iter().map(|listed| listed.device).collect(), next }))
}

fn in_state(word: &str) -> Result<DeviceState, AppError> {
    DeviceState::parse(word).ok_or_else(|| {
        let all: Vec<String> = DeviceState::ALL.iter().map(|state| format!("`{}`", state.as_str())).collect();
        AppError::invalid("state", format!("write one of {}", all.join(", ")))
    })
}

/// Returns one device, with its capabilities as received.
#[utoipa::path(get, path = "/api/devices/{client}/{*device}", tag = "devices",
    params(("client" = String, Path), ("device" = String, Path, description = "Device id; slashes are not escaped")),
    responses((status = 200, body = Device, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn get_device(
    State(state): State<ServerState>,
    Path((client, device)): Path<(String, String)>,
) -> Answer<Tagged<Device>> {
    let device = devices::get(&state, &client, &device).await?;
    Ok(Tagged::ok(device.revision, device))
}

/// Sets and removes operator labels.
#[utoipa::path(patch, path = "/api/devices/{client}/{*device}", tag = "devices", request_body = UpdateDevice,
    params(("client" = String, Path), ("device" = String, Path, description = "Device id; slashes are not escaped"),
        ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw")),
    responses((status = 200, body = Device, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn update_device(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((client, device)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<UpdateDevice>,
) -> Answer<Tagged<Device>> {
    let device = devices::update(&state, &caller, &client, &device, body, expected).await?;
    Ok(Tagged::ok(device.revision, device))
}

/// Deletes the record of a device and its children until their client reports them again.
#[utoipa::path(delete, path = "/api/devices/{client}/{*device}", tag = "devices",
    params(("client" = String, Path), ("device" = String, Path, description = "Device id; slashes are not escaped"),
        ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw"), CommentQuery),
    responses((status = 204)))]
pub(super) async fn delete_device(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((client, device)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    Query(reason): Query<CommentQuery>,
) -> Answer<StatusCode> {
    devices::delete(&state, &caller, &client, &device, reason.comment, expected).await?;
    Ok(StatusCode::NO_CONTENT)
}

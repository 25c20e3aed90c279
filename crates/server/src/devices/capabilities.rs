//! `PUT` and `DELETE /api/v1/capabilities/{deviceId}` (CAP-03 to CAP-05, GW-02).

use super::CAPABILITIES_BYTES_MAX;
use super::caller::Caller;
use super::queue::WriteRefused;
use crate::problems::{self, Answer, Refusal};
use crate::state::ServerState;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse as _;
use http::StatusCode;
use indexmap::IndexMap;
use margo::capabilities::DeviceCapabilities;
use margo::ids::DeviceId;
use margo::problem::ProblemType;
use margrave_core::model::DeviceKey;
use margrave_store::{DevicePut, DeviceWrite};
use serde_json::Value;

/// Labels of one device, counting each value of a list; people select devices by a handful.
const LABELS_MAX: usize = 256;
const LABEL_KEY_BYTES_MAX: usize = 256;
const LABEL_VALUE_BYTES_MAX: usize = 1024;

pub(super) async fn put(
    State(state): State<ServerState>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let Path(text) = path.map_err(|error| Refusal::invalid(error.body_text()))?;
    let device: DeviceId = text.parse().map_err(|error| Refusal::invalid(format!("{error}.")))?;
    let body = problems::body(request, CAPABILITIES_BYTES_MAX).await?;
    let unknown_types = state.config.capabilities.unknown_types.into();
    let read = DeviceCapabilities::read(&body, unknown_types)
        .map_err(|findings| Refusal::document("capabilities report", &body, &findings))?;
    for warning in &read.warnings {
        tracing::debug!(device.id = %device, %warning, "unusual capabilities");
    }
    let capabilities = read.document;
    if capabilities.properties.id != device {
        // CAP-05
        return Err(Refusal::one_field(
            "properties.id",
            format!("`{}` is not the device id `{device}` of the address.", capabilities.properties.id),
        ));
    }
    if let Some((field, message)) = odd_label(&capabilities.labels) {
        return Err(Refusal::one_field(&field, message));
    }
    let key = DeviceKey { client: caller.client, device };
    let report = DeviceWrite { key, capabilities, body: body.to_vec(), received_at: state.now() };
    match state.capabilities.write(report).await {
        Ok(DevicePut::Created) => Ok(StatusCode::CREATED.into_response()),
        Ok(DevicePut::Updated) => Ok(StatusCode::OK.into_response()),
        Ok(DevicePut::GatewayNotFound) => Err(Refusal::new(
            ProblemType::GatewayNotFound,
            StatusCode::NOT_FOUND,
            "Report the gateway of this device first.",
        )),
        Err(WriteRefused::Busy) => Err(Refusal::busy("Too many capability reports are waiting to be written.")),
        Err(WriteRefused::Full) => Err(Refusal::busy("The server is out of disk space; nothing was changed.")),
        Err(WriteRefused::Failed) => Err(Refusal::internal()),
    }
}

/// Every label becomes an index row, on databases that limit the length of an entry and reject NUL.
fn odd_label(labels: &IndexMap<String, Value>) -> Option<(String, String)> {
    let values = |value: &Value| value.as_array().map_or(1, Vec::len);
    let count: usize = labels.values().map(values).sum();
    if count > LABELS_MAX {
        return Some(("labels".to_owned(), format!("{count} labels and values; {LABELS_MAX} at most.")));
    }
    labels.iter().find_map(|(key, value)| {
        if key.len() > LABEL_KEY_BYTES_MAX || key.contains('\0') {
            let message = format!("A key has at most {LABEL_KEY_BYTES_MAX} bytes and no NUL.");
            return Some(("labels".to_owned(), message));
        }
        let odd = |value: &Value| {
            value.as_str().is_some_and(|text| text.len() > LABEL_VALUE_BYTES_MAX || text.contains('\0'))
        };
        let any_odd = odd(value) || value.as_array().is_some_and(|items| items.iter().any(odd));
        let message = || format!("A value has at most {LABEL_VALUE_BYTES_MAX} bytes and no NUL.");
        any_odd.then(|| (format!("labels.{key}"), message()))
    })
}

pub(super) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
) -> Answer {
    let not_found =
        || Refusal::new(ProblemType::DeviceNotFound, StatusCode::NOT_FOUND, "This client has no device with this id.");
    // An invalid id cannot have been reported.
    let device = path.ok().and_then(|Path(text)| text.parse::<DeviceId>().ok()).ok_or_else(not_found)?;
    let actor = caller.actor();
    let key = DeviceKey { client: caller.client, device };
    match state.store.device_delete(&actor, &key, state.now()).await {
        Ok(true) => Ok(StatusCode::NO_CONTENT.into_response()),
        Ok(false) => Err(not_found()),
        Err(error) => {
            state.metrics.store_error();
            Err(Refusal::store(&error))
        }
    }
}

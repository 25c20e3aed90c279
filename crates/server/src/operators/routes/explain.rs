//! Status explained.

use crate::app::explain;
use crate::operators::extract::Path;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::explain::Explanation;
use std::time::Duration;

/// How long a call waits for all devices to be evaluated; then it reports how many were.
const PATIENCE: Duration = Duration::from_secs(20);

/// Explains the status of a deployment: desired, observed, waiting for, next steps.
#[utoipa::path(get, path = "/api/deployments/{id}/explain", tag = "deployments", params(("id" = String, Path)),
    responses((status = 200, body = Explanation)))]
pub(super) async fn explain_deployment(
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Answer<Json<Explanation>> {
    Ok(Json(explain::deployment(&state, &id).await?))
}

/// Explains the status of a device. Not below `/api/devices`, where everything after the client is the device id.
#[utoipa::path(get, path = "/api/explain/devices/{client}/{*device}", tag = "devices",
    params(("client" = String, Path), ("device" = String, Path, description = "Device id; slashes are not escaped")),
    responses((status = 200, body = Explanation)))]
pub(super) async fn explain_device(
    State(state): State<ServerState>,
    Path((client, device)): Path<(String, String)>,
) -> Answer<Json<Explanation>> {
    Ok(Json(explain::device(&state, &client, &device).await?))
}

/// Explains the status of an application: where it runs, where it could run, and what prevents it.
#[utoipa::path(get, path = "/api/applications/{id}/explain", tag = "applications", params(("id" = String, Path)),
    responses((status = 200, body = Explanation)))]
pub(super) async fn explain_application(
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Answer<Json<Explanation>> {
    Ok(Json(explain::application(&state, &id, PATIENCE).await?.explanation))
}

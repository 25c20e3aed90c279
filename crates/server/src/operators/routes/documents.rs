//! The history and the documents of one deployment.

use crate::app::deployments;
use crate::operators::extract::{Path, Query};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header;
use margrave_api::deployments::{Revision, Status};
use margrave_api::page::Page;

/// Which revision.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DocumentQuery {
    /// The current one unless given.
    revision: Option<i64>,
}

/// Lists the revisions of a deployment, newest first.
#[utoipa::path(get, path = "/api/deployments/{id}/revisions", tag = "deployments", params(("id" = String, Path)),
    responses((status = 200, body = Page<Revision>)))]
pub(super) async fn list_deployment_revisions(
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Answer<Json<Page<Revision>>> {
    Ok(Json(deployments::revisions(&state, &id).await?))
}

/// Lists the status reports of a deployment, newest first.
#[utoipa::path(get, path = "/api/deployments/{id}/status-history", tag = "deployments", params(("id" = String, Path)),
    responses((status = 200, body = Page<Status>)))]
pub(super) async fn list_deployment_statuses(
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Answer<Json<Page<Status>>> {
    Ok(Json(deployments::status_history(&state, &id).await?))
}

/// Returns the ApplicationDeployment that the device gets, with sensitive values masked.
#[utoipa::path(get, path = "/api/deployments/{id}/document", tag = "deployments",
    params(("id" = String, Path), DocumentQuery),
    responses((status = 200, body = serde_json::Value, content_type = "application/yaml")))]
pub(super) async fn get_deployment_document(
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Query(query): Query<DocumentQuery>,
) -> Answer<Response> {
    let yaml = deployments::document(&state, &id, query.revision).await?;
    Ok(([(header::CONTENT_TYPE, "application/yaml")], yaml).into_response())
}

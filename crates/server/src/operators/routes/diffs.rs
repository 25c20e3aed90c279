//! Differences.

use crate::app::diff::{self, DiffQuery, VersionsQuery};
use crate::operators::extract::{Path, Query};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::diff::{ApplicationDiff, DeploymentDiff};

/// Compares two revisions of a deployment, or the desired with the reported one; sensitive values are masked.
#[utoipa::path(get, path = "/api/deployments/{id}/diff", tag = "deployments", params(("id" = String, Path), DiffQuery),
    responses((status = 200, body = DeploymentDiff)))]
pub(super) async fn diff_deployment(
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Answer<Json<DeploymentDiff>> {
    Ok(Json(diff::deployment(&state, &id, &query).await?))
}

/// Compares two versions of an application: description, profiles, components, parameters, configuration.
#[utoipa::path(get, path = "/api/applications/{id}/diff", tag = "applications",
    params(("id" = String, Path), VersionsQuery), responses((status = 200, body = ApplicationDiff)))]
pub(super) async fn diff_application(
    State(state): State<ServerState>,
    Path(id): Path<String>,
    Query(query): Query<VersionsQuery>,
) -> Answer<Json<ApplicationDiff>> {
    Ok(Json(diff::application(&state, &id, &query).await?))
}

//! `/api/applications` and one application.

use crate::app::applications;
use crate::app::paging::Paging;
use crate::operators::extract::{Path, Query};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::applications::{Application, ApplicationDetail};
use margrave_api::page::Page;

/// Lists applications in the catalog, in order of id.
#[utoipa::path(get, path = "/api/applications", tag = "applications", params(Paging),
    responses((status = 200, body = Page<Application>)))]
pub(super) async fn list_applications(
    State(state): State<ServerState>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Application>>> {
    Ok(Json(applications::list(&state, &paging).await?))
}

/// Returns one application with all its versions and its deployments.
#[utoipa::path(get, path = "/api/applications/{id}", tag = "applications", params(("id" = String, Path)),
    responses((status = 200, body = ApplicationDetail)))]
pub(super) async fn get_application(
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Answer<Json<ApplicationDetail>> {
    Ok(Json(applications::get(&state, &id).await?))
}

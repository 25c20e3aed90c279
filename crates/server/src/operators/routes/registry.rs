//! `/api/registry` and pull credentials of clients.

use crate::app::paging::Paging;
use crate::app::registry;
use crate::operators::extract::{AuthenticatedCaller, JsonBody, Path, Query};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use margrave_api::page::Page;
use margrave_api::registry::{Collection, PullCredentials, Registry, ReplacePullCredentials, Repository};

/// Returns the address and usage of the embedded registry.
#[utoipa::path(get, path = "/api/registry", tag = "registry", responses((status = 200, body = Registry)))]
pub(super) async fn get_registry(State(state): State<ServerState>) -> Answer<Json<Registry>> {
    Ok(Json(registry::get(&state)?))
}

/// Lists repositories in order of name.
#[utoipa::path(get, path = "/api/registry/repositories", tag = "registry", params(Paging),
    responses((status = 200, body = Page<Repository>)))]
pub(super) async fn list_repositories(
    State(state): State<ServerState>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Repository>>> {
    Ok(Json(registry::repositories(&state, &paging)?))
}

/// Runs garbage collection now instead of at its interval.
#[utoipa::path(post, path = "/api/registry/garbage-collection", tag = "registry",
    responses((status = 200, body = Collection)))]
pub(super) async fn run_registry_garbage_collection(State(state): State<ServerState>) -> Answer<Json<Collection>> {
    Ok(Json(registry::collect(&state).await?))
}

/// Returns the credentials of a client for the registry.
#[utoipa::path(get, path = "/api/clients/{id}/pull-credentials", tag = "registry", params(("id" = String, Path)),
    responses((status = 200, body = PullCredentials)))]
pub(super) async fn get_pull_credentials(
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Answer<Json<PullCredentials>> {
    Ok(Json(registry::pull_credentials(&state, &id).await?))
}

/// Replaces the password of a client for the registry; the old one stops working.
#[utoipa::path(post, path = "/api/clients/{id}/pull-credentials", tag = "registry", params(("id" = String, Path)),
    request_body = ReplacePullCredentials, responses((status = 201, body = PullCredentials)))]
pub(super) async fn replace_pull_credentials(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<ReplacePullCredentials>,
) -> Answer<(StatusCode, Json<PullCredentials>)> {
    let replaced = registry::replace_pull_credentials(&state, &caller, &id, body).await?;
    Ok((StatusCode::CREATED, Json(replaced)))
}

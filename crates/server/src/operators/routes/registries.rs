//! `/api/registries`: external registries.

use crate::app::registries;
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, IfMatch, IfPresent, JsonBody, Path, Query, Tagged};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use margrave_api::page::Page;
use margrave_api::registries::{CheckRegistry, PutRegistry, RegistryCheck, SavedRegistry};

/// Lists external registries in order of name, without passwords.
#[utoipa::path(get, path = "/api/registries", tag = "registries", responses((status = 200, body = Page<SavedRegistry>)))]
pub(super) async fn list_registries(State(state): State<ServerState>) -> Answer<Json<Page<SavedRegistry>>> {
    Ok(Json(registries::list(&state).await?))
}

/// Returns one external registry, without its password.
#[utoipa::path(get, path = "/api/registries/{host}", tag = "registries",
    params(("host" = String, Path, description = "Name and port, such as `registry.example:5000`")),
    responses((status = 200, body = SavedRegistry, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn get_saved_registry(
    State(state): State<ServerState>,
    Path(host): Path<String>,
) -> Answer<Tagged<SavedRegistry>> {
    let registry = registries::get(&state, &host).await?;
    Ok(Tagged::ok(registry.revision, registry))
}

/// Adds an external registry, or updates it if `If-Match` is the revision that the caller saw, or `*` for any.
#[utoipa::path(put, path = "/api/registries/{host}", tag = "registries", request_body = PutRegistry,
    params(("host" = String, Path, description = "Name and port, such as `registry.example:5000`"),
        ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw")),
    responses((status = 200, body = SavedRegistry, description = "Changed",
            headers(("ETag" = String, description = "Quoted revision"))),
        (status = 201, body = SavedRegistry, description = "Added",
            headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn put_registry(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(host): Path<String>,
    IfMatch(expected): IfMatch,
    IfPresent(present): IfPresent,
    JsonBody(body): JsonBody<PutRegistry>,
) -> Answer<Created<SavedRegistry>> {
    let expected = if present { Some(registries::get(&state, &host).await?.revision) } else { expected };
    Ok(Created(registries::put(&state, &caller, &host, body, expected).await?))
}

/// Deletes an external registry with its password; imported content stays.
#[utoipa::path(delete, path = "/api/registries/{host}", tag = "registries",
    params(("host" = String, Path, description = "Name and port, such as `registry.example:5000`"),
        ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw"), CommentQuery),
    responses((status = 204)))]
pub(super) async fn delete_registry(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(host): Path<String>,
    IfMatch(expected): IfMatch,
    Query(reason): Query<CommentQuery>,
) -> Answer<StatusCode> {
    registries::delete(&state, &caller, &host, reason.comment, expected).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks the registry now, as imports would use it, and returns the result.
#[utoipa::path(post, path = "/api/registries/{host}/check", tag = "registries", request_body = CheckRegistry,
    params(("host" = String, Path, description = "Name and port, such as `registry.example:5000`")),
    responses((status = 200, body = RegistryCheck, description = "Checked; `outcome` is the result")))]
pub(super) async fn check_registry(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(host): Path<String>,
    JsonBody(body): JsonBody<CheckRegistry>,
) -> Answer<Json<RegistryCheck>> {
    Ok(Json(registries::check(&state, &caller, &host, body.comment).await?))
}

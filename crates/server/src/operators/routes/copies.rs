//! `/api/registry/copies`: copies applications with their images from external registries into the embedded one.

use crate::copies;
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, JsonBody, Path, Query};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use margrave_api::copies::{Copy, CreateCopy};
use margrave_api::page::Page;

/// Lists copies since the start of the server, newest first.
#[utoipa::path(get, path = "/api/registry/copies", tag = "registry", responses((status = 200, body = Page<Copy>)))]
pub(super) async fn list_copies(State(state): State<ServerState>) -> Answer<Json<Page<Copy>>> {
    Ok(Json(copies::list(&state)?))
}

/// Copies a package, its components and the images they name, then adds the package to the catalog.
#[utoipa::path(post, path = "/api/registry/copies", tag = "registry", request_body = CreateCopy,
    responses((status = 202, body = Copy, description = "Started; existing content is skipped",
        headers(("Location" = String, description = "Address of the copy")))))]
pub(super) async fn create_copy(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(body): JsonBody<CreateCopy>,
) -> Answer<Created<Copy>> {
    Ok(Created(copies::create(&state, &caller, body).await?))
}

/// Returns one copy with its progress.
#[utoipa::path(get, path = "/api/registry/copies/{id}", tag = "registry", params(("id" = String, Path)),
    responses((status = 200, body = Copy)))]
pub(super) async fn get_copy(State(state): State<ServerState>, Path(id): Path<String>) -> Answer<Json<Copy>> {
    Ok(Json(copies::get(&state, &id)?))
}

/// Cancels a copy; what it has already copied stays.
#[utoipa::path(delete, path = "/api/registry/copies/{id}", tag = "registry", params(("id" = String, Path), CommentQuery),
    responses((status = 204)))]
pub(super) async fn cancel_copy(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(reason): Query<CommentQuery>,
) -> Answer<StatusCode> {
    copies::cancel(&state, &caller, &id, reason.comment).await?;
    Ok(StatusCode::NO_CONTENT)
}

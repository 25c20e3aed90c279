//! `/api/registry/copies`: applications with their images, from other registries into the embedded one.

use crate::copies;
use crate::operators::extract::{By, JsonBody, Path, Query, Reason};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use margrave_api::copies::{Copy, CreateCopy};
use margrave_api::page::Page;

/// Copies since the server was started, newest first.
#[utoipa::path(get, path = "/api/registry/copies", tag = "registry", responses((status = 200, body = Page<Copy>)))]
pub(super) async fn list_copies(State(state): State<ServerState>) -> Answer<Json<Page<Copy>>> {
    Ok(Json(copies::list(&state)?))
}

/// Copies a package, its components and the images they name, then adds the package to the catalog.
#[utoipa::path(post, path = "/api/registry/copies", tag = "registry", request_body = CreateCopy,
    responses((status = 202, body = Copy, description = "Begun; what is here already is skipped",
        headers(("Location" = String, description = "Address of the copy")))))]
pub(super) async fn create_copy(
    State(state): State<ServerState>,
    By(caller): By,
    JsonBody(body): JsonBody<CreateCopy>,
) -> Answer<Created<Copy>> {
    Ok(Created(copies::create(&state, &caller, body).await?))
}

/// One copy and how far it is.
#[utoipa::path(get, path = "/api/registry/copies/{id}", tag = "registry", params(("id" = String, Path)),
    responses((status = 200, body = Copy)))]
pub(super) async fn get_copy(State(state): State<ServerState>, Path(id): Path<String>) -> Answer<Json<Copy>> {
    Ok(Json(copies::get(&state, &id)?))
}

/// Ends a copy; what it has brought in stays.
#[utoipa::path(delete, path = "/api/registry/copies/{id}", tag = "registry", params(("id" = String, Path), Reason),
    responses((status = 204)))]
pub(super) async fn cancel_copy(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    Query(reason): Query<Reason>,
) -> Answer<StatusCode> {
    copies::cancel(&state, &caller, &id, reason.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

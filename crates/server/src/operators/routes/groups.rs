//! `/api/groups`.

use crate::app::groups;
use crate::app::paging::Paging;
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, IfMatch, IfPresent, JsonBody, Path, Query, Tagged};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use margrave_api::devices::{Device, Group, PutGroup};
use margrave_api::page::Page;

/// Lists groups in order of name.
#[utoipa::path(get, path = "/api/groups", tag = "groups", params(Paging), responses((status = 200, body = Page<Group>)))]
pub(super) async fn list_groups(
    State(state): State<ServerState>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Group>>> {
    Ok(Json(groups::list(&state, &paging).await?))
}

/// Returns one group.
#[utoipa::path(get, path = "/api/groups/{name}", tag = "groups", params(("name" = String, Path)),
    responses((status = 200, body = Group, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn get_group(State(state): State<ServerState>, Path(name): Path<String>) -> Answer<Tagged<Group>> {
    let group = groups::get(&state, &name).await?;
    Ok(Tagged::ok(group.revision, group))
}

/// Creates a group, or updates it if `If-Match` is the revision that the caller saw, or `*` for any.
#[utoipa::path(put, path = "/api/groups/{name}", tag = "groups", request_body = PutGroup,
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw")),
    responses((status = 200, body = Group, description = "Changed", headers(("ETag" = String, description = "Quoted revision"))),
        (status = 201, body = Group, description = "Created", headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn put_group(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
    IfMatch(expected): IfMatch,
    IfPresent(present): IfPresent,
    JsonBody(body): JsonBody<PutGroup>,
) -> Answer<Created<Group>> {
    if present {
        return Ok(Created(groups::update(&state, &caller, &name, body).await?));
    }
    Ok(Created(groups::put(&state, &caller, &name, body, expected).await?))
}

/// Deletes a group; devices and deployments stay unchanged.
#[utoipa::path(delete, path = "/api/groups/{name}", tag = "groups",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw"),
        CommentQuery),
    responses((status = 204)))]
pub(super) async fn delete_group(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
    IfMatch(expected): IfMatch,
    Query(reason): Query<CommentQuery>,
) -> Answer<StatusCode> {
    groups::delete(&state, &caller, &name, reason.comment, expected).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the current devices of a group.
#[utoipa::path(get, path = "/api/groups/{name}/devices", tag = "groups", params(("name" = String, Path), Paging),
    responses((status = 200, body = Page<Device>)))]
pub(super) async fn list_group_devices(
    State(state): State<ServerState>,
    Path(name): Path<String>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Device>>> {
    Ok(Json(groups::members(&state, &name, &paging).await?))
}

//! `/api/clients`.

use crate::app::clients;
use crate::app::paging::Paging;
use crate::operators::extract::{By, IfMatch, JsonBody, Path, Query, Tagged};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::clients::{Client, CreateClient, UpdateClient};
use margrave_api::page::Page;

/// Every client, in order of id.
#[utoipa::path(get, path = "/api/clients", tag = "clients", params(Paging),
    responses((status = 200, body = Page<Client>)))]
pub(super) async fn list_clients(
    State(state): State<ServerState>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Client>>> {
    Ok(Json(clients::list(&state, &paging).await?))
}

/// Makes a client known, accepted unless told otherwise.
#[utoipa::path(post, path = "/api/clients", tag = "clients", request_body = CreateClient,
    responses((status = 201, body = Client, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn create_client(
    State(state): State<ServerState>,
    By(caller): By,
    JsonBody(body): JsonBody<CreateClient>,
) -> Answer<Created<Client>> {
    Ok(Created(clients::create(&state, &caller, body).await?))
}

/// One client.
#[utoipa::path(get, path = "/api/clients/{id}", tag = "clients", params(("id" = String, Path)),
    responses((status = 200, body = Client, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn get_client(State(state): State<ServerState>, Path(id): Path<String>) -> Answer<Tagged<Client>> {
    let client = clients::get(&state, &id).await?;
    Ok(Tagged::ok(client.revision, client))
}

/// Accepts or retires a client.
#[utoipa::path(patch, path = "/api/clients/{id}", tag = "clients", request_body = UpdateClient,
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw")),
    responses((status = 200, body = Client, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn update_client(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<UpdateClient>,
) -> Answer<Tagged<Client>> {
    let client = clients::update(&state, &caller, &id, body, expected).await?;
    Ok(Tagged::ok(client.revision, client))
}

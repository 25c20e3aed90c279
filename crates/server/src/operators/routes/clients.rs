//! `/api/clients`.

use crate::app::clients;
use crate::app::paging::Paging;
use crate::operators::extract::{By, IfMatch, JsonBody, Path, Query, Reason, Tagged};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::clients::{Client, ClientState, CreateClient, Invitation, UpdateClient, Withdrawn};
use margrave_api::page::Page;

/// Which clients.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ClientQuery {
    /// Only those in this state.
    state: Option<ClientState>,
}

/// Clients in order of id.
#[utoipa::path(get, path = "/api/clients", tag = "clients", params(ClientQuery, Paging),
    responses((status = 200, body = Page<Client>)))]
pub(super) async fn list_clients(
    State(state): State<ServerState>,
    Query(query): Query<ClientQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Client>>> {
    Ok(Json(clients::list_in(&state, query.state, &paging).await?))
}

/// Tokens that were made for devices to join with, those still open first, the newest first among each; never the tokens themselves.
#[utoipa::path(get, path = "/api/enrolment-tokens", tag = "clients",
    responses((status = 200, body = Page<Invitation>)))]
pub(super) async fn list_enrolment_tokens(State(state): State<ServerState>) -> Answer<Json<Page<Invitation>>> {
    Ok(Json(clients::listed_invitations(&state).await?))
}

/// Withdraws the enrolment tokens of a client that nobody has used yet.
#[utoipa::path(delete, path = "/api/clients/{id}/enrolment-token", tag = "clients",
    params(("id" = String, Path), Reason), responses((status = 200, body = Withdrawn)))]
pub(super) async fn withdraw_enrolment_tokens(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    Query(reason): Query<Reason>,
) -> Answer<Json<Withdrawn>> {
    let tokens = clients::withdraw_invitations(&state, &caller, &id, reason.reason).await?;
    Ok(Json(Withdrawn { client: id, tokens }))
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

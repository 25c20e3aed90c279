//! `/api/clients`.

use crate::app::clients;
use crate::app::paging::Paging;
use crate::app::sorting::Order;
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, IfMatch, JsonBody, Path, Query, Tagged};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::clients::{Client, ClientState, CreateClient, EnrollmentToken, RevokedTokens, UpdateClient};
use margrave_api::page::Page;

/// Filter for clients.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ClientQuery {
    /// Only clients in this state.
    state: Option<ClientState>,
    /// Sorts by `id`, `state`, `registered` or `last-seen`, with `-` in front descending.
    sort: Option<String>,
}

/// Lists clients in order of id, or of a column.
#[utoipa::path(get, path = "/api/clients", tag = "clients", params(ClientQuery, Paging),
    responses((status = 200, body = Page<Client>)))]
pub(super) async fn list_clients(
    State(state): State<ServerState>,
    Query(query): Query<ClientQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Client>>> {
    let order = Order::of_call(query.sort.as_deref())?;
    Ok(Json(clients::search_in_order(&state, query.state, None, order, &paging).await?.completed()?))
}

/// Lists enrollment tokens, active ones first, newest first in each group; never the secrets.
#[utoipa::path(get, path = "/api/enrollment-tokens", tag = "clients",
    responses((status = 200, body = Page<EnrollmentToken>)))]
pub(super) async fn list_enrollment_tokens(State(state): State<ServerState>) -> Answer<Json<Page<EnrollmentToken>>> {
    Ok(Json(clients::listed_enrollment_tokens(&state).await?))
}

/// Revokes the unused enrollment tokens of a client.
#[utoipa::path(delete, path = "/api/clients/{id}/enrollment-token", tag = "clients",
    params(("id" = String, Path), CommentQuery), responses((status = 200, body = RevokedTokens)))]
pub(super) async fn revoke_client_enrollment_tokens(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(reason): Query<CommentQuery>,
) -> Answer<Json<RevokedTokens>> {
    let tokens = clients::revoke_enrollment_tokens(&state, &caller, &id, reason.comment).await?;
    Ok(Json(RevokedTokens { client: id, tokens }))
}

/// Registers a client, accepted unless specified otherwise.
#[utoipa::path(post, path = "/api/clients", tag = "clients", request_body = CreateClient,
    responses((status = 201, body = Client, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn create_client(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(body): JsonBody<CreateClient>,
) -> Answer<Created<Client>> {
    Ok(Created(clients::create(&state, &caller, body).await?))
}

/// Returns one client.
#[utoipa::path(get, path = "/api/clients/{id}", tag = "clients", params(("id" = String, Path)),
    responses((status = 200, body = Client, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn get_client(State(state): State<ServerState>, Path(id): Path<String>) -> Answer<Tagged<Client>> {
    let client = clients::get(&state, &id).await?;
    Ok(Tagged::ok(client.revision, client))
}

/// Accepts, rejects or decommissions a client.
#[utoipa::path(patch, path = "/api/clients/{id}", tag = "clients", request_body = UpdateClient,
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw")),
    responses((status = 200, body = Client, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn update_client(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<UpdateClient>,
) -> Answer<Tagged<Client>> {
    let client = clients::update(&state, &caller, &id, body, expected).await?;
    Ok(Tagged::ok(client.revision, client))
}

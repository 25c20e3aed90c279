//! `/api/whoami`, `/api/summary`, `/api/openapi.json`, `/api/tokens`, `/api/operators`, `/api/sessions`.

use crate::app::{access, passwords, sessions, summary};
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, JsonBody, Path, Query};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use margrave_api::access::{CreateToken, Operator, PasswordSet, Session, SetPassword, Token, WhoAmI};
use margrave_api::page::Page;
use margrave_api::summary::Summary;

/// Returns the owner of the token, and the server's name and version.
#[utoipa::path(get, path = "/api/whoami", tag = "access", responses((status = 200, body = WhoAmI)))]
pub(super) async fn whoami(AuthenticatedCaller(caller): AuthenticatedCaller) -> Json<WhoAmI> {
    Json(WhoAmI { actor: caller.name, server_version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Returns a summary of the fleet.
#[utoipa::path(get, path = "/api/summary", tag = "fleet", responses((status = 200, body = Summary)))]
pub(super) async fn get_summary(State(state): State<ServerState>) -> Answer<Json<Summary>> {
    Ok(Json(summary::get(&state).await?))
}

/// Returns this document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "access", responses((status = 200, body = serde_json::Value)))]
pub(super) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(crate::operators::document())
}

/// Lists API tokens, without their secrets.
#[utoipa::path(get, path = "/api/tokens", tag = "access", responses((status = 200, body = Page<Token>)))]
pub(super) async fn list_tokens(State(state): State<ServerState>) -> Answer<Json<Page<Token>>> {
    Ok(Json(access::tokens(&state).await?))
}

/// Creates an API token; only this response contains its secret.
#[utoipa::path(post, path = "/api/tokens", tag = "access", request_body = CreateToken,
    responses((status = 201, body = Token)))]
pub(super) async fn create_token(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(body): JsonBody<CreateToken>,
) -> Answer<Created<Token>> {
    Ok(Created(access::create_token(&state, &caller, body).await?))
}

/// Revokes an API token at once.
#[utoipa::path(delete, path = "/api/tokens/{id}", tag = "access", params(("id" = String, Path), CommentQuery),
    responses((status = 204)))]
pub(super) async fn revoke_token(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(reason): Query<CommentQuery>,
) -> Answer<StatusCode> {
    access::revoke_token(&state, &caller, &id, reason.comment).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists operators who sign in with a name and a password.
#[utoipa::path(get, path = "/api/operators", tag = "access", responses((status = 200, body = Page<Operator>)))]
pub(super) async fn list_operators(State(state): State<ServerState>) -> Answer<Json<Page<Operator>>> {
    Ok(Json(passwords::operators(&state).await?))
}

/// Sets the password of an operator and signs out browsers that used the old one.
#[utoipa::path(put, path = "/api/operators/{name}/password", tag = "access", params(("name" = String, Path)),
    request_body = SetPassword, responses((status = 200, body = PasswordSet)))]
pub(super) async fn set_password(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
    JsonBody(body): JsonBody<SetPassword>,
) -> Answer<Json<PasswordSet>> {
    Ok(Json(passwords::set(&state, &caller, &name, body).await?))
}

/// Lists web sessions, most recently used first.
#[utoipa::path(get, path = "/api/sessions", tag = "access", responses((status = 200, body = Page<Session>)))]
pub(super) async fn list_sessions(State(state): State<ServerState>) -> Answer<Json<Page<Session>>> {
    Ok(Json(sessions::listed(&state).await?))
}

/// Ends a web session.
#[utoipa::path(delete, path = "/api/sessions/{id}", tag = "access", params(("id" = String, Path), CommentQuery),
    responses((status = 204)))]
pub(super) async fn end_session(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(reason): Query<CommentQuery>,
) -> Answer<StatusCode> {
    sessions::end(&state, &caller, &id, reason.comment).await?;
    Ok(StatusCode::NO_CONTENT)
}

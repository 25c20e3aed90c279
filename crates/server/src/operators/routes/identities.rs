//! Identities of clients and the trust domain.

use crate::app::{clients, preload, trust};
use crate::operators::extract::{AuthenticatedCaller, JsonBody, Path};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::clients::{CreateEnrollmentToken, IssueSvid, IssuedEnrollmentToken, IssuedSvid, Trust};
use margrave_api::preload::{CreatePreload, Preload};

/// Issues an X.509-SVID for a key that the caller holds.
#[utoipa::path(post, path = "/api/clients/{id}/svid", tag = "clients", params(("id" = String, Path)),
    request_body = IssueSvid, responses((status = 201, body = IssuedSvid)))]
pub(super) async fn issue_svid(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<IssueSvid>,
) -> Answer<Created<IssuedSvid>> {
    Ok(Created(clients::issue_svid(&state, &caller, &id, body).await?))
}

/// Creates a one-time token with which a device fetches its first identity.
#[utoipa::path(post, path = "/api/clients/{id}/enrollment-token", tag = "clients", params(("id" = String, Path)),
    request_body = CreateEnrollmentToken, responses((status = 201, body = IssuedEnrollmentToken)))]
pub(super) async fn create_enrollment_token(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<CreateEnrollmentToken>,
) -> Answer<Created<IssuedEnrollmentToken>> {
    Ok(Created(clients::create_enrollment_token(&state, &caller, &id, body).await?))
}

/// Signs the desired state of a client, so that its device can start with it before its first connection to this
/// server.
#[utoipa::path(post, path = "/api/clients/{id}/preload", tag = "clients", params(("id" = String, Path)),
    request_body = CreatePreload, responses((status = 201, body = Preload)))]
pub(super) async fn create_preload(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<CreatePreload>,
) -> Answer<Created<Preload>> {
    Ok(Created(preload::create(&state, &caller, &id, body).await?))
}

/// Returns the trust domain, its anchors, and the addresses for devices.
#[utoipa::path(get, path = "/api/trust", tag = "clients", responses((status = 200, body = Trust)))]
pub(super) async fn get_trust(State(state): State<ServerState>) -> Json<Trust> {
    Json(trust::get(&state))
}

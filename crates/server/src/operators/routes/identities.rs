//! Identities of clients and the trust domain.

use crate::app::{clients, preload, trust};
use crate::operators::extract::{By, JsonBody, Path};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::clients::{CreateEnrolmentToken, EnrolmentToken, IssueSvid, IssuedSvid, Trust};
use margrave_api::preload::{CreatePreload, Preload};

/// Issues an X.509-SVID for a key the caller holds.
#[utoipa::path(post, path = "/api/clients/{id}/svid", tag = "clients", params(("id" = String, Path)),
    request_body = IssueSvid, responses((status = 201, body = IssuedSvid)))]
pub(super) async fn issue_svid(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<IssueSvid>,
) -> Answer<Created<IssuedSvid>> {
    Ok(Created(clients::issue_svid(&state, &caller, &id, body).await?))
}

/// Creates a one-time token with which a device fetches its first identity.
#[utoipa::path(post, path = "/api/clients/{id}/enrolment-token", tag = "clients", params(("id" = String, Path)),
    request_body = CreateEnrolmentToken, responses((status = 201, body = EnrolmentToken)))]
pub(super) async fn create_enrolment_token(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<CreateEnrolmentToken>,
) -> Answer<Created<EnrolmentToken>> {
    Ok(Created(clients::create_enrolment_token(&state, &caller, &id, body).await?))
}

/// Signs the desired state of a client, so that its device can begin with it before it has heard from this server.
#[utoipa::path(post, path = "/api/clients/{id}/preload", tag = "clients", params(("id" = String, Path)),
    request_body = CreatePreload, responses((status = 201, body = Preload)))]
pub(super) async fn create_preload(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<CreatePreload>,
) -> Answer<Created<Preload>> {
    Ok(Created(preload::create(&state, &caller, &id, body).await?))
}

/// The trust domain, its anchors, and the addresses devices need.
#[utoipa::path(get, path = "/api/trust", tag = "clients", responses((status = 200, body = Trust)))]
pub(super) async fn get_trust(State(state): State<ServerState>) -> Json<Trust> {
    Json(trust::get(&state))
}

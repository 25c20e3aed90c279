//! `/api/rollouts`.

use crate::app::access::Caller;
use crate::app::paging::Paging;
use crate::app::rollouts::{self, Request};
use crate::operators::extract::{AuthenticatedCaller, DryRun, JsonBody, Path, Query};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use margrave_api::page::Page;
use margrave_api::rollouts::{
    CancelRollout, Cancelled, CreateRollout, Plan, RetryRollout, Rollout, RolloutWithdrawn, WithdrawRollout,
};

/// Lists rollouts, newest first.
#[utoipa::path(get, path = "/api/rollouts", tag = "rollouts", params(Paging), responses((status = 200, body = Page<Rollout>)))]
pub(super) async fn list_rollouts(
    State(state): State<ServerState>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Rollout>>> {
    Ok(Json(rollouts::list(&state, &paging).await?))
}

/// Creates, reconfigures, upgrades or removes deployments on one device or many.
#[utoipa::path(post, path = "/api/rollouts", tag = "rollouts", params(DryRun), request_body = CreateRollout,
    responses((status = 202, body = Rollout, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the rollout"))),
        (status = 200, body = Plan, description = "With `dryRun`: the plan")))]
pub(super) async fn create_rollout(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(dry_run): Query<DryRun>,
    JsonBody(body): JsonBody<CreateRollout>,
) -> Answer<Response> {
    let (request, reason) = Request::read(body)?;
    answer(&state, &caller, request, reason, dry_run.dry_run).await
}

/// Returns one rollout with its progress and the states of its deployments.
#[utoipa::path(get, path = "/api/rollouts/{id}", tag = "rollouts", params(("id" = String, Path)),
    responses((status = 200, body = Rollout)))]
pub(super) async fn get_rollout(State(state): State<ServerState>, Path(id): Path<String>) -> Answer<Json<Rollout>> {
    Ok(Json(rollouts::get(&state, &id).await?))
}

/// Cancels the rest of a rollout: devices it was not published to yet stay unchanged, the others continue.
#[utoipa::path(post, path = "/api/rollouts/{id}/cancel", tag = "rollouts", params(("id" = String, Path)),
    request_body = CancelRollout, responses((status = 200, body = Cancelled)))]
pub(super) async fn cancel_rollout(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<CancelRollout>,
) -> Answer<Json<Cancelled>> {
    let left = rollouts::cancel(&state, &caller, &id, body.comment).await?;
    Ok(Json(Cancelled { left, rollout: rollouts::get(&state, &id).await? }))
}

/// Retries everything of a rollout that has failed: each device gets the same content as a new revision, in one
/// rollout.
#[utoipa::path(post, path = "/api/rollouts/{id}/retry", tag = "rollouts", params(("id" = String, Path)),
    request_body = RetryRollout,
    responses((status = 202, body = Rollout, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the rollout")))))]
pub(super) async fn retry_rollout(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<RetryRollout>,
) -> Answer<Response> {
    Ok(Created(rollouts::again(&state, &caller, &id, body.comment).await?).into_response())
}

/// Withdraws a rollout on offline devices: new deployments are removed there, changed ones go back to the previous
/// revision, which is what they get when they reconnect.
#[utoipa::path(post, path = "/api/rollouts/{id}/withdraw", tag = "rollouts", params(("id" = String, Path)),
    request_body = WithdrawRollout, responses((status = 200, body = RolloutWithdrawn)))]
pub(super) async fn withdraw_rollout(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<WithdrawRollout>,
) -> Answer<Json<RolloutWithdrawn>> {
    Ok(Json(RolloutWithdrawn { rollouts: rollouts::withdraw(&state, |_| caller.again(), &id, body.comment).await? }))
}

/// The plan of a dry run, or the recorded rollout with its address.
pub(super) async fn answer(
    state: &ServerState,
    caller: &Caller,
    request: Request,
    reason: Option<String>,
    dry_run: bool,
) -> Answer<Response> {
    if dry_run {
        return Ok(Json(rollouts::dry_run(state, request).await?).into_response());
    }
    Ok(Created(rollouts::submit(state, caller, request, reason).await?).into_response())
}

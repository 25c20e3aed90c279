//! `/api/changes`.

use crate::app::access::Caller;
use crate::app::changes::{self, Request};
use crate::app::paging::Paging;
use crate::operators::extract::{By, DryRun, JsonBody, Path, Query};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use margrave_api::changes::{
    CallOffChange, CalledOff, CancelChange, Cancelled, Change, CreateChange, Plan, RetryChange,
};
use margrave_api::page::Page;

/// Changes, newest first.
#[utoipa::path(get, path = "/api/changes", tag = "changes", params(Paging), responses((status = 200, body = Page<Change>)))]
pub(super) async fn list_changes(
    State(state): State<ServerState>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Change>>> {
    Ok(Json(changes::list(&state, &paging).await?))
}

/// Creates, reconfigures, upgrades or removes deployments on one device or many.
#[utoipa::path(post, path = "/api/changes", tag = "changes", params(DryRun), request_body = CreateChange,
    responses((status = 202, body = Change, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the change"))),
        (status = 200, body = Plan, description = "With `dryRun`: what it would do")))]
pub(super) async fn create_change(
    State(state): State<ServerState>,
    By(caller): By,
    Query(dry_run): Query<DryRun>,
    JsonBody(body): JsonBody<CreateChange>,
) -> Answer<Response> {
    let (request, reason) = Request::read(body)?;
    answer(&state, &caller, request, reason, dry_run.dry_run).await
}

/// One change: how far it is, and how its deployments do.
#[utoipa::path(get, path = "/api/changes/{id}", tag = "changes", params(("id" = String, Path)),
    responses((status = 200, body = Change)))]
pub(super) async fn get_change(State(state): State<ServerState>, Path(id): Path<String>) -> Answer<Json<Change>> {
    Ok(Json(changes::get(&state, &id).await?))
}

/// Cancels the rest of a change: devices that are not told yet stay as they are, the others go on.
#[utoipa::path(post, path = "/api/changes/{id}/cancel", tag = "changes", params(("id" = String, Path)),
    request_body = CancelChange, responses((status = 200, body = Cancelled)))]
pub(super) async fn cancel_change(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<CancelChange>,
) -> Answer<Json<Cancelled>> {
    let left = changes::cancel(&state, &caller, &id, body.reason).await?;
    Ok(Json(Cancelled { left, change: changes::get(&state, &id).await? }))
}

/// Has everything of a change that has failed tried again at once: each device gets the same as a new revision, all in one change.
#[utoipa::path(post, path = "/api/changes/{id}/retry", tag = "changes", params(("id" = String, Path)),
    request_body = RetryChange,
    responses((status = 202, body = Change, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the change")))))]
pub(super) async fn retry_change(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<RetryChange>,
) -> Answer<Response> {
    Ok(Created(changes::again(&state, &caller, &id, body.reason).await?).into_response())
}

/// Calls a change off where it waits for devices that are not heard of: what it deployed is removed there, what it changed goes
/// back to the revision before, and that is what they find when they come back.
#[utoipa::path(post, path = "/api/changes/{id}/call-off", tag = "changes", params(("id" = String, Path)),
    request_body = CallOffChange, responses((status = 200, body = CalledOff)))]
pub(super) async fn call_off_change(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<CallOffChange>,
) -> Answer<Json<CalledOff>> {
    Ok(Json(CalledOff { changes: changes::call_off(&state, |_| caller.again(), &id, body.reason).await? }))
}

/// The plan of a dry run, or the recorded change with its address.
pub(super) async fn answer(
    state: &ServerState,
    caller: &Caller,
    request: Request,
    reason: Option<String>,
    dry_run: bool,
) -> Answer<Response> {
    if dry_run {
        return Ok(Json(changes::dry_run(state, request).await?).into_response());
    }
    Ok(Created(changes::submit(state, caller, request, reason).await?).into_response())
}

//! `/api/deployments` and one deployment.

use super::changes::answer;
use crate::app::changes::{self, Request};
use crate::app::deployments::{self, Query as DeploymentQuery};
use crate::app::drafts;
use crate::app::error::AppError;
use crate::app::paging::Paging;
use crate::operators::extract::{By, DryRun, IfMatch, JsonBody, Path, Query, Reason, Tagged};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use margrave_api::changes::{Change, ChangeKind, CreateChange, Plan};
use margrave_api::deployments::{Deployment, RetryDeployment, RevertDeployment, UpdateDeployment};
use margrave_api::page::Page;

/// Deployments in order of id.
#[utoipa::path(get, path = "/api/deployments", tag = "deployments", params(DeploymentQuery, Paging),
    responses((status = 200, body = Page<Deployment>)))]
pub(super) async fn list_deployments(
    State(state): State<ServerState>,
    Query(query): Query<DeploymentQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Deployment>>> {
    Ok(Json(deployments::list(&state, &query, &paging).await?))
}

/// Deploys an application version to devices: a change of kind `create`.
#[utoipa::path(post, path = "/api/deployments", tag = "deployments", params(DryRun), request_body = CreateChange,
    responses((status = 202, body = Change, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the change"))),
        (status = 200, body = Plan, description = "With `dryRun`: what it would do")))]
pub(super) async fn create_deployments(
    State(state): State<ServerState>,
    By(caller): By,
    Query(dry_run): Query<DryRun>,
    JsonBody(body): JsonBody<CreateChange>,
) -> Answer<Response> {
    if body.kind != ChangeKind::Create {
        let message = "this address only creates; send other kinds to `/api/changes`";
        return Err(AppError::invalid("kind", message).into());
    }
    let (request, reason) = Request::read(body)?;
    answer(&state, &caller, request, reason, dry_run.dry_run).await
}

/// One deployment: what is wanted, what the device said last, and what that means.
#[utoipa::path(get, path = "/api/deployments/{id}", tag = "deployments", params(("id" = String, Path)),
    responses((status = 200, body = Deployment, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn get_deployment(
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Answer<Tagged<Deployment>> {
    let deployment = deployments::get(&state, &id).await?;
    Ok(Tagged::ok(deployment.revision, deployment))
}

/// Moves a deployment to another version, changes answers, or both.
#[utoipa::path(patch, path = "/api/deployments/{id}", tag = "deployments", request_body = UpdateDeployment,
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw"),
        DryRun),
    responses((status = 202, body = Change, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the change"))),
        (status = 200, body = Plan, description = "With `dryRun`: what it would do")))]
pub(super) async fn update_deployment(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
    Query(dry_run): Query<DryRun>,
    JsonBody(body): JsonBody<UpdateDeployment>,
) -> Answer<Response> {
    let (request, reason) = changes::update_request(&state, &id, body, expected).await?;
    answer(&state, &caller, request, reason, dry_run.dry_run).await
}

/// Has the device try again at once what failed, instead of after its pause.
#[utoipa::path(post, path = "/api/deployments/{id}/retry", tag = "deployments", params(("id" = String, Path)),
    request_body = RetryDeployment, responses((status = 200, body = Deployment)))]
pub(super) async fn retry_deployment(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<RetryDeployment>,
) -> Answer<Json<Deployment>> {
    deployments::retry(&state, &caller, &id, body.reason).await?;
    Ok(Json(deployments::get(&state, &id).await?))
}

/// Goes back to the version and the answers of an earlier revision, as a new one.
#[utoipa::path(post, path = "/api/deployments/{id}/revert", tag = "deployments", request_body = RevertDeployment,
    params(("id" = String, Path), DryRun),
    responses((status = 202, body = Change, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the change"))),
        (status = 200, body = Plan, description = "With `dryRun`: what it would do")))]
pub(super) async fn revert_deployment(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    Query(dry_run): Query<DryRun>,
    JsonBody(body): JsonBody<RevertDeployment>,
) -> Answer<Response> {
    let request = drafts::back_to(&state, &id, body.revision).await?;
    answer(&state, &caller, request, body.reason, dry_run.dry_run).await
}

/// Removes a deployment from its device.
#[utoipa::path(delete, path = "/api/deployments/{id}", tag = "deployments",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw"),
        DryRun, Reason),
    responses((status = 202, body = Change, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the change"))),
        (status = 200, body = Plan, description = "With `dryRun`: what it would do")))]
pub(super) async fn remove_deployment(
    State(state): State<ServerState>,
    By(caller): By,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
    Query(dry_run): Query<DryRun>,
    Query(reason): Query<Reason>,
) -> Answer<Response> {
    let request = changes::remove_request(&state, &id, expected).await?;
    answer(&state, &caller, request, reason.reason, dry_run.dry_run).await
}

//! `/api/deployments` and one deployment.

use super::rollouts::answer;
use crate::app::deployments::{self, Query as DeploymentQuery};
use crate::app::drafts;
use crate::app::error::AppError;
use crate::app::paging::Paging;
use crate::app::rollouts::{self, Request};
use crate::app::sorting::Order;
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, DryRun, IfMatch, JsonBody, Path, Query, Tagged};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use margrave_api::deployments::{Deployment, RetryDeployment, RollbackDeployment, UpdateDeployment};
use margrave_api::page::Page;
use margrave_api::rollouts::{CreateRollout, Plan, Rollout, RolloutKind};

/// The order of deployments.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SortQuery {
    /// Sorts by `application`, `device`, `state` or `last-report`, with `-` in front descending.
    sort: Option<String>,
}

/// Lists deployments in order of id, or of a column.
#[utoipa::path(get, path = "/api/deployments", tag = "deployments", params(DeploymentQuery, SortQuery, Paging),
    responses((status = 200, body = Page<Deployment>)))]
pub(super) async fn list_deployments(
    State(state): State<ServerState>,
    Query(query): Query<DeploymentQuery>,
    Query(SortQuery { sort }): Query<SortQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<Deployment>>> {
    let order = Order::of_call(sort.as_deref())?;
    Ok(Json(deployments::list_in_order(&state, &query, None, order, &paging).await?.completed()?))
}

/// Deploys an application version to devices: a rollout of kind `create`.
#[utoipa::path(post, path = "/api/deployments", tag = "deployments", params(DryRun), request_body = CreateRollout,
    responses((status = 202, body = Rollout, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the rollout"))),
        (status = 200, body = Plan, description = "With `dryRun`: the plan")))]
pub(super) async fn create_deployments(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(dry_run): Query<DryRun>,
    JsonBody(body): JsonBody<CreateRollout>,
) -> Answer<Response> {
    if body.kind != RolloutKind::Create {
        let message = "this address only creates; send other kinds to `/api/rollouts`";
        return Err(AppError::invalid("kind", message).into());
    }
    let (request, reason) = Request::read(body)?;
    answer(&state, &caller, request, reason, dry_run.dry_run).await
}

/// Returns one deployment: desired state, last report of the device, and the resulting state.
#[utoipa::path(get, path = "/api/deployments/{id}", tag = "deployments", params(("id" = String, Path)),
    responses((status = 200, body = Deployment, headers(("ETag" = String, description = "Quoted revision")))))]
pub(super) async fn get_deployment(
    State(state): State<ServerState>,
    Path(id): Path<String>,
) -> Answer<Tagged<Deployment>> {
    let deployment = deployments::get(&state, &id).await?;
    Ok(Tagged::ok(deployment.revision, deployment))
}

/// Moves a deployment to another version, changes its values, or both.
#[utoipa::path(patch, path = "/api/deployments/{id}", tag = "deployments", request_body = UpdateDeployment,
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw"),
        DryRun),
    responses((status = 202, body = Rollout, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the rollout"))),
        (status = 200, body = Plan, description = "With `dryRun`: the plan")))]
pub(super) async fn update_deployment(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
    Query(dry_run): Query<DryRun>,
    JsonBody(body): JsonBody<UpdateDeployment>,
) -> Answer<Response> {
    let (request, reason) = rollouts::update_request(&state, &id, body, expected).await?;
    answer(&state, &caller, request, reason, dry_run.dry_run).await
}

/// Makes the device retry a failed deployment at once, instead of after its back-off.
#[utoipa::path(post, path = "/api/deployments/{id}/retry", tag = "deployments", params(("id" = String, Path)),
    request_body = RetryDeployment, responses((status = 200, body = Deployment)))]
pub(super) async fn retry_deployment(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<RetryDeployment>,
) -> Answer<Json<Deployment>> {
    deployments::retry(&state, &caller, &id, body.comment).await?;
    Ok(Json(deployments::get(&state, &id).await?))
}

/// Rolls back to the version and the values of an earlier revision, as a new revision.
#[utoipa::path(post, path = "/api/deployments/{id}/rollback", tag = "deployments", request_body = RollbackDeployment,
    params(("id" = String, Path), DryRun),
    responses((status = 202, body = Rollout, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the rollout"))),
        (status = 200, body = Plan, description = "With `dryRun`: the plan")))]
pub(super) async fn rollback_deployment(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(dry_run): Query<DryRun>,
    JsonBody(body): JsonBody<RollbackDeployment>,
) -> Answer<Response> {
    let request = drafts::back_to(&state, &id, body.revision).await?;
    answer(&state, &caller, request, body.comment, dry_run.dry_run).await
}

/// Removes a deployment from its device.
#[utoipa::path(delete, path = "/api/deployments/{id}", tag = "deployments",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "Quoted revision the caller saw"),
        DryRun, CommentQuery),
    responses((status = 202, body = Rollout, description = "Recorded durably; being published",
            headers(("Location" = String, description = "Address of the rollout"))),
        (status = 200, body = Plan, description = "With `dryRun`: the plan")))]
pub(super) async fn remove_deployment(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
    Query(dry_run): Query<DryRun>,
    Query(reason): Query<CommentQuery>,
) -> Answer<Response> {
    let request = rollouts::remove_request(&state, &id, expected).await?;
    answer(&state, &caller, request, reason.comment, dry_run.dry_run).await
}

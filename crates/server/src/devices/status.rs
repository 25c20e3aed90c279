//! `POST /api/v1/deployments/{deploymentId}/status` (ST-09, W-10 to W-14).

use super::STATUS_BYTES_MAX;
use super::caller::Caller;
use super::queue::WriteRefused;
use crate::problems::{self, Answer, Refusal};
use crate::state::ServerState;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse as _;
use http::StatusCode;
use margo::ids::DeploymentId;
use margo::problem::ProblemType;
use margo::status::DeploymentStatus;
use margrave_store::{StatusOutcome, StatusWrite};

pub(super) async fn post(
    State(state): State<ServerState>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let written = write(&state, caller, path, request).await;
    state.metrics.status_report(match &written {
        Ok(StatusOutcome::Kept) => "kept",
        Ok(StatusOutcome::UnknownDeployment) => "unknown",
        Ok(StatusOutcome::VersionOutOfRange) | Err(_) => "refused",
    });
    match written? {
        // The record exists since the deployment was assigned, so every report updates it (W-10).
        StatusOutcome::Kept => Ok(StatusCode::OK.into_response()),
        StatusOutcome::UnknownDeployment => Err(unknown()),
        // Invariant 2: rejected, never wrapped. No such version has ever been issued here.
        StatusOutcome::VersionOutOfRange => {
            Err(Refusal::one_field("adoptedManifestVersion", "No manifest of this server has this version."))
        }
    }
}

async fn write(
    state: &ServerState,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<StatusOutcome, Refusal> {
    let id = path.ok().and_then(|Path(text)| text.parse::<DeploymentId>().ok()).ok_or_else(unknown)?;
    let body = problems::body(request, STATUS_BYTES_MAX).await?;
    let read =
        DeploymentStatus::read(&body).map_err(|findings| Refusal::document("status report", &body, &findings))?;
    let status = read.document;
    if status.deployment_id != id {
        // W-13
        return Err(Refusal::one_field(
            "deploymentId",
            format!("`{}` is not the deployment `{id}` of the address.", status.deployment_id),
        ));
    }
    let report = StatusWrite { client: caller.client, status, body: body.to_vec(), received_at: state.now() };
    state.statuses.write(report).await.map_err(|unwritten| match unwritten {
        WriteRefused::Busy => Refusal::busy("Too many status reports are waiting to be written."),
        WriteRefused::Full => Refusal::busy("The server is out of disk space; nothing was changed."),
        WriteRefused::Failed => Refusal::internal(),
    })
}

/// W-11
fn unknown() -> Refusal {
    Refusal::new(
        ProblemType::DeploymentNotFound,
        StatusCode::NOT_FOUND,
        "No deployment with this id was ever assigned to this client.",
    )
}

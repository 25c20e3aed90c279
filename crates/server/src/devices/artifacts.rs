//! Single YAMLs and bundles by digest: immutable bytes, served as stored (DS-17 to DS-21).

use super::caller::Caller;
use super::negotiate::none_match;
use crate::problems::{Answer, Refusal};
use crate::state::ServerState;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::IntoResponse as _;
use http::{HeaderMap, StatusCode, header};
use margo::digest::Digest;
use margo::ids::DeploymentId;
use margo::manifest::BUNDLE_MEDIA_TYPE;
use margo::problem::ProblemType;
use margrave_store::StoreError;

/// DS-19
const CACHE_CONTROL: &str = "private, max-age=31536000, immutable";
const YAML_MEDIA_TYPE: &str = "application/yaml";

/// `GET /api/v1/deployments/{deploymentId}/{digest}`
pub(super) async fn deployment(
    State(state): State<ServerState>,
    caller: Caller,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Answer {
    let named = path
        .ok()
        .and_then(|Path((id, digest))| Some((id.parse::<DeploymentId>().ok()?, digest.parse::<Digest>().ok()?)));
    // Anything that is not the caller's is 404, including invalid names (DS-17, GEN-09).
    let Some((id, digest)) = named else { return Err(no_such_deployment()) };
    let found = state.store.deployment_yaml(&caller.client, id, &digest).await;
    let yaml = found.map_err(|error| failed(&state, &error))?.ok_or_else(no_such_deployment)?;
    Ok((
        [
            (header::CONTENT_TYPE, YAML_MEDIA_TYPE),
            (header::ETAG, digest.etag().as_str()),
            (header::CACHE_CONTROL, CACHE_CONTROL),
        ],
        yaml,
    )
        .into_response())
}

/// `GET /api/v1/bundles/{digest}`
pub(super) async fn bundle(
    State(state): State<ServerState>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Answer {
    let Some(digest) = path.ok().and_then(|Path(digest)| digest.parse::<Digest>().ok()) else {
        return Err(no_such_bundle());
    };
    let found = state.store.bundle(&caller.client, &digest).await;
    let bundle = found.map_err(|error| failed(&state, &error))?.ok_or_else(no_such_bundle)?;
    let etag = digest.etag();
    if none_match(&headers, &etag) {
        // DS-20, DS-21
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag.as_str()), (header::CACHE_CONTROL, CACHE_CONTROL)])
            .into_response());
    }
    Ok((
        [
            (header::CONTENT_TYPE, BUNDLE_MEDIA_TYPE),
            (header::ETAG, etag.as_str()),
            (header::CACHE_CONTROL, CACHE_CONTROL),
        ],
        bundle,
    )
        .into_response())
}

fn no_such_deployment() -> Refusal {
    Refusal::new(
        ProblemType::DeploymentNotFound,
        StatusCode::NOT_FOUND,
        "This client has no deployment with this id and digest.",
    )
}

fn no_such_bundle() -> Refusal {
    Refusal::new(ProblemType::InvalidBundle, StatusCode::NOT_FOUND, "This client has no bundle with this digest.")
}

fn failed(state: &ServerState, error: &StoreError) -> Refusal {
    state.metrics.store_error();
    Refusal::store(error)
}

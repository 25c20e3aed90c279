//! One version of an application: what it is, where it fits, what it asks.

use crate::app::paging::Paging;
use crate::app::{applications, fit};
use crate::operators::extract::{By, Path, Query, Reason};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use margrave_api::applications::{ApplicationVersion, DeviceFit, Questions};
use margrave_api::page::Page;

/// Which devices to judge.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FitQuery {
    /// Label selector such as `site=berlin,line in (1,2),!spare`.
    selector: Option<String>,
}

/// Whose questions.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct QuestionQuery {
    /// Only what this profile asks; without it, what any profile asks.
    profile: Option<String>,
}

/// One version.
#[utoipa::path(get, path = "/api/applications/{id}/versions/{version}", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path)), responses((status = 200, body = ApplicationVersion)))]
pub(super) async fn get_application_version(
    State(state): State<ServerState>,
    Path((id, version)): Path<(String, String)>,
) -> Answer<Json<ApplicationVersion>> {
    Ok(Json(applications::get_version(&state, &id, &version).await?))
}

/// Asks the registries again whether they have the components; `warnings` says which ones they have not.
#[utoipa::path(post, path = "/api/applications/{id}/versions/{version}/components", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path)), responses((status = 200, body = ApplicationVersion)))]
pub(super) async fn ask_application_components(
    State(state): State<ServerState>,
    Path((id, version)): Path<(String, String)>,
) -> Answer<Json<ApplicationVersion>> {
    Ok(Json(applications::ask_for_components(&state, &id, &version).await?))
}

/// Takes a version out of the catalog, unless a deployment is on it.
#[utoipa::path(delete, path = "/api/applications/{id}/versions/{version}", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path), Reason), responses((status = 204)))]
pub(super) async fn delete_application_version(
    State(state): State<ServerState>,
    By(caller): By,
    Path((id, version)): Path<(String, String)>,
    Query(reason): Query<Reason>,
) -> Answer<StatusCode> {
    applications::delete_version(&state, &caller, &id, &version, reason.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Every device as fits, does not fit, or unknown, with the reason per rule.
#[utoipa::path(get, path = "/api/applications/{id}/versions/{version}/fit", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path), FitQuery, Paging),
    responses((status = 200, body = Page<DeviceFit>)))]
pub(super) async fn list_application_fit(
    State(state): State<ServerState>,
    Path((id, version)): Path<(String, String)>,
    Query(query): Query<FitQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<DeviceFit>>> {
    Ok(Json(fit::list(&state, &id, &version, query.selector.as_deref(), &paging).await?))
}

/// The questions of a version, by section.
#[utoipa::path(get, path = "/api/applications/{id}/versions/{version}/questions", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path), QuestionQuery),
    responses((status = 200, body = Questions)))]
pub(super) async fn get_application_questions(
    State(state): State<ServerState>,
    Path((id, version)): Path<(String, String)>,
    Query(query): Query<QuestionQuery>,
) -> Answer<Json<Questions>> {
    Ok(Json(applications::questions(&state, &id, &version, query.profile.as_deref()).await?))
}

/// Icon, description, licence or release notes of a version.
#[utoipa::path(get, path = "/api/applications/{id}/versions/{version}/resources/{kind}", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path),
        ("kind" = String, Path, description = "`icon`, `descriptionFile`, `licenseFile` or `releaseNotes`")),
    responses((status = 200, description = "The file as the supplier shipped it", body = [u8],
        content_type = "application/octet-stream")))]
pub(super) async fn get_application_resource(
    State(state): State<ServerState>,
    Path((id, version, kind)): Path<(String, String, String)>,
) -> Answer<Response> {
    let (media_type, bytes) = applications::resource(&state, &id, &version, &kind).await?;
    let media_type =
        HeaderValue::from_str(&media_type).unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (header::CONTENT_TYPE, media_type),
        // A supplier's file is foreign: wherever it is opened, it can do nothing.
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    ];
    Ok((headers, bytes).into_response())
}

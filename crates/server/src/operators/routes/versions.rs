//! One version of an application: details, compatibility, parameters.

use crate::app::paging::Paging;
use crate::app::{applications, compatibility};
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, Path, Query};
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use margrave_api::applications::{ApplicationVersion, DeviceCompatibility, Parameters};
use margrave_api::page::Page;

/// Which devices to evaluate.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CompatibilityQuery {
    /// Label selector such as `site=berlin,line in (1,2),!spare`.
    selector: Option<String>,
}

/// Which parameters.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ParametersQuery {
    /// Only parameters of this profile; without it, of all profiles.
    profile: Option<String>,
}

/// Returns one version.
#[utoipa::path(get, path = "/api/applications/{id}/versions/{version}", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path)), responses((status = 200, body = ApplicationVersion)))]
pub(super) async fn get_application_version(
    State(state): State<ServerState>,
    Path((id, version)): Path<(String, String)>,
) -> Answer<Json<ApplicationVersion>> {
    Ok(Json(applications::get_version(&state, &id, &version).await?))
}

/// Checks again whether the registries have the components; `warnings` names the missing ones.
#[utoipa::path(post, path = "/api/applications/{id}/versions/{version}/components/check", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path)), responses((status = 200, body = ApplicationVersion)))]
pub(super) async fn check_application_components(
    State(state): State<ServerState>,
    Path((id, version)): Path<(String, String)>,
) -> Answer<Json<ApplicationVersion>> {
    Ok(Json(applications::check_components(&state, &id, &version).await?))
}

/// Deletes a version from the catalog, unless a deployment uses it.
#[utoipa::path(delete, path = "/api/applications/{id}/versions/{version}", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path), CommentQuery), responses((status = 204)))]
pub(super) async fn delete_application_version(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, version)): Path<(String, String)>,
    Query(reason): Query<CommentQuery>,
) -> Answer<StatusCode> {
    applications::delete_version(&state, &caller, &id, &version, reason.comment).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists devices as compatible, incompatible or unknown, with the reason per rule.
#[utoipa::path(get, path = "/api/applications/{id}/versions/{version}/compatibility", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path), CompatibilityQuery, Paging),
    responses((status = 200, body = Page<DeviceCompatibility>)))]
pub(super) async fn list_application_compatibility(
    State(state): State<ServerState>,
    Path((id, version)): Path<(String, String)>,
    Query(query): Query<CompatibilityQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<DeviceCompatibility>>> {
    Ok(Json(compatibility::list(&state, &id, &version, query.selector.as_deref(), &paging).await?))
}

/// Lists the parameters of a version, by section.
#[utoipa::path(get, path = "/api/applications/{id}/versions/{version}/parameters", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path), ParametersQuery),
    responses((status = 200, body = Parameters)))]
pub(super) async fn get_application_parameters(
    State(state): State<ServerState>,
    Path((id, version)): Path<(String, String)>,
    Query(query): Query<ParametersQuery>,
) -> Answer<Json<Parameters>> {
    Ok(Json(applications::parameters(&state, &id, &version, query.profile.as_deref()).await?))
}

/// A file as the supplier shipped it.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "describes the response only")]
pub(super) struct ResourceFile(Vec<u8>);

/// Returns the icon, description, license or release notes of a version.
#[utoipa::path(get, path = "/api/applications/{id}/versions/{version}/resources/{kind}", tag = "applications",
    params(("id" = String, Path), ("version" = String, Path),
        ("kind" = String, Path, description = "`icon`, `descriptionFile`, `licenseFile` or `releaseNotes`")),
    responses((status = 200, description = "The file as the supplier shipped it", body = ResourceFile,
        content_type = "*/*")))]
pub(super) async fn get_application_resource(
    State(state): State<ServerState>,
    Path((id, version, kind)): Path<(String, String, String)>,
) -> Answer<Response> {
    let (media_type, bytes) = applications::resource(&state, &id, &version, &kind).await?;
    let media_type =
        HeaderValue::from_str(&media_type).unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (header::CONTENT_TYPE, media_type),
        // A supplier's file is untrusted: wherever it is opened, it can do nothing.
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    ];
    Ok((headers, bytes).into_response())
}

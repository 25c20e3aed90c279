//! Adds packages to the catalog: uploaded, or pulled from a registry.

use crate::catalog::{self, UPLOAD_BYTES_MAX, UploadNote};
use crate::operators::extract::{AuthenticatedCaller, CommentQuery, JsonBody, Query, read_body};
use crate::operators::idempotency::Created;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::extract::{Request, State};
use margrave_api::applications::{ImportApplication, Imported};

/// Adds a package from a tar.gz or tar of its folder or of an OCI layout.
#[utoipa::path(post, path = "/api/applications", tag = "applications", params(UploadNote, CommentQuery),
    request_body(content = [u8], content_type = "application/gzip",
        description = "tar.gz or tar of a package folder, or of an OCI layout (recognized by its `oci-layout` file)"),
    responses((status = 201, body = Imported, description = "Added"),
        (status = 200, body = Imported, description = "This package already exists")))]
pub(super) async fn upload_application(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(note): Query<UploadNote>,
    Query(reason): Query<CommentQuery>,
    request: Request,
) -> Answer<Created<Imported>> {
    let archive = read_body(request, UPLOAD_BYTES_MAX).await?;
    Ok(Created(catalog::upload(&state, &caller, archive, note, reason.comment).await?))
}

/// Pulls a package from an OCI registry.
#[utoipa::path(post, path = "/api/applications/import", tag = "applications", request_body = ImportApplication,
    responses((status = 201, body = Imported, description = "Added"),
        (status = 200, body = Imported, description = "This package already exists")))]
pub(super) async fn import_application(
    State(state): State<ServerState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(body): JsonBody<ImportApplication>,
) -> Answer<Created<Imported>> {
    Ok(Created(catalog::import(&state, &caller, body).await?))
}

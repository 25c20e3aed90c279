//! `blobs/uploads/`

use super::{CONTENT_DIGEST, Call};
use crate::registry::auth::Action;
use crate::registry::error::{RegistryError, Result};
use crate::registry::names::{Digest, RepositoryName};
use crate::registry::range;
use crate::registry::uploads::{Chunk, location};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, LOCATION, RANGE};
use http::{HeaderName, HeaderValue, StatusCode};
use uuid::Uuid;

const UPLOAD_ID: HeaderName = HeaderName::from_static("docker-upload-uuid");

/// Starts an upload; or mounts a blob of another repository; or receives a whole blob at once.
pub(super) async fn begin(call: &Call, name: &RepositoryName, body: Body) -> Result<Response> {
    call.allow(Action::Push, Some(name)).await?;
    if let Some(digest) = call.query("mount") {
        let digest: Digest = digest.parse()?;
        if mounted(call, name, &digest).await? {
            return Ok(created(name, &digest));
        }
    } else if let Some(digest) = call.query("digest") {
        let digest: Digest = digest.parse()?;
        let id = call.registry.begin_upload(name).await?.to_string();
        let taken = call.registry.finish(name, &id, chunk(call, body)?, &digest).await;
        if taken.is_err() {
            // The client never got the address, so it cannot resume it; most errors have ended it already.
            let _ = call.registry.cancel_upload(name, &id).await;
        }
        taken?;
        return Ok(created(name, &digest));
    }
    let id = call.registry.begin_upload(name).await?;
    Ok(progress(StatusCode::ACCEPTED, name, id, 0))
}

/// Whether the blob was mounted; otherwise it is uploaded like any other.
async fn mounted(call: &Call, name: &RepositoryName, digest: &Digest) -> Result<bool> {
    let Some(from) = call.query("from").and_then(|from| from.parse::<RepositoryName>().ok()) else { return Ok(false) };
    // A client without read access there must not learn whether it exists.
    match call.allow(Action::Pull, Some(&from)).await {
        Ok(_) => call.registry.mount(name, digest, &from).await,
        Err(_) => Ok(false),
    }
}

pub(super) async fn status(call: &Call, name: &RepositoryName, id: &str) -> Result<Response> {
    call.allow(Action::Push, Some(name)).await?;
    let (id, received) = call.registry.upload_received(name, id)?;
    Ok(progress(StatusCode::NO_CONTENT, name, id, received))
}

pub(super) async fn append(call: &Call, name: &RepositoryName, id: &str, body: Body) -> Result<Response> {
    call.allow(Action::Push, Some(name)).await?;
    let (uuid, _) = call.registry.upload_received(name, id)?;
    let received = call.registry.append(name, id, chunk(call, body)?).await?;
    Ok(progress(StatusCode::ACCEPTED, name, uuid, received))
}

pub(super) async fn finish(call: &Call, name: &RepositoryName, id: &str, body: Body) -> Result<Response> {
    call.allow(Action::Push, Some(name)).await?;
    call.registry.upload_received(name, id)?;
    let digest: Digest = call.query("digest").ok_or(RegistryError::DigestMissing)?.parse()?;
    call.registry.finish(name, id, chunk(call, body)?, &digest).await?;
    Ok(created(name, &digest))
}

pub(super) async fn cancel(call: &Call, name: &RepositoryName, id: &str) -> Result<Response> {
    call.allow(Action::Push, Some(name)).await?;
    call.registry.cancel_upload(name, id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn chunk(call: &Call, body: Body) -> Result<Chunk> {
    let length = match call.header(&CONTENT_LENGTH) {
        Some(text) => {
            Some(text.parse().map_err(|_| RegistryError::SizeInvalid("Content-Length is not a number".to_owned()))?)
        }
        None => None,
    };
    let range = match call.header(&CONTENT_RANGE) {
        // A last request without content has no range.
        Some(_) if length == Some(0) => None,
        Some(text) => Some(range::chunk(text).ok_or_else(|| {
            RegistryError::UploadInvalid("write Content-Range as `<first byte>-<last byte>`".to_owned())
        })?),
        None => None,
    };
    Ok(Chunk { body, range, length })
}

fn created(name: &RepositoryName, digest: &Digest) -> Response {
    let headers = [(LOCATION, format!("/v2/{name}/blobs/{digest}")), (CONTENT_DIGEST, digest.to_string())];
    (StatusCode::CREATED, headers).into_response()
}

fn progress(status: StatusCode, name: &RepositoryName, id: Uuid, received: u64) -> Response {
    let headers = [(LOCATION, location(name, id)), (UPLOAD_ID, id.to_string())];
    let mut response = (status, headers).into_response();
    response.headers_mut().insert(RANGE, range::received(received));
    response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from_static("0"));
    response
}

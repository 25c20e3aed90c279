//! `blobs/<digest>`

use super::{Call, content, not_modified, run_to_completion};
use crate::registry::auth::{Action, Rollout};
use crate::registry::error::{Attempt as _, Result};
use crate::registry::names::{Digest, RepositoryName};
use crate::registry::range::{RequestedRange, requested_range};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT_RANGES, CONTENT_RANGE, RANGE};
use http::{HeaderValue, StatusCode};
use std::io::SeekFrom;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

const OCTETS: &str = "application/octet-stream";
/// Read buffer per download, so not larger than useful.
const READ_BUFFER_BYTES: usize = 128 * 1024;

pub(super) async fn get(call: &Call, name: &RepositoryName, digest: &Digest) -> Result<Response> {
    call.allow(Action::Pull, Some(name)).await?;
    if call.is_head() {
        let size = call.registry.blob_size(name, digest)?;
        let mut response = content(StatusCode::OK, digest, OCTETS, size, Body::empty())?;
        response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        return Ok(response);
    }
    let (mut file, size) = call.registry.open_blob(name, digest).await?;
    if call.has(digest) {
        return Ok(not_modified(digest));
    }
    let (status, first, length) = match requested_range(call.header(&RANGE), size) {
        RequestedRange::Whole => (StatusCode::OK, 0, size),
        RequestedRange::Part(first, length) => (StatusCode::PARTIAL_CONTENT, first, length),
        RequestedRange::Unsatisfiable => {
            let header = [(CONTENT_RANGE, format!("bytes */{size}"))];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, header).into_response());
        }
    };
    if first > 0 {
        file.seek(SeekFrom::Start(first)).await.attempt("seek in a blob")?;
    }
    let stream = ReaderStream::with_capacity(file.take(length), READ_BUFFER_BYTES);
    let mut response = content(status, digest, OCTETS, length, Body::from_stream(stream))?;
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {first}-{}/{size}", first + length - 1);
        headers.insert(CONTENT_RANGE, HeaderValue::try_from(range).expect("digits are a header value"));
    }
    Ok(response)
}

pub(super) async fn delete(call: &Call, name: &RepositoryName, digest: &Digest) -> Result<Response> {
    let who = call.allow(Action::Delete, Some(name)).await?;
    call.registry.check_blob_deletable(name, digest)?;
    let rollout = Rollout {
        who,
        action: "registry.delete",
        repository: name.clone(),
        reference: digest.to_string(),
        digest: Some(digest.clone()),
    };
    let (registry, auth, name, digest) = (call.registry.clone(), Arc::clone(&call.auth), name.clone(), digest.clone());
    run_to_completion(async move {
        // Recorded first: a deleted blob cannot be deleted again to make up for a missing record.
        auth.record(rollout).await?;
        registry.delete_blob(&name, &digest).await
    })
    .await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

//! `manifests/<reference>`

use super::{CONTENT_DIGEST, Call, content, not_modified, run_to_completion};
use crate::registry::PutManifest;
use crate::registry::auth::{Action, Rollout};
use crate::registry::document::MANIFEST_BYTES_MAX;
use crate::registry::error::{RegistryError, Result};
use crate::registry::names::{Reference, RepositoryName};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderName, HeaderValue, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
/// A manifest is small: a client that cannot send it in this time is gone.
const RECEIVE_TIMEOUT: Duration = Duration::from_mins(1);
/// A manifest that is too large is read this far, because a client that is still sending does not see the response.
const DRAIN_BYTES_MAX: usize = 4 * MANIFEST_BYTES_MAX;

pub(super) async fn get(call: &Call, name: &RepositoryName, reference: &Reference) -> Result<Response> {
    call.allow(Action::Pull, Some(name)).await?;
    let (digest, media_type, size) = call.registry.stat_manifest(name, reference)?;
    if call.has(&digest) {
        return Ok(not_modified(&digest));
    }
    if call.is_head() {
        return content(StatusCode::OK, &digest, &media_type, size, Body::empty());
    }
    let stored = call.registry.manifest(name, reference).await?;
    let length = stored.bytes.len() as u64;
    content(StatusCode::OK, &stored.digest, &stored.media_type, length, Body::from(stored.bytes))
}

pub(super) async fn put(call: &Call, name: &RepositoryName, reference: &Reference, body: Body) -> Result<Response> {
    let who = call.allow(Action::Push, Some(name)).await?;
    let bytes = timeout(RECEIVE_TIMEOUT, receive(body))
        .await
        .map_err(|_| RegistryError::Stalled(RECEIVE_TIMEOUT.as_secs()))??;
    let put = enter(call, who, name, reference, bytes).await?;
    let headers = [(LOCATION, format!("/v2/{name}/manifests/{reference}")), (CONTENT_DIGEST, put.digest.to_string())];
    let mut response = (StatusCode::CREATED, headers).into_response();
    if let Some(subject) = put.subject {
        let subject = HeaderValue::try_from(subject.to_string()).expect("a digest is a header value");
        response.headers_mut().insert(SUBJECT, subject);
    }
    Ok(response)
}

/// Recorded afterwards, when it is known to be valid; a client that is asked to retry pushes the same again.
async fn enter(
    call: &Call,
    who: String,
    name: &RepositoryName,
    reference: &Reference,
    bytes: Bytes,
) -> Result<PutManifest> {
    let (registry, auth) = (call.registry.clone(), Arc::clone(&call.auth));
    let (repository, reference) = (name.clone(), reference.clone());
    let media_type = call.header(&CONTENT_TYPE).map(str::to_owned);
    run_to_completion(async move {
        let put = registry.put_manifest(&repository, &reference, media_type.as_deref(), bytes).await?;
        let (reference, digest) = (reference.to_string(), Some(put.digest.clone()));
        auth.record(Rollout { who, action: "registry.push", repository, reference, digest }).await?;
        Ok(put)
    })
    .await
}

async fn receive(body: Body) -> Result<Bytes> {
    let mut stream = body.into_data_stream();
    let mut bytes = BytesMut::new();
    let mut received = 0;
    while let Some(frame) = stream.next().await {
        let frame = frame.map_err(|_| RegistryError::ManifestInvalid("the body is incomplete".to_owned()))?;
        received += frame.len();
        if received <= MANIFEST_BYTES_MAX {
            bytes.extend_from_slice(&frame);
        } else if received > DRAIN_BYTES_MAX {
            break;
        }
    }
    if received > MANIFEST_BYTES_MAX {
        return Err(RegistryError::ManifestTooLarge { limit: MANIFEST_BYTES_MAX });
    }
    Ok(bytes.freeze())
}

pub(super) async fn delete(call: &Call, name: &RepositoryName, reference: &Reference) -> Result<Response> {
    let who = call.allow(Action::Delete, Some(name)).await?;
    call.registry.check_manifest_deletable(name, reference)?;
    let text = reference.to_string();
    let rollout = Rollout { who, action: "registry.delete", repository: name.clone(), reference: text, digest: None };
    let (registry, auth) = (call.registry.clone(), Arc::clone(&call.auth));
    let (name, reference) = (name.clone(), reference.clone());
    run_to_completion(async move {
        // Recorded first: a deleted manifest cannot be deleted again to make up for a missing record.
        auth.record(rollout).await?;
        registry.delete_manifest(&name, &reference).await
    })
    .await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

//! `GET /api/v1/deployments`: the desired state of this client (DS-12 to DS-16).

use super::caller::Caller;
use super::negotiate::{accepts, none_match};
use crate::problems::{Answer, Refusal};
use crate::state::ServerState;
use axum::extract::State;
use axum::response::IntoResponse as _;
use http::{HeaderMap, StatusCode, header};
use margo::manifest::MANIFEST_MEDIA_TYPE;
use margo::problem::ProblemType;
use margrave_store::Head;

/// DS-15: never shared, never cached without revalidation.
pub(super) const CACHE_CONTROL: &str = "private";

pub(super) async fn get(State(state): State<ServerState>, caller: Caller, headers: HeaderMap) -> Answer {
    if !accepts(&headers, MANIFEST_MEDIA_TYPE) {
        return Err(Refusal::new(
            ProblemType::ServerCannotGenerateResponse,
            StatusCode::NOT_ACCEPTABLE,
            format!("The manifest is available as `{MANIFEST_MEDIA_TYPE}` only."),
        ));
    }
    // From memory: no database, no writer lock (invariant 3).
    let etag = caller.head.digest.etag();
    if none_match(&headers, &etag) {
        state.metrics.poll("unchanged");
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag.as_str()), (header::CACHE_CONTROL, CACHE_CONTROL)])
            .into_response());
    }
    let stored = state.store.manifest(&caller.client).await.map_err(|error| {
        state.metrics.store_error();
        Refusal::store(&error)
    })?;
    let Some((version, digest, body)) = stored else {
        tracing::error!(client.id = %caller.client, "accepted client has no manifest");
        return Err(Refusal::internal());
    };
    state.metrics.poll("changed");
    let etag = digest.etag();
    if version > caller.head.version {
        // Another process has published; the next poll finds the new head in memory.
        state.heads.put(Head { version, digest, ..Head::clone(&caller.head) });
    }
    Ok((
        [
            // Exactly this text: some clients compare it as a string (W-06).
            (header::CONTENT_TYPE, MANIFEST_MEDIA_TYPE),
            (header::ETAG, etag.as_str()),
            (header::CACHE_CONTROL, CACHE_CONTROL),
        ],
        body,
    )
        .into_response())
}

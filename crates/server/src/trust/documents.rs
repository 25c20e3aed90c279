//! The two public documents of the trust domain.

use crate::devices::none_match;
use crate::state::ServerState;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use margo::digest::Digest;
use margo::trust_bundle::Discovery;

/// HTTP caches must not delay a refresh of trust (TB-05).
const CACHE_CONTROL: &str = "no-cache";
const JSON: &str = "application/json";

/// `GET /.well-known/margo` (TB-01)
pub(super) async fn discovery(State(state): State<ServerState>, headers: HeaderMap) -> Response {
    let document = Discovery {
        trust_domain: state.identity.wfm().trust_domain.clone(),
        trust_bundle_uri: format!("{}{}", state.urls.trust, super::BUNDLE_PATH),
    };
    answer(&headers, document.to_json())
}

/// The SPIFFE bundle (TB-03): sequence and refresh hint are in the document.
pub(super) async fn bundle(State(state): State<ServerState>, headers: HeaderMap) -> Response {
    answer(&headers, state.identity.bundle_json())
}

fn answer(headers: &HeaderMap, body: Vec<u8>) -> Response {
    let etag = Digest::of(&body).etag();
    let common = [(header::ETAG, etag.as_str()), (header::CACHE_CONTROL, CACHE_CONTROL)];
    if none_match(headers, &etag) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(header::CONTENT_TYPE, JSON)], body).into_response()
}

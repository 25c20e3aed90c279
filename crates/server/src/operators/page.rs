//! One live, read-only page: devices, deployments, states. It asks the API like anybody else, with the token it is given.

use crate::state::ServerState;
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, header};

const INDEX: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/status.css");
const SCRIPT: &str = include_str!("page/status.js");
const ICON: &str = include_str!("page/icon.svg");

/// Nothing from elsewhere, nothing inline, nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

pub(super) fn router() -> Router<ServerState> {
    Router::new()
        .route("/", get(|| async { file("text/html; charset=utf-8", INDEX) }))
        .route("/assets/status.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/assets/status.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/assets/icon.svg", get(|| async { file("image/svg+xml", ICON) }))
}

fn file(media_type: &'static str, body: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // Small files that change with the server: always the ones that belong to it.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    let mut response = (headers, body).into_response();
    response.headers_mut().insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    response
}

//! Response headers of every page.

use crate::state::ServerState;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

/// No content from other origins, nothing inline, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(super) async fn add(State(state): State<ServerState>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    with(&state, response)
}

pub(super) fn with(state: &ServerState, mut response: Response) -> Response {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    // A response with its own policy, such as an icon from a package, keeps it.
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(header::CACHE_CONTROL, "no-store");
    if state.config.listeners.operators.speaks_tls() {
        set(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    response
}

//! The real device API without sockets: the same routes, with the identity that a handshake would prove.

use axum::Router;
use axum::body::Body;
use http::{Method, header};
use margo::manifest::MANIFEST_MEDIA_TYPE;
use margo::spiffe::ClientIdentity;
use margrave_agent::machine::io::{Request, Response};
use margrave_server::net::Peer;
use tower::ServiceExt as _;

/// Larger than any response of a small run.
const ANSWER_BYTES_MAX: usize = 16 << 20;

pub(super) async fn handle(routes: &Router, caller: ClientIdentity, request: &Request) -> Response {
    let mut requested = http(request);
    requested.extensions_mut().insert(Peer(caller));
    let answer = routes.clone().oneshot(requested).await.unwrap_or_else(|never| match never {});
    let status = answer.status().as_u16();
    let field = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (etag, retry_after) = (field(header::ETAG), field(header::RETRY_AFTER));
    // Time is simulated: the world implements long polls.
    let waited = None;
    let body = axum::body::to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.expect("a body in memory is complete");
    Response { status, etag, retry_after, waited, body: body.to_vec() }
}

/// The request as the agent's shell sends it.
fn http(request: &Request) -> http::Request<Body> {
    let (method, path, body) = match request {
        Request::Poll { .. } => (Method::GET, "/api/v1/deployments".to_owned(), Vec::new()),
        Request::FetchBundle { path } | Request::FetchYaml { path } => (Method::GET, path.clone(), Vec::new()),
        Request::PutCapabilities { device, json } => {
            (Method::PUT, format!("/api/v1/capabilities/{device}"), json.clone())
        }
        Request::DeleteDevice { device } => (Method::DELETE, format!("/api/v1/capabilities/{device}"), Vec::new()),
        Request::PostStatus { deployment, json } => {
            (Method::POST, format!("/api/v1/deployments/{deployment}/status"), json.clone())
        }
    };
    let mut builder = http::Request::builder().method(method).uri(path);
    match request {
        Request::Poll { if_none_match, .. } => {
            builder = builder.header(header::ACCEPT, MANIFEST_MEDIA_TYPE);
            if let Some(etag) = if_none_match {
                builder = builder.header(header::IF_NONE_MATCH, etag);
            }
        }
        _ if !body.is_empty() => builder = builder.header(header::CONTENT_TYPE, "application/json"),
        _ => {}
    }
    builder.body(Body::from(body)).expect("paths and ETags of the protocol are valid in a request")
}

//! The operator listener: the API and the web front end.

mod auth;
mod compression;
mod extract;
mod idempotency;
mod openapi;
mod problems;
mod routes;

pub use openapi::document;

use crate::state::ServerState;
use crate::telemetry::{self, observe};
use crate::ui;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use http::header;
use std::sync::Arc;
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

/// Everything on the operator listener: `/api`, the pages, health and metrics.
pub fn router(state: ServerState) -> Router {
    let limit = state.config.limits.request_timeout.0;
    let observed = ("operators", Arc::clone(&state.metrics));
    let (api, described) = routes::all().split_for_parts();
    let operations = idempotency::Operations::of(&described);
    let api = api
        .method_not_allowed_fallback(problems::no_such_method)
        .layer(from_fn_with_state((state.clone(), idempotency::KeyLocks::default(), operations), idempotency::once))
        // Without a token a caller learns nothing else.
        .layer(from_fn_with_state(state.clone(), auth::require))
        .layer(from_fn(move |request: Request, next: Next| problems::in_time(limit, request, next)))
        .layer(CatchPanicLayer::custom(problems::panicked))
        .layer(from_fn(problems::finish));
    api.merge(ui::router(&state))
        .fallback(nothing_here)
        .with_state(state.clone())
        .merge(telemetry::router(state))
        .layer(from_fn(compression::compress))
        .layer(from_fn_with_state(observed, observe))
}

/// An unknown address: a problem document for programs, a page for people.
async fn nothing_here(State(state): State<ServerState>, request: Request) -> Response {
    let accepts_pages = request
        .headers()
        .get_all(header::ACCEPT)
        .iter()
        .any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")));
    if accepts_pages && !request.uri().path().starts_with("/api") {
        return ui::lost(&state, request).await;
    }
    let lost: Router = Router::new().fallback(problems::no_such_address).layer(from_fn(problems::finish));
    match lost.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

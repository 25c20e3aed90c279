//! The operator API and the status page.

mod auth;
mod extract;
mod idempotency;
mod openapi;
mod page;
mod problems;
mod routes;

pub use openapi::document;

use crate::state::ServerState;
use crate::telemetry::{self, observe};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;

/// Everything on the operator listener: `/api`, the status page, health and metrics.
pub fn router(state: ServerState) -> Router {
    let limit = state.config.limits.request_timeout.0;
    let observed = ("operators", Arc::clone(&state.metrics));
    let (api, _) = routes::all().split_for_parts();
    api.method_not_allowed_fallback(problems::no_such_method)
        .layer(from_fn_with_state((state.clone(), idempotency::Turns::default()), idempotency::once))
        // Who has no token learns nothing but that.
        .layer(from_fn_with_state(state.clone(), auth::require))
        .merge(page::router())
        .fallback(problems::no_such_address)
        .layer(from_fn(move |request: Request, next: Next| problems::in_time(limit, request, next)))
        .layer(CatchPanicLayer::custom(problems::panicked))
        .layer(from_fn(problems::finish))
        .with_state(state.clone())
        .merge(telemetry::router(state))
        .layer(from_fn_with_state(observed, observe))
}

//! The trust listener: discovery, trust bundle, enrollment, the embedded registry.
//!
//! Ordinary HTTPS, no client certificate. A fuller identity service would replace the implementation behind
//! [`crate::identity::Identity`]; these addresses and their documents stay.

// Suggested reading order.
mod documents;
mod enrollment;
mod rate_limit;

pub use enrollment::{ENROLLMENT_RETRY_WINDOW, EnrollmentRequest, EnrollmentResponse};

use crate::problems::{self, Refusal};
use crate::registry;
use crate::state::ServerState;
use crate::telemetry::observe;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::routing::{get, post};
use margo::ids::ClientId;
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;

/// Path of the SPIFFE bundle; existing identity services use the same (W-29).
pub const BUNDLE_PATH: &str = "/.well-known/spiffe/bundle.json";
/// Path of enrollment: takes a token and a CSR, returns an SVID.
pub const ENROLLMENT_PATH: &str = "/enrollment/v1";

pub fn router(state: ServerState) -> Router {
    let limit = state.config.limits.request_timeout.0;
    let registry = registry::hosted::routes(&state);
    let observed = ("trust", Arc::clone(&state.metrics));
    Router::new()
        .route("/.well-known/margo", get(documents::discovery))
        .route(BUNDLE_PATH, get(documents::bundle))
        .route(ENROLLMENT_PATH, post(enrollment::post))
        .layer(axum::Extension(Arc::new(rate_limit::RateLimit::default())))
        .method_not_allowed_fallback(problems::no_such_method)
        .fallback(problems::no_such_address)
        .layer(from_fn(move |request: Request, next: Next| problems::in_time(limit, request, next)))
        .with_state(state)
        // Outside the time limit: image transfers can take long, and the registry has limits of its own.
        .merge(registry)
        .layer(CatchPanicLayer::custom(problems::panicked))
        .layer(from_fn_with_state(observed, observe))
}

/// Loads a client's head from the store into memory.
pub(crate) async fn refresh_head(state: &ServerState, client: &ClientId) -> Result<(), Refusal> {
    let found = state.store.client_with_head(client).await.map_err(|error| {
        state.metrics.store_error();
        Refusal::store(&error)
    })?;
    if let Some((_, head)) = found {
        state.heads.put(head);
    }
    Ok(())
}

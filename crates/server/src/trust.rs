//! The trust listener: discovery, trust bundle, enrolment, the embedded registry.
//!
//! Ordinary HTTPS, no client certificate. A fuller identity service replaces what is behind
//! [`crate::identity::Identity`]; these addresses and their documents stay.

// Suggested reading order.
mod documents;
mod enrolment;
mod pace;

pub use enrolment::{ENROLMENT_RETRY_WINDOW, EnrolmentRequest, EnrolmentResponse};

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
/// Path of enrolment: a token and a CSR go in, an SVID comes out.
pub const ENROLMENT_PATH: &str = "/enrolment/v1";

pub fn router(state: ServerState) -> Router {
    let limit = state.config.limits.request_timeout.0;
    let registry = registry::hosted::routes(&state);
    let observed = ("trust", Arc::clone(&state.metrics));
    Router::new()
        .route("/.well-known/margo", get(documents::discovery))
        .route(BUNDLE_PATH, get(documents::bundle))
        .route(ENROLMENT_PATH, post(enrolment::post))
        .layer(axum::Extension(Arc::new(pace::Pace::default())))
        .method_not_allowed_fallback(problems::no_such_method)
        .fallback(problems::no_such_address)
        .layer(from_fn(move |request: Request, next: Next| problems::in_time(limit, request, next)))
        .with_state(state)
        // Outside the time limit: images take as long as they take, and the registry has limits of its own.
        .merge(registry)
        .layer(CatchPanicLayer::custom(problems::panicked))
        .layer(from_fn_with_state(observed, observe))
}

/// Takes a client's head from the store into memory.
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

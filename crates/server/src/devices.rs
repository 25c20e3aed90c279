//! The device API of Margo generation B, over mutual TLS.
//!
//! The caller is known from the handshake alone, and every lookup is scoped to that caller (GEN-09, GEN-10).

// Suggested reading order.
mod caller;
mod unaccepted;
mod negotiate;
mod capabilities;
mod manifest;
mod fast_path;
mod long_poll;
mod artifacts;
mod status;
mod queue;

pub use fast_path::FastPath;
pub use long_poll::LongPolls;
pub(crate) use negotiate::none_match;
pub use queue::{Capabilities, CapabilityQueue, StatusQueue, Statuses};
pub use unaccepted::{UnacceptedClients, WAITING_MAX};

use crate::problems;
use crate::state::ServerState;
use crate::telemetry::observe;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::routing::{get, post, put};
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;

/// A capability report is a page of JSON; a large cell with many peripherals and labels stays far below.
pub const CAPABILITIES_BYTES_MAX: usize = 256 * 1024;
/// A status report: states and error texts of a deployment's components.
pub const STATUS_BYTES_MAX: usize = 256 * 1024;

/// The routes, under the configured path prefix (W-01).
pub fn router(state: ServerState) -> Router {
    let prefix = &state.config.listeners.devices.path_prefix;
    let limit = state.config.limits.request_timeout.0;
    let observed = ("devices", Arc::clone(&state.metrics));
    Router::new()
        // Device ids contain raw slashes: the rest of the path is the id (CAP-04, W-04).
        .route(
            &format!("{prefix}/api/v1/capabilities/{{*deviceId}}"),
            put(capabilities::put).delete(capabilities::delete),
        )
        .route(&format!("{prefix}/api/v1/deployments"), get(manifest::get))
        .route(&format!("{prefix}/api/v1/deployments/{{deploymentId}}/{{digest}}"), get(artifacts::deployment))
        .route(&format!("{prefix}/api/v1/deployments/{{deploymentId}}/status"), post(status::post))
        .route(&format!("{prefix}/api/v1/bundles/{{digest}}"), get(artifacts::bundle))
        .method_not_allowed_fallback(problems::no_such_method)
        .fallback(problems::no_such_address)
        // The policy applies before everything else, including unknown addresses (GEN-14).
        .layer(from_fn_with_state(state.clone(), caller::admit))
        .layer(from_fn(move |request: Request, next: Next| problems::in_time(limit, request, next)))
        .layer(CatchPanicLayer::custom(problems::panicked))
        .layer(from_fn_with_state(observed, observe))
        .with_state(state)
}

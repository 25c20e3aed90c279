//! The web front end: pages made here, one small script, notices that something has changed.
//!
//! Handlers call the same functions in `app` as the JSON routes do and fill in a template; nothing is decided here. The same
//! address answers with the whole page or, asked with `X-Fragment`, with the part of it that changes by itself.

// Suggested reading order.
mod visit;
mod session;
mod form;
mod ask;
mod headers;
mod errors;
mod markup;
mod words;
mod chart;
mod markdown;
mod assets;
mod live;
mod routes;

pub(crate) use errors::lost;

use crate::state::ServerState;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use tower_http::catch_panic::CatchPanicLayer;

/// Everything people see.
pub(crate) fn router(state: &ServerState) -> Router<ServerState> {
    let limit = state.config.limits.request_timeout.0;
    routes::signed_in()
        .layer(from_fn_with_state(state.clone(), session::require))
        .merge(routes::open())
        .layer(from_fn(session::own_origin_only))
        .layer(from_fn(move |request: Request, next: Next| errors::in_time(limit, request, next)))
        .layer(CatchPanicLayer::custom(errors::panicked))
        .layer(from_fn_with_state(state.clone(), errors::finish))
        .layer(from_fn_with_state(state.clone(), headers::add))
}

//! The web front end: server-rendered pages, a small script, and change notices.
//!
//! Handlers call the same functions in `app` as the JSON routes and fill in a template; they contain no business logic.
//! The same address returns the whole page or, with `X-Fragment`, only its live part.

// Suggested reading order.
mod visit;
mod session;
mod form;
mod confirm;
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

/// All pages.
pub(crate) fn router(state: &ServerState) -> Router<ServerState> {
    let limit = state.config.limits.request_timeout.0;
    routes::signed_in()
        .layer(from_fn_with_state(state.clone(), session::require))
        .merge(routes::open())
        .layer(from_fn(session::reject_cross_origin))
        .layer(from_fn(move |request: Request, next: Next| errors::in_time(limit, request, next)))
        .layer(CatchPanicLayer::custom(errors::panicked))
        .layer(from_fn_with_state(state.clone(), errors::finish))
        .layer(from_fn_with_state(state.clone(), headers::add))
}

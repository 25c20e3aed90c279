//! Logs and metrics, request ids, and the three addresses that tell how the server is.

mod metrics;
mod observe;

pub use metrics::{Metrics, RouteLabels, UnchangedPolls};
pub(crate) use observe::logs_unchanged;
pub use observe::{REQUEST_ID_HEADER, RequestId, observe};

use crate::config::{Log, LogFormat};
use crate::state::ServerState;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// A store that does not answer a trivial question in this time is not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the log filter `{filter}` cannot be used")]
    Filter {
        filter: String,
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    #[error("logging has been set up already")]
    Twice,
}

/// Sends log lines of this process to standard error.
pub fn init(log: &Log) -> Result<(), LogError> {
    let filter =
        EnvFilter::try_new(&log.filter).map_err(|source| LogError::Filter { filter: log.filter.clone(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init(),
        LogFormat::Text => builder.with_target(false).with_ansi(colours()).try_init(),
    }
    .map_err(|_| LogError::Twice)
}

/// Only for eyes: a file or a pipe gets none, and nobody who asks for none (NO_COLOR).
fn colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    std::io::IsTerminal::is_terminal(&std::io::stderr()) && !unwanted
}

/// `/healthz`, `/readyz` and `/metrics`, for the operator listener; none needs a token and none tells a secret.
pub fn router(state: ServerState) -> Router {
    Router::new()
        .route("/healthz", get(|| async { text(StatusCode::OK, "ok\n") }))
        .route("/readyz", get(ready))
        .route("/metrics", get(exposition))
        .with_state(state)
}

/// Ready while the store answers and the server is not on its way out.
async fn ready(State(state): State<ServerState>) -> Response {
    if state.stopping.is_cancelled() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    match tokio::time::timeout(READY_TIMEOUT, state.store.ping()).await {
        Ok(Ok(())) => text(StatusCode::OK, "ready\n"),
        Ok(Err(error)) => {
            state.metrics.store_error();
            tracing::warn!(error = &error as &dyn std::error::Error, "the store does not answer");
            text(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n")
        }
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "the store is too slow\n"),
    }
}

async fn exposition(State(state): State<ServerState>) -> Response {
    let body = state.metrics.encode();
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], body).into_response()
}

fn text(status: StatusCode, body: &'static str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")], body)
        .into_response()
}

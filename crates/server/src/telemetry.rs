//! Logs, metrics, request ids, and the three health endpoints.

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

/// A store that does not answer a trivial query in this time is not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("invalid log filter `{filter}`")]
    Filter {
        filter: String,
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    #[error("logging is already set up")]
    Twice,
}

/// Sends log lines of this process to standard error.
pub fn init(log: &Log) -> Result<(), LogError> {
    let filter =
        EnvFilter::try_new(&log.filter).map_err(|source| LogError::Filter { filter: log.filter.clone(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init(),
        LogFormat::Text => builder.with_target(false).with_ansi(colors()).try_init(),
    }
    .map_err(|_| LogError::Twice)
}

/// Only on a terminal, and not with NO_COLOR.
fn colors() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    std::io::IsTerminal::is_terminal(&std::io::stderr()) && !unwanted
}

/// `/healthz`, `/readyz` and `/metrics`, for the operator listener; none needs a token or reveals a secret.
pub fn router(state: ServerState) -> Router {
    Router::new()
        .route("/healthz", get(|| async { text(StatusCode::OK, "ok\n") }))
        .route("/readyz", get(ready))
        .route("/metrics", get(exposition))
        .with_state(state)
}

/// Ready while the store responds and the server is not stopping.
async fn ready(State(state): State<ServerState>) -> Response {
    if state.stopping.is_cancelled() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    match tokio::time::timeout(READY_TIMEOUT, state.store.ping()).await {
        Ok(Ok(())) => text(StatusCode::OK, "ready\n"),
        Ok(Err(error)) => {
            state.metrics.store_error();
            tracing::warn!(error = &error as &dyn std::error::Error, "store not responding");
            text(StatusCode::SERVICE_UNAVAILABLE, "store not responding\n")
        }
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "store timeout\n"),
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

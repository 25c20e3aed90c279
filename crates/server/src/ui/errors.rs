//! Everything that goes wrong, as a page: what was attempted, why not, what to do, and the id to quote.

use super::session::{cookie, cookie_name};
use super::{assets, headers, visit};
use crate::app::error::Code;
use crate::app::sessions;
use crate::state::ServerState;
use crate::telemetry::RequestId;
use askama::Template;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, header};
use margrave_api::problem::FieldProblem;
use std::any::Any;
use std::time::Duration;

/// Adding an application waits for a registry or a slow line.
const SLOW_TIMEOUT: Duration = Duration::from_secs(110);

/// A problem as it is shown.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) status: StatusCode,
    pub(super) title: String,
    pub(super) detail: String,
    pub(super) errors: Vec<FieldProblem>,
}

/// An error on its way out of a handler; [`finish`] makes a page of it.
#[derive(Debug)]
pub(super) struct UiError(pub(super) Shown);

impl IntoResponse for UiError {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    shown: Shown,
    request_id: Option<String>,
    signed_in: bool,
    /// Where the person was.
    back: Option<String>,
    assets: &'static str,
}

/// Makes pages of errors, whoever made them.
pub(super) async fn finish(State(state): State<ServerState>, request: Request, next: Next) -> Response {
    let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    let (headers, asset) = (request.headers().clone(), request.uri().path().starts_with("/assets/"));
    let response = next.run(request).await;
    let status = response.status();
    let wrong = status.is_client_error() || status.is_server_error();
    let has_page =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/"));
    let known = response.extensions().get::<Shown>().cloned();
    if !wrong || asset || (has_page && known.is_none()) {
        return response;
    }
    page(&state, &headers, request_id, known.unwrap_or_else(|| plain(status))).await
}

async fn page(state: &ServerState, headers: &HeaderMap, request_id: Option<String>, shown: Shown) -> Response {
    let signed_in = match cookie(headers, cookie_name(state)) {
        Some(secret) => sessions::visitor(state, secret, None).await.is_ok_and(|visitor| visitor.is_some()),
        None => false,
    };
    let back = headers.get(header::REFERER).and_then(|value| value.to_str().ok()).and_then(|text| {
        let url = url::Url::parse(text).ok()?;
        Some(url[url::Position::BeforePath..].to_owned())
    });
    let status = shown.status;
    let template = ErrorPage { shown, request_id, signed_in, back, assets: assets::base() };
    visit::render(status, &template).unwrap_or_else(|UiError(shown)| (shown.status, shown.detail).into_response())
}

fn plain(status: StatusCode) -> Shown {
    let (title, detail) = match status {
        StatusCode::NOT_FOUND => {
            ("There is no such page", "The address may be mistyped, or what it showed was removed.")
        }
        StatusCode::METHOD_NOT_ALLOWED => ("This cannot be done here", "Go back to the page and try again from there."),
        StatusCode::SERVICE_UNAVAILABLE => ("This took too long", "The server is busy. Try again in a moment."),
        _ if status.is_client_error() => {
            ("This request cannot be read", "Go back to the page and try again from there.")
        }
        _ => (Code::Internal.title(), "The log of the server has the reason under the request id below."),
    };
    Shown { status, title: title.to_owned(), detail: detail.to_owned(), errors: Vec::new() }
}

/// An address nobody knows.
pub(crate) async fn lost(state: &ServerState, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let request_id = parts.extensions.get::<RequestId>().map(|RequestId(id)| id.clone());
    let shown = page(state, &parts.headers, request_id, plain(StatusCode::NOT_FOUND)).await;
    headers::with(state, shown)
}

/// Ends a request that takes too long.
pub(super) async fn in_time(limit: Duration, request: Request, next: Next) -> Response {
    // A package from afar, and a change that is planned for a whole fleet before it is recorded.
    let path = request.uri().path();
    let slow = request.method() == Method::POST && (path.starts_with("/catalog") || path.starts_with("/deploy/"));
    let limit = if slow { limit.max(SLOW_TIMEOUT) } else { limit };
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// A handler that panicked: a bug, logged, and a proper page.
pub(super) fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!(panic = text, "a page panicked");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

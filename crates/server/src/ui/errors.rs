//! Error pages: what was attempted, why it failed, what to do next, and the request ID.

mod place;

use super::markup::Markup;
use super::session::{cookie, cookie_name};
use super::visit::Shell;
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
use place::Place;
use std::any::Any;
use std::time::Duration;

/// Adding an application waits for a registry or a slow network.
const SLOW_TIMEOUT: Duration = Duration::from_secs(110);

/// A problem as it is shown.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) status: StatusCode,
    pub(super) title: String,
    pub(super) detail: String,
    pub(super) errors: Vec<FieldProblem>,
    /// For `data-reason`: the code of the problem in the API where there is one.
    pub(super) code: &'static str,
}

/// An error returned by a handler; [`finish`] renders it as a page.
#[derive(Debug)]
pub(super) struct UiError(pub(super) Shown);

impl IntoResponse for UiError {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// For a signed-in operator, with navigation.
#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    shell: Shell,
    shown: Shown,
    request_id: Option<String>,
    /// What happened to the requested object.
    became: Option<Markup>,
    /// Links to continue with, and their labels.
    links: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "error_bare.html")]
struct BarePage {
    shown: Shown,
    request_id: Option<String>,
    assets: &'static str,
}

/// The failed request.
struct Attempt {
    headers: HeaderMap,
    request_id: Option<String>,
    place: Place,
}

impl Attempt {
    fn of(request: &Request) -> Self {
        Self {
            headers: request.headers().clone(),
            request_id: request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone()),
            place: Place::read(request.method(), request.uri().path()),
        }
    }
}

/// Renders every error response as a page.
pub(super) async fn finish(State(state): State<ServerState>, request: Request, next: Next) -> Response {
    let (attempt, asset) = (Attempt::of(&request), request.uri().path().starts_with("/assets/"));
    let response = next.run(request).await;
    let status = response.status();
    let wrong = status.is_client_error() || status.is_server_error();
    let has_page =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/"));
    let known = response.extensions().get::<Shown>().cloned();
    if !wrong || asset || (has_page && known.is_none()) {
        return response;
    }
    page(&state, attempt, known.unwrap_or_else(|| plain(status))).await
}

async fn page(state: &ServerState, attempt: Attempt, mut shown: Shown) -> Response {
    let status = shown.status;
    // Details are parts of a sentence wherever else they are shown.
    if !shown.detail.ends_with(['.', '!', '?']) {
        shown.detail.push('.');
    }
    let visitor = match cookie(&attempt.headers, cookie_name(state)) {
        Some(secret) => sessions::visitor(state, secret, None).await.ok().flatten(),
        None => None,
    };
    let shell = match visitor {
        Some(visitor) => Shell::of(state, &visitor.caller.name, attempt.place.section, &shown.title).await.ok(),
        None => None,
    };
    let Attempt { headers, request_id, place } = attempt;
    let rendered = match shell {
        Some(shell) => {
            let became = if status == StatusCode::NOT_FOUND { place.became(state, &shell).await } else { None };
            let links = place.links(status, previous_page(&headers));
            visit::render(status, &ErrorPage { shell, shown, request_id, became, links })
        }
        None => visit::render(status, &BarePage { shown, request_id, assets: assets::base() }),
    };
    rendered.unwrap_or_else(|UiError(shown)| (shown.status, shown.detail).into_response())
}

/// The previous page, if it is on this server.
fn previous_page(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::REFERER)?.to_str().ok()?;
    let url = url::Url::parse(text).ok()?;
    Some(url[url::Position::BeforePath..].to_owned())
}

fn plain(status: StatusCode) -> Shown {
    let (code, title, detail) = match status {
        StatusCode::NOT_FOUND => {
            (Code::NotFound, "Page not found", "Check the address. The page may have been removed.")
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            (Code::MethodNotAllowed, "Not available", "Go back to the page and try again from there.")
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            (Code::Unavailable, "Request timed out", "The server is busy. Try again in a moment.")
        }
        _ if status.is_client_error() => {
            (Code::Malformed, "Invalid request", "Go back to the page and try again from there.")
        }
        _ => (Code::Internal, Code::Internal.title(), "See the server log for the request ID below."),
    };
    Shown { status, title: title.to_owned(), detail: detail.to_owned(), errors: Vec::new(), code: code.as_str() }
}

/// The page for an unknown address.
pub(crate) async fn lost(state: &ServerState, request: Request) -> Response {
    let shown = page(state, Attempt::of(&request), plain(StatusCode::NOT_FOUND)).await;
    headers::with(state, shown)
}

/// Aborts a request that takes too long.
pub(super) async fn in_time(limit: Duration, request: Request, next: Next) -> Response {
    // Importing a package from a registry, and planning a rollout for a whole fleet, take longer.
    let path = request.uri().path();
    let slow = request.method() == Method::POST && (path.starts_with("/catalog") || path.starts_with("/deploy/"));
    let limit = if slow { limit.max(SLOW_TIMEOUT) } else { limit };
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Logs a panic in a handler and returns an error page.
pub(super) fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!(panic = text, "a page panicked");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

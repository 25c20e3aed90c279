//! The one place that maps errors to responses: RFC 9457 on every path, without details of internal failures.

use crate::app::error::{AppError, Code};
use crate::telemetry::RequestId;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use margo::problem::PROBLEM_MEDIA_TYPE;
use margrave_api::problem::ApiProblem;
use std::any::Any;
use std::time::Duration;

/// Long enough for an import from a slow registry or an upload over a slow link.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(110);

/// An error returned by a handler.
#[derive(Debug)]
pub(super) struct ApiError(pub(super) AppError);

pub(super) type Answer<T> = Result<T, ApiError>;

impl<E: Into<AppError>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = match self.0 {
            AppError::Refused { code, detail, errors } => ApiProblem { detail, errors, ..blank(code) },
            // Logged once, here, inside the request span; the caller gets the id to quote.
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "operator request failed");
                blank(Code::Internal)
            }
        };
        let mut response = render(&problem);
        response.extensions_mut().insert(problem);
        response
    }
}

fn blank(code: Code) -> ApiProblem {
    let detail = match code {
        Code::Internal => "the server failed; see its log for this request id",
        Code::Unavailable => "the request timed out; try again in a moment",
        Code::NotFound => "nothing exists at this address; `/api/openapi.json` lists all addresses",
        Code::MethodNotAllowed => {
            "this address does not support this method; `/api/openapi.json` lists those it supports"
        }
        _ => code.title(),
    };
    ApiProblem {
        problem_type: "about:blank".to_owned(),
        title: code.title().to_owned(),
        status: code.status(),
        code: code.as_str().to_owned(),
        detail: detail.to_owned(),
        errors: Vec::new(),
        request_id: None,
    }
}

fn render(problem: &ApiProblem) -> Response {
    let body = serde_json::to_vec(problem).expect("a problem is plain data");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
    if problem.status == 401 {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if matches!(problem.status, 429 | 503) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

/// Adds the request id to every problem, and converts rejections by the framework into problems.
pub(super) async fn finish(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    let api = request.uri().path().starts_with("/api");
    let mut response = next.run(request).await;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        let known = response.extensions_mut().remove::<ApiProblem>();
        let problem = known.unwrap_or_else(|| ApiProblem { status: status.as_u16(), ..blank(code_of(status)) });
        let allow = response.headers_mut().remove(header::ALLOW);
        response = render(&ApiProblem { request_id: id, ..problem });
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if api {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn code_of(status: StatusCode) -> Code {
    Code::ALL.into_iter().find(|code| code.status() == status.as_u16()).unwrap_or(if status.is_client_error() {
        Code::Malformed
    } else {
        Code::Internal
    })
}

pub(super) async fn no_such_address() -> ApiError {
    simple(Code::NotFound)
}

pub(super) async fn no_such_method() -> ApiError {
    simple(Code::MethodNotAllowed)
}

fn simple(code: Code) -> ApiError {
    ApiError(AppError::refused(code, blank(code).detail))
}

/// Ends a request that exceeds its time limit.
pub(super) async fn in_time(limit: Duration, request: Request, next: Next) -> Response {
    let import = request.method() == Method::POST && request.uri().path().starts_with("/api/applications");
    let limit = if import { limit.max(IMPORT_TIMEOUT) } else { limit };
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => simple(Code::Unavailable).into_response(),
    }
}

/// Logs a panic in a handler and returns a proper problem document.
pub(super) fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!(panic = text, "handler of the operator API panicked");
    simple(Code::Internal).into_response()
}

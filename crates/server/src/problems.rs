//! Errors on the Margo side of the server: RFC 9457 with Margo's registry, for every path out (PRB-01 to PRB-03).

use crate::body::BodyError;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use margo::finding::{Findings, Severity};
use margo::problem::{FieldError, PROBLEM_MEDIA_TYPE, Problem, ProblemType};
use margrave_store::StoreError;
use std::any::Any;
use std::time::Duration;

/// A problem document to send. Boxed, because it is the error type of every handler.
#[derive(Debug)]
pub struct Refusal(Box<Problem>);

pub type Answer = Result<Response, Refusal>;

impl Refusal {
    pub fn new(problem_type: ProblemType, status: StatusCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(problem_type, status.as_u16(), detail)))
    }
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::InvalidRequest, StatusCode::BAD_REQUEST, detail)
    }
    pub fn semantic(detail: impl Into<String>, errors: Vec<FieldError>) -> Self {
        let problem = Problem::new(ProblemType::SemanticError, StatusCode::UNPROCESSABLE_ENTITY.as_u16(), detail);
        Self(Box::new(problem.with_errors(errors)))
    }
    pub fn one_field(field: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::semantic(message.clone(), vec![FieldError { field: field.to_owned(), message }])
    }
    pub fn not_authorized(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::NotAuthorized, StatusCode::FORBIDDEN, detail)
    }
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::Blank, StatusCode::SERVICE_UNAVAILABLE, detail)
    }
    /// The details are in the log, not in the response.
    pub fn internal() -> Self {
        Self::new(
            ProblemType::Blank,
            StatusCode::INTERNAL_SERVER_ERROR,
            "The server failed; see its log for this request id.",
        )
    }

    /// Logs the error once and hides its text from the caller.
    pub fn store(error: &StoreError) -> Self {
        if let StoreError::Full(_) = error {
            tracing::error!(error = error as &dyn std::error::Error, "no disk space left to write: free some");
            return Self::busy("The server is out of disk space; nothing was changed.");
        }
        tracing::error!(error = error as &dyn std::error::Error, "store error");
        Self::internal()
    }

    /// A document that is not JSON is malformed; one that breaks a rule is a semantic error that names every field.
    pub fn document(what: &str, body: &[u8], findings: &Findings) -> Self {
        if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() {
            return Self::invalid(format!("The body is not JSON: {findings}"));
        }
        let errors = findings
            .0
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .map(|finding| FieldError { field: finding.path.clone(), message: finding.message.clone() })
            .collect();
        Self::semantic(format!("The {what} does not match its schema."), errors)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.0.status.and_then(|status| StatusCode::from_u16(status).ok());
        let mut response = Response::new(Body::from(self.0.to_json()));
        *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        // Exactly this text: some clients compare it as a string (W-30).
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.0.retry_after_seconds {
            // RTY-01
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The whole body, or 413 when it exceeds the limit of the route.
pub async fn body(request: Request, bytes_max: usize) -> Result<Bytes, Refusal> {
    crate::body::read(request, bytes_max).await.map_err(|error| match error {
        BodyError::TooLong => Refusal::new(
            ProblemType::Blank,
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body is longer than {bytes_max} bytes."),
        ),
        BodyError::BrokenOff => Refusal::invalid("The body is incomplete."),
    })
}

pub async fn no_such_address() -> Refusal {
    Refusal::new(ProblemType::Blank, StatusCode::NOT_FOUND, "Nothing exists at this address.")
}

pub async fn no_such_method() -> Refusal {
    Refusal::new(ProblemType::Blank, StatusCode::METHOD_NOT_ALLOWED, "This address does not support this method.")
}

/// Logs a panic in a handler and returns a proper problem document.
pub fn panicked(_panic: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("handler panicked");
    Refusal::internal().into_response()
}

/// Middleware: limits the duration of a request.
pub async fn in_time(limit: Duration, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            tracing::warn!(limit_ms = limit.as_millis() as u64, "request timed out");
            Refusal::busy("The request timed out.").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;
    use axum::response::IntoResponse as _;
    use margrave_store::StoreError;

    #[test]
    fn a_full_disk_asks_to_retry_and_a_store_error_reveals_nothing() {
        // RTY-01, PRB-01
        let full = Refusal::store(&StoreError::Full(sqlx::Error::PoolClosed)).into_response();
        assert_eq!(full.status(), 503);
        assert!(full.headers().contains_key("retry-after"));
        let secret = "the password is swordfish".to_owned();
        let broken = Refusal::store(&StoreError::Inconsistent { table: "clients", problem: secret });
        assert!(!format!("{broken:?}").contains("swordfish"));
        let broken = broken.into_response();
        assert_eq!(broken.status(), 500);
        assert!(broken.headers().contains_key("retry-after"));
        assert_eq!(broken.headers()["content-type"], "application/problem+json");
    }

    #[tokio::test]
    async fn returns_a_problem_for_panics_and_timeouts() {
        use axum::Router;
        use axum::middleware::{Next, from_fn};
        use axum::routing::get;
        use std::time::Duration;
        use tower::ServiceExt as _;
        use tower_http::catch_panic::CatchPanicLayer;
        let limit = Duration::from_millis(20);
        let router: Router = Router::new()
            .route("/panic", get(async || -> &'static str { panic!("a bug") }))
            .route("/slow", get(async || std::future::pending::<&'static str>().await))
            .layer(from_fn(move |request: super::Request, next: Next| super::in_time(limit, request, next)))
            .layer(CatchPanicLayer::custom(super::panicked));
        for (path, status) in [("/panic", 500), ("/slow", 503)] {
            let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()["content-type"], "application/problem+json");
            assert!(response.headers().contains_key("retry-after"));
        }
    }
}

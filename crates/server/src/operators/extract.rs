//! Extractors of handlers; every rejection is a problem document.

use super::problems::ApiError;
use crate::app::access::Caller;
use crate::app::error::{AppError, Code};
use crate::body::BodyError;
use crate::catalog::{self, UPLOAD_BYTES_MAX};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;

/// The largest JSON body: ten thousand devices named one by one fit easily.
const JSON_BYTES_MAX: usize = 4 << 20;

/// A JSON body.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if !is_json(&request) {
            let detail = "send the body as `Content-Type: application/json`";
            return Err(ApiError(AppError::refused(Code::UnsupportedMediaType, detail)));
        }
        let bytes = read_body(request, JSON_BYTES_MAX).await?;
        read_json(&bytes).map(Self)
    }
}

fn is_json(request: &Request) -> bool {
    let media_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match inner.classify() {
            serde_json::error::Category::Data => {
                let field = if path == "." { String::new() } else { path };
                AppError::invalid(&field, inner.to_string())
            }
            _ => AppError::refused(Code::Malformed, format!("the body is not JSON: {inner}")),
        }
    })?;
    deserializer.end().map_err(|error| {
        AppError::refused(Code::Malformed, format!("the body has content after the JSON document: {error}"))
    })?;
    Ok(read)
}

/// The whole body, or 413.
pub(super) async fn read_body(request: Request, bytes_max: usize) -> Result<Bytes, ApiError> {
    crate::body::read(request, bytes_max).await.map_err(|error| {
        ApiError(match error {
            // Only a package may be larger.
            BodyError::TooLong if bytes_max == UPLOAD_BYTES_MAX => catalog::too_large(),
            BodyError::TooLong => {
                AppError::refused(Code::TooLarge, format!("the body is larger than the {bytes_max} bytes allowed here"))
            }
            BodyError::BrokenOff => AppError::refused(Code::Malformed, "the body is incomplete"),
        })
    })
}

/// Query parameters.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                let detail = format!("the query cannot be read: {}", deepest(&rejection));
                Err(ApiError(AppError::refused(Code::Malformed, detail)))
            }
        }
    }
}

/// Parts of the path.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Self(path)),
            Err(rejection) => {
                let detail = format!("the address cannot be read: {}", deepest(&rejection));
                Err(ApiError(AppError::refused(Code::Malformed, detail)))
            }
        }
    }
}

/// The cause at the end of a chain names the parameter; the errors before it are generic.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The caller, from [`super::auth::require`].
#[derive(Debug)]
pub(super) struct AuthenticatedCaller(pub(super) Caller);

impl<S: Send + Sync> FromRequestParts<S> for AuthenticatedCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.map(Self).ok_or_else(|| ApiError(AppError::refused(Code::Unauthenticated, "send an API token")))
    }
}

/// The revision that the caller saw, from `If-Match`; none (or `*`) means any.
#[derive(Debug, Clone, Copy)]
pub(super) struct IfMatch(pub(super) Option<i64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else { return Ok(Self(None)) };
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Self(None));
        }
        let revision =
            text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).and_then(|text| text.parse().ok());
        revision.map(|revision| Self(Some(revision))).ok_or_else(|| {
            let detail = "`If-Match` must be the quoted revision from `ETag`, such as `\"3\"`";
            ApiError(AppError::refused(Code::Malformed, detail))
        })
    }
}

/// `If-Match: *`: any revision, as long as it exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct IfPresent(pub(super) bool);

impl<S: Send + Sync> FromRequestParts<S> for IfPresent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.headers.get(header::IF_MATCH).is_some_and(|value| value.as_bytes().trim_ascii() == b"*")))
    }
}

/// `?dryRun=true`: show the result and change nothing.
#[derive(Debug, Clone, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct DryRun {
    /// Show the result and change nothing.
    #[serde(default)]
    #[param(required = false)]
    pub(super) dry_run: bool,
}

/// `?comment=...` for requests without a body.
#[derive(Debug, Clone, Default, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CommentQuery {
    /// Comment, recorded in the audit log.
    pub(super) comment: Option<String>,
}

/// JSON with the revision as `ETag`.
pub(super) struct Tagged<T> {
    pub(super) status: StatusCode,
    pub(super) revision: i64,
    pub(super) body: T,
}

impl<T> Tagged<T> {
    pub(super) fn ok(revision: i64, body: T) -> Self {
        Self { status: StatusCode::OK, revision, body }
    }
}

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let tag = HeaderValue::from_str(&format!("\"{}\"", self.revision)).expect("a quoted number is a header value");
        (self.status, [(header::ETAG, tag)], axum::Json(self.body)).into_response()
    }
}

#[cfg(test)]
mod tests;

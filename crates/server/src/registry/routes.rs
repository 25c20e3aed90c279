//! The HTTP side: `/v2` of the distribution specification.
//!
//! A repository name may contain slashes, so paths are parsed here, from their end.

mod blobs;
mod lists;
mod manifests;
mod mirrors;
mod path;
mod uploads;

use super::auth::{self, Access, Action, Credentials, RegistryAuth};
use super::error::{Attempt as _, RegistryError, Result};
use super::names::RepositoryName;
use super::{Digest, Registry};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LINK};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use path::Route;
use std::io;
use std::sync::Arc;

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const API_VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");

/// Serves a registry under `/v2`. Transfers can take long: do not wrap it in a request timeout.
pub fn router(registry: Registry, auth: Arc<dyn RegistryAuth>) -> Router {
    let shared = Shared { registry, auth };
    Router::new().route("/v2", any(serve)).route("/v2/", any(serve)).route("/v2/{*rest}", any(serve)).with_state(shared)
}

#[derive(Clone)]
struct Shared {
    registry: Registry,
    auth: Arc<dyn RegistryAuth>,
}

/// One request: the caller and the operation.
struct Call {
    registry: Registry,
    auth: Arc<dyn RegistryAuth>,
    credentials: Option<Credentials>,
    parts: Parts,
}

async fn serve(State(shared): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let credentials = auth::credentials(&parts.headers);
    let call = Call { registry: shared.registry, auth: shared.auth, credentials, parts };
    let mut response = answer(call, body).await.unwrap_or_else(axum::response::IntoResponse::into_response);
    // Clients recognize a registry by it.
    response.headers_mut().insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
    response
}

async fn answer(call: Call, body: Body) -> Result<Response> {
    let method = call.parts.method.clone();
    let read = method == Method::GET || method == Method::HEAD;
    let route = path::parse(call.parts.uri.path())?;
    let route = if read { mirrors::resolve(&call, route)? } else { route };
    match route {
        Route::Base if read => {
            call.allow(Action::Pull, None).await?;
            Ok(axum::Json(serde_json::json!({})).into_response())
        }
        Route::Catalog if method == Method::GET => lists::catalog(&call).await,
        Route::Tags(name) if method == Method::GET => lists::tags(&call, &name).await,
        Route::Referrers(name, subject) if method == Method::GET => lists::referrers(&call, &name, &subject).await,
        Route::Blob(name, digest) => match method {
            Method::GET | Method::HEAD => blobs::get(&call, &name, &digest).await,
            Method::DELETE => blobs::delete(&call, &name, &digest).await,
            _ => unsupported("GET, HEAD, DELETE"),
        },
        Route::Uploads(name) => match method {
            Method::POST => uploads::begin(&call, &name, body).await,
            _ => unsupported("POST"),
        },
        Route::Upload(name, id) => match method {
            Method::GET | Method::HEAD => uploads::status(&call, &name, &id).await,
            Method::PATCH => uploads::append(&call, &name, &id, body).await,
            Method::PUT => uploads::finish(&call, &name, &id, body).await,
            Method::DELETE => uploads::cancel(&call, &name, &id).await,
            _ => unsupported("GET, HEAD, PATCH, PUT, DELETE"),
        },
        Route::Manifest(name, reference) => match method {
            Method::GET | Method::HEAD => manifests::get(&call, &name, &reference).await,
            Method::PUT => manifests::put(&call, &name, &reference, body).await,
            Method::DELETE => manifests::delete(&call, &name, &reference).await,
            _ => unsupported("GET, HEAD, PUT, DELETE"),
        },
        Route::Base => unsupported("GET, HEAD"),
        Route::Catalog | Route::Tags(_) | Route::Referrers(..) => unsupported("GET"),
    }
}

/// Runs in its own task: a disconnecting client must not separate a change from its record.
async fn run_to_completion<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(io::Error::other(error)).attempt("finish a change"))
}

fn unsupported<T>(allow: &'static str) -> Result<T> {
    Err(RegistryError::Unsupported { allow: Some(allow) })
}

impl Call {
    /// Authorizes the request, or fails.
    async fn allow(&self, action: Action, repository: Option<&RepositoryName>) -> Result<String> {
        match self.auth.authorize(self.credentials.as_ref(), action, repository).await {
            Access::Granted(who) => Ok(who),
            Access::Unknown => Err(RegistryError::Unauthenticated),
            Access::Denied(message) => Err(RegistryError::Denied(message)),
            Access::Unavailable => Err(RegistryError::AuthUnavailable),
        }
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// The first value of a query parameter.
    fn query(&self, name: &str) -> Option<String> {
        let query = self.parts.uri.query()?;
        url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    fn is_head(&self) -> bool {
        self.parts.method == Method::HEAD
    }

    /// Whether the client already has this content.
    fn has(&self, digest: &Digest) -> bool {
        let tags = self.header(&IF_NONE_MATCH).into_iter().flat_map(|header| header.split(','));
        let known = format!("\"{digest}\"");
        tags.map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == known)
    }
}

/// A response for content with a digest.
fn content(status: StatusCode, digest: &Digest, media_type: &str, length: u64, body: Body) -> Result<Response> {
    let built = Response::builder()
        .status(status)
        .header(CONTENT_DIGEST, digest.to_string())
        .header(ETAG, format!("\"{digest}\""))
        .header(CONTENT_TYPE, media_type)
        .header(CONTENT_LENGTH, length)
        .body(body);
    built.map_err(|_| RegistryError::ManifestInvalid("its media type cannot be sent".to_owned()))
}

fn not_modified(digest: &Digest) -> Response {
    let headers = [(CONTENT_DIGEST, digest.to_string()), (ETAG, format!("\"{digest}\""))];
    (StatusCode::NOT_MODIFIED, headers).into_response()
}

/// The page after this one.
fn link(path: &str, parameters: &[(&str, &str)]) -> (HeaderName, String) {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    (LINK, format!("<{path}?{query}>; rel=\"next\""))
}

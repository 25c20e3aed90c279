//! Errors, and the one place that maps them to the form of the distribution specification.

use super::names::{Digest, NameError};
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, LOCATION, RANGE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use std::io;

/// `Retry-After` in seconds for clients that were rejected for lack of capacity.
const RETRY_SECONDS: &str = "2";
const CHALLENGE: &str = "Basic realm=\"margrave\"";

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("unknown repository `{0}`")]
    RepositoryUnknown(String),
    #[error("unknown manifest `{0}`")]
    ManifestUnknown(String),
    #[error("invalid manifest: {0}")]
    ManifestInvalid(String),
    #[error("the manifest refers to {} that is not in this repository; push it first", list(.0))]
    ManifestBlobUnknown(Vec<Digest>),
    #[error("the manifest is larger than {limit} bytes")]
    ManifestTooLarge { limit: usize },
    #[error("unknown blob `{0}`")]
    BlobUnknown(Digest),
    #[error("blob `{blob}` is still used by manifest `{manifest}`; delete that manifest first")]
    BlobInUse { blob: Digest, manifest: Digest },
    #[error("a blob may have at most {limit} bytes")]
    BlobTooLarge { limit: u64 },
    #[error("unknown upload `{0}`: it ended, expired, or was never started")]
    UploadUnknown(String),
    #[error("invalid upload: {0}")]
    UploadInvalid(String),
    #[error("another request is writing to this upload")]
    UploadBusy,
    /// The chunk does not start at the current end of the upload.
    #[error("the upload is at byte {offset}; the next chunk must start there")]
    ChunkOutOfOrder { offset: u64, location: String },
    #[error("the content has digest `{actual}`, not `{expected}`")]
    DigestMismatch { expected: Digest, actual: Digest },
    #[error("a digest is required: add `?digest=<algorithm>:<hex>`")]
    DigestMissing,
    #[error("{0}")]
    SizeInvalid(String),
    #[error("{0}")]
    QueryInvalid(String),
    #[error("log in first: operators with an API token as the password, devices with their pull credentials")]
    Unauthenticated,
    #[error("{0}")]
    Denied(String),
    #[error("{scope} has a quota of {limit} bytes and this needs {needed}; delete content or raise the quota")]
    Quota { scope: String, limit: u64, needed: u64 },
    #[error("{0}; try again in a moment")]
    TooMany(&'static str),
    #[error("no data received for {0} s")]
    Stalled(u64),
    #[error("not supported by this registry")]
    Unsupported { allow: Option<&'static str> },
    #[error("nothing exists at this path")]
    NoSuchPath,
    #[error("access cannot be checked now; try again")]
    AuthUnavailable,
    #[error("the change cannot be recorded in the audit log now; try again")]
    Unrecorded,
    #[error("{attempt}")]
    Storage {
        attempt: &'static str,
        #[source]
        source: io::Error,
    },
}

pub(super) type Result<T> = std::result::Result<T, RegistryError>;

fn list(digests: &[Digest]) -> String {
    let shown: Vec<String> = digests.iter().take(5).map(|digest| format!("`{digest}`")).collect();
    let more = digests.len().saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// Adds what was attempted when a file operation fails.
pub(super) trait Attempt<T> {
    fn attempt(self, what: &'static str) -> Result<T>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, attempt: &'static str) -> Result<T> {
        self.map_err(|source| RegistryError::Storage { attempt, source })
    }
}

impl RegistryError {
    /// Status and code of the specification; other codes are those that clients know from Docker.
    fn classify(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Name(NameError::Repository(_)) => (StatusCode::BAD_REQUEST, "NAME_INVALID"),
            Self::Name(NameError::Tag(_)) => (StatusCode::BAD_REQUEST, "TAG_INVALID"),
            Self::Name(NameError::Digest(_)) | Self::DigestMismatch { .. } | Self::DigestMissing => {
                (StatusCode::BAD_REQUEST, "DIGEST_INVALID")
            }
            Self::NoSuchPath | Self::RepositoryUnknown(_) => (StatusCode::NOT_FOUND, "NAME_UNKNOWN"),
            Self::ManifestUnknown(_) => (StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN"),
            Self::ManifestInvalid(_) => (StatusCode::BAD_REQUEST, "MANIFEST_INVALID"),
            Self::ManifestBlobUnknown(_) => (StatusCode::BAD_REQUEST, "MANIFEST_BLOB_UNKNOWN"),
            Self::ManifestTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID"),
            Self::BlobUnknown(_) => (StatusCode::NOT_FOUND, "BLOB_UNKNOWN"),
            Self::BlobInUse { .. } | Self::Denied(_) | Self::Quota { .. } => (StatusCode::FORBIDDEN, "DENIED"),
            Self::BlobTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "DENIED"),
            Self::UploadUnknown(_) => (StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN"),
            Self::UploadInvalid(_) => (StatusCode::BAD_REQUEST, "BLOB_UPLOAD_INVALID"),
            Self::UploadBusy => (StatusCode::CONFLICT, "BLOB_UPLOAD_INVALID"),
            Self::ChunkOutOfOrder { .. } => (StatusCode::RANGE_NOT_SATISFIABLE, "BLOB_UPLOAD_INVALID"),
            Self::SizeInvalid(_) => (StatusCode::BAD_REQUEST, "SIZE_INVALID"),
            Self::QueryInvalid(_) => (StatusCode::BAD_REQUEST, "PAGINATION_NUMBER_INVALID"),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED"),
            Self::TooMany(_) => (StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS"),
            Self::Stalled(_) => (StatusCode::REQUEST_TIMEOUT, "BLOB_UPLOAD_INVALID"),
            Self::Unsupported { .. } => (StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED"),
            Self::AuthUnavailable | Self::Unrecorded => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
            Self::Storage { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                (StatusCode::INSUFFICIENT_STORAGE, "DENIED")
            }
            Self::Storage { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN"),
        }
    }

    fn detail(&self) -> Value {
        match self {
            Self::ManifestBlobUnknown(digests) => {
                json!(digests.iter().map(|digest| json!({ "digest": digest.to_string() })).collect::<Vec<_>>())
            }
            Self::BlobUnknown(digest) => json!({ "digest": digest.to_string() }),
            Self::BlobInUse { blob, manifest } => {
                json!({ "digest": blob.to_string(), "manifest": manifest.to_string() })
            }
            Self::DigestMismatch { expected, actual } => {
                json!({ "expected": expected.to_string(), "actual": actual.to_string() })
            }
            Self::RepositoryUnknown(name) => json!({ "name": name }),
            Self::ManifestUnknown(reference) => json!({ "reference": reference }),
            Self::Quota { scope, limit, needed } => json!({ "scope": scope, "limit": limit, "needed": needed }),
            _ => json!({}),
        }
    }

    /// The message for the caller; without details of the disk.
    fn message(&self) -> String {
        match self {
            Self::Storage { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "the registry's disk is full; delete content or add disk space".to_owned()
            }
            Self::Storage { .. } => "the registry failed; see its log".to_owned(),
            other => other.to_string(),
        }
    }
}

impl IntoResponse for RegistryError {
    fn into_response(self) -> Response {
        let (status, code) = self.classify();
        if let Self::Storage { attempt, source } = &self {
            tracing::error!(error = %source, attempt, "registry folder error");
        }
        let body = json!({ "errors": [{ "code": code, "message": self.message(), "detail": self.detail() }] });
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        match &self {
            Self::Unauthenticated => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
            }
            Self::TooMany(_) | Self::AuthUnavailable | Self::Unrecorded => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
            }
            Self::Unsupported { allow: Some(allow) } => {
                headers.insert(ALLOW, HeaderValue::from_static(allow));
            }
            Self::ChunkOutOfOrder { offset, location } => {
                // Says where to continue.
                headers.insert(RANGE, super::range::received(*offset));
                if let Ok(location) = HeaderValue::try_from(location) {
                    headers.insert(LOCATION, location);
                }
            }
            _ => {}
        }
        response
    }
}

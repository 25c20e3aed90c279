//! RFC 9457 problem documents with Margo's registry (requirements §11).

use crate::node::Limits;
use crate::tree::{Members, Tree};
use crate::{ReadResult, reader};

mod read;

pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";
/// The retry interval for a client if the server knows nothing better (RTY-01).
pub const RETRY_AFTER_SECONDS_DEFAULT: u64 = 30;
const BASE: &str = "https://docs.margo.org/specification/problem-types";

/// A registered problem type, or `about:blank` (PRB-01, PRB-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemType {
    InvalidRequest,
    SemanticError,
    NotAuthorized,
    GatewayNotFound,
    DeviceNotFound,
    InvalidBundle,
    DeploymentNotFound,
    ServerCannotGenerateResponse,
    Blank,
}

impl ProblemType {
    pub const REGISTERED: [Self; 8] = [
        Self::InvalidRequest,
        Self::SemanticError,
        Self::NotAuthorized,
        Self::GatewayNotFound,
        Self::DeviceNotFound,
        Self::InvalidBundle,
        Self::DeploymentNotFound,
        Self::ServerCannotGenerateResponse,
    ];

    pub fn fragment(self) -> Option<&'static str> {
        Some(match self {
            Self::InvalidRequest => "invalid-request",
            Self::SemanticError => "semantic-error",
            Self::NotAuthorized => "not-authorized",
            Self::GatewayNotFound => "gateway-not-found",
            Self::DeviceNotFound => "device-not-found",
            Self::InvalidBundle => "invalid-bundle",
            Self::DeploymentNotFound => "deployment-not-found",
            Self::ServerCannotGenerateResponse => "server-cannot-generate-response",
            Self::Blank => return None,
        })
    }

    /// A title for people; `about:blank` uses the HTTP phrase of its status instead (PRB-01).
    pub fn title(self) -> Option<&'static str> {
        Some(match self {
            Self::InvalidRequest => "Invalid request",
            Self::SemanticError => "Semantic error",
            Self::NotAuthorized => "Not authorized",
            Self::GatewayNotFound => "Gateway not found",
            Self::DeviceNotFound => "Device not found",
            Self::InvalidBundle => "Invalid bundle",
            Self::DeploymentNotFound => "Deployment not found",
            Self::ServerCannotGenerateResponse => "Server cannot generate response",
            Self::Blank => return None,
        })
    }

    pub fn uri(self) -> String {
        self.fragment().map_or_else(|| "about:blank".to_owned(), |fragment| format!("{BASE}#{fragment}"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackoffStrategy {
    None,
    Fixed,
    Exponential,
}

impl BackoffStrategy {
    pub const ALL: [Self; 3] = [Self::None, Self::Fixed, Self::Exponential];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fixed => "fixed",
            Self::Exponential => "exponential",
        }
    }
}

/// The reason phrase of RFC 9110 for the codes this protocol knows.
fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Content",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        507 => "Insufficient Storage",
        _ => "Error",
    }
}

/// One invalid field of a request.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

/// A problem document. Always written with type, title and status; none is required when read (§18 no. 5).
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub problem_type: String,
    pub title: String,
    pub status: Option<u16>,
    pub detail: Option<String>,
    pub instance: Option<String>,
    pub retryable: Option<bool>,
    pub retry_after_seconds: Option<u64>,
    pub backoff_strategy: Option<BackoffStrategy>,
    pub errors: Vec<FieldError>,
}

impl Problem {
    /// A problem of a registered type (or `about:blank`) with the retry members that RTY-01 defines for that status.
    pub fn new(problem_type: ProblemType, status: u16, detail: impl Into<String>) -> Self {
        let retryable = matches!(status, 429 | 500 | 503);
        let backoff = if retryable { BackoffStrategy::Exponential } else { BackoffStrategy::None };
        Self {
            problem_type: problem_type.uri(),
            title: problem_type.title().unwrap_or_else(|| phrase(status)).to_owned(),
            status: Some(status),
            detail: Some(detail.into()),
            instance: None,
            retryable: Some(retryable),
            retry_after_seconds: retryable.then_some(RETRY_AFTER_SECONDS_DEFAULT),
            backoff_strategy: Some(backoff),
            errors: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.errors = errors;
        self
    }

    pub fn read(json: &[u8]) -> ReadResult<Self> {
        reader::read_json(json, Limits::DOCUMENT, read::problem)
    }

    pub fn to_json(&self) -> Vec<u8> {
        let errors =
            self.errors.iter().map(|error| Members::new().with("field", &error.field).with("message", &error.message));
        Members::new()
            .with("type", &self.problem_type)
            .with("title", &self.title)
            .with_some("status", self.status.map(u64::from))
            .with_some("detail", self.detail.as_ref())
            .with_some("instance", self.instance.as_ref())
            .with_some("retryable", self.retryable)
            .with_some("retryAfterSeconds", self.retry_after_seconds)
            .with_some("backoffStrategy", self.backoff_strategy.map(BackoffStrategy::as_str))
            .with_some("errors", (!self.errors.is_empty()).then(|| Tree::list(errors)))
            .build()
            .to_json()
    }

    /// The registered type, if `type` names one; decided by the string alone (PRB-04).
    pub fn registered(&self) -> Option<ProblemType> {
        ProblemType::REGISTERED.into_iter().find(|known| known.uri() == self.problem_type)
    }
}

#[cfg(test)]
mod tests;

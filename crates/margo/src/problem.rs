//! RFC 9457 problem documents with Margo's registry (requirements §11).

use crate::ReadResult;

pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";
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

/// One field of a request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

/// A problem document. Always written with type, title and status; none is demanded when read (§18 no. 5).
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
    /// A problem of a registered type (or `about:blank`) with the retry members RTY-01 gives that status.
    pub fn new(problem_type: ProblemType, status: u16, detail: impl Into<String>) -> Self {
        let _ = (problem_type, status, detail.into());
        todo!()
    }

    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.errors = errors;
        self
    }

    pub fn read(json: &[u8]) -> ReadResult<Self> {
        let _ = json;
        todo!()
    }

    pub fn to_json(&self) -> Vec<u8> {
        todo!()
    }

    /// The registered type, if `type` names one; decided by the string alone (PRB-04).
    pub fn registered(&self) -> Option<ProblemType> {
        ProblemType::REGISTERED.into_iter().find(|known| known.uri() == self.problem_type)
    }
}

//! The error type of the operator side: a stable code, a message that says what to do next, and errors per field.

use crate::identity::IdentityError;
use margo::Findings;
use margo::parameters::ValueError;
use margrave_api::problem::FieldProblem;
use margrave_store::StoreError;

/// Stable codes for programs; `docs/api.md` lists them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    Malformed,
    Unauthenticated,
    NotFound,
    MethodNotAllowed,
    Exists,
    InUse,
    Unchanged,
    Done,
    Conflict,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    KeyReused,
    BrokenPackage,
    Unplaceable,
    Busy,
    Registry,
    Internal,
    Unavailable,
    Full,
}

impl Code {
    pub const ALL: [Self; 20] = [
        Self::Malformed,
        Self::Unauthenticated,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Exists,
        Self::InUse,
        Self::Unchanged,
        Self::Done,
        Self::Conflict,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Invalid,
        Self::KeyReused,
        Self::BrokenPackage,
        Self::Unplaceable,
        Self::Busy,
        Self::Registry,
        Self::Internal,
        Self::Unavailable,
        Self::Full,
    ];

    /// Code, HTTP status and title.
    const fn parts(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::Malformed => ("malformed", 400, "Malformed request"),
            Self::Unauthenticated => ("unauthenticated", 401, "Authentication required"),
            Self::NotFound => ("not-found", 404, "Not found"),
            Self::MethodNotAllowed => ("method-not-allowed", 405, "Method not allowed"),
            Self::Exists => ("exists", 409, "Already exists"),
            Self::InUse => ("in-use", 409, "Still in use"),
            Self::Unchanged => ("unchanged", 409, "Nothing would change"),
            Self::Done => ("done", 409, "Already done"),
            Self::Conflict => ("conflict", 412, "Modified in the meantime"),
            Self::TooLarge => ("too-large", 413, "The request is too large"),
            Self::UnsupportedMediaType => ("unsupported-media-type", 415, "Unsupported media type"),
            Self::Invalid => ("invalid", 422, "Invalid request"),
            Self::KeyReused => ("key-reused", 422, "Idempotency key reused for a different request"),
            Self::BrokenPackage => ("broken-package", 422, "Package validation failed"),
            Self::Unplaceable => ("unplaceable", 422, "No compatible device"),
            Self::Busy => ("busy", 429, "Too many requests"),
            Self::Registry => ("registry", 502, "Registry error"),
            Self::Internal => ("internal", 500, "The server failed"),
            Self::Unavailable => ("unavailable", 503, "Server unavailable"),
            Self::Full => ("full", 507, "Server out of disk space"),
        }
    }

    pub const fn as_str(self) -> &'static str {
        self.parts().0
    }
    pub const fn status(self) -> u16 {
        self.parts().1
    }
    pub const fn title(self) -> &'static str {
        self.parts().2
    }
}

/// What a program does about a conflict; pages word it differently.
pub const READ_AGAIN: &str = "read it again, then repeat the request";

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// For the caller: what is wrong and what to do next.
    #[error("{detail}")]
    Refused { code: Code, detail: String, errors: Vec<FieldProblem> },
    /// For the log: the caller only learns that the server failed.
    #[error("store error")]
    Store(#[source] StoreError),
    #[error("identity service error")]
    Identity(#[source] IdentityError),
    #[error("a server task ended without a result")]
    Task(#[source] tokio::task::JoinError),
}

pub type AppResult<T> = Result<T, AppError>;

impl AppError {
    pub fn refused(code: Code, detail: impl Into<String>) -> Self {
        Self::Refused { code, detail: detail.into(), errors: Vec::new() }
    }

    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::refused(Code::NotFound, format!("{what} does not exist"))
    }

    /// One field is wrong.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Refused {
            code: Code::Invalid,
            detail: format!("`{field}`: {message}"),
            errors: vec![FieldProblem::new(field, message)],
        }
    }

    /// Several fields are wrong; all are named.
    pub fn with_fields(code: Code, detail: impl Into<String>, errors: Vec<FieldProblem>) -> Self {
        Self::Refused { code, detail: detail.into(), errors }
    }

    /// A package that cannot be used, with every problem found in it.
    pub fn broken_package(findings: &Findings) -> Self {
        let errors: Vec<FieldProblem> = findings
            .0
            .iter()
            .filter(|finding| finding.severity == margo::Severity::Error)
            .map(|finding| {
                let message = finding
                    .line
                    .map_or_else(|| finding.message.clone(), |line| format!("line {line}: {}", finding.message));
                FieldProblem::new(finding.path.clone(), message)
            })
            .collect();
        let not_listed = findings.0.iter().filter(|finding| finding.is_closing()).count();
        let detail = match (errors.len() - not_listed, not_listed) {
            (1, 0) => "the package has a problem; fix it and import again".to_owned(),
            (count, 0) => format!("the package has {count} problems; fix them and import again"),
            (count, _) => format!("the package has more than {count} problems; fix them and import again"),
        };
        Self::Refused { code: Code::BrokenPackage, detail, errors }
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { .. } => Self::refused(Code::NotFound, error.to_string()),
            StoreError::Exists { .. } => Self::refused(Code::Exists, error.to_string()),
            StoreError::InUse { .. } => Self::refused(Code::InUse, error.to_string()),
            StoreError::Conflict { .. } => Self::refused(Code::Conflict, format!("{error}; {READ_AGAIN}")),
            // The slower of two equal concurrent calls; it gets the answer that the faster one stored.
            StoreError::Repeated => Self::refused(Code::Done, error.to_string()),
            StoreError::Full(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "no disk space left to write");
                Self::refused(
                    Code::Full,
                    "the server's disk is full, nothing was changed; free some space on it, then try again",
                )
            }
            other => Self::Store(other),
        }
    }
}

impl From<IdentityError> for AppError {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::BadRequest(problem) => Self::invalid("csr", problem),
            other => Self::Identity(other),
        }
    }
}

/// Errors of the protocol library as API errors.
pub fn field_problems(errors: Vec<ValueError>) -> Vec<FieldProblem> {
    let problem = |ValueError { field, message, pattern, .. }| FieldProblem { field, message, pattern };
    errors.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn documents_every_error_code_with_its_status() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
        let text = std::fs::read_to_string(path).unwrap();
        for code in Code::ALL {
            let row = format!("| `{}` | {} |", code.as_str(), code.status());
            assert!(text.contains(&row), "docs/api.md lacks the row {row}");
        }
        let rows = text.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 5).count();
        assert_eq!(rows, Code::ALL.len(), "docs/api.md lists codes that do not exist");
    }
}

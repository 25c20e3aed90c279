//! The one error of the operator side: a stable code, a sentence that says what to do next, errors per field.

use crate::identity::IdentityError;
use margo::Findings;
use margo::parameters::AnswerError;
use margrave_api::problem::FieldProblem;
use margrave_store::StoreError;

/// Stable words for programs; `docs/api.md` lists them all.
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

    /// Word, HTTP status and title.
    const fn parts(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::Malformed => ("malformed", 400, "The request cannot be read"),
            Self::Unauthenticated => ("unauthenticated", 401, "A valid token is needed"),
            Self::NotFound => ("not-found", 404, "There is no such thing"),
            Self::MethodNotAllowed => ("method-not-allowed", 405, "This cannot be done here"),
            Self::Exists => ("exists", 409, "It exists already"),
            Self::InUse => ("in-use", 409, "It is still used"),
            Self::Unchanged => ("unchanged", 409, "Nothing would change"),
            Self::Done => ("done", 409, "It was done already"),
            Self::Conflict => ("conflict", 412, "It has changed in the meantime"),
            Self::TooLarge => ("too-large", 413, "The request is too large"),
            Self::UnsupportedMediaType => ("unsupported-media-type", 415, "The body has an unsupported type"),
            Self::Invalid => ("invalid", 422, "The request makes no sense"),
            Self::KeyReused => ("key-reused", 422, "The idempotency key stands for another request"),
            Self::BrokenPackage => ("broken-package", 422, "The package is broken"),
            Self::Unplaceable => ("unplaceable", 422, "It cannot be placed"),
            Self::Busy => ("busy", 429, "Too many at once"),
            Self::Registry => ("registry", 502, "The registry did not give the package"),
            Self::Internal => ("internal", 500, "The server failed"),
            Self::Unavailable => ("unavailable", 503, "The server cannot answer now"),
            Self::Full => ("full", 507, "The server has no room left"),
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

/// What a program does about a conflict; pages say it in other words.
pub const READ_AGAIN: &str = "read it again, then repeat the change";

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// For the caller: what is wrong and what to do next.
    #[error("{detail}")]
    Refused { code: Code, detail: String, errors: Vec<FieldProblem> },
    /// For the log: the caller only learns that the server failed.
    #[error("the store failed")]
    Store(#[source] StoreError),
    #[error("the identity service failed")]
    Identity(#[source] IdentityError),
    #[error("a task of the server ended without an answer")]
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
            (1, 0) => "the package has a problem; correct it and import again".to_owned(),
            (count, 0) => format!("the package has {count} problems; correct them and import again"),
            (count, _) => format!("the package has more than {count} problems; correct them and import again"),
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
            // Of two equal calls at once the slower one; it is answered by what the faster one kept.
            StoreError::Repeated => Self::refused(Code::Done, error.to_string()),
            StoreError::Full(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "no room left to write");
                Self::refused(
                    Code::Full,
                    "the disk of the server is full, nothing was changed; make room on it, then try again",
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

/// Errors of the protocol library as errors of the API.
pub fn field_problems(errors: Vec<AnswerError>) -> Vec<FieldProblem> {
    let problem = |AnswerError { field, message, pattern, .. }| FieldProblem { field, message, pattern };
    errors.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn every_code_is_in_the_conventions_with_its_status() {
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

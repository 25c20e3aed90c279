//! Errors of the store.

use crate::open::FORMAT;
use crate::seal::SealError;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{what} does not exist")]
    NotFound { what: String },
    #[error("{what} already exists")]
    Exists { what: String },
    /// Optimistic concurrency: the caller's revision is not the current one.
    #[error("{what} has changed: it is at revision {current}, the request expects {expected}")]
    Conflict { what: String, expected: i64, current: i64 },
    #[error("{what} is still in use: {by}")]
    InUse { what: String, by: String },
    #[error("limit reached: at most {max} {what}")]
    TooMany { what: &'static str, max: usize },
    /// The idempotency key of the call was already used; nothing was written.
    #[error("a call with this idempotency key was already carried out")]
    Repeated,
    /// The disk or the database is full; nothing was written.
    #[error("no disk space left")]
    Full(#[source] sqlx::Error),
    /// The value stays where it is, and the operation that needs it fails.
    #[error("{what} cannot be opened")]
    Sealed {
        what: String,
        #[source]
        source: SealError,
    },
    #[error("this database is sealed with key `{noted}`, not with `{held}`")]
    OtherKey { noted: String, held: String },
    #[error("invalid row in `{table}`: {problem}")]
    Inconsistent { table: &'static str, problem: String },
    /// A call that violates the store's rules: a bug in the caller.
    #[error("invalid call of the store: {0}")]
    Misuse(String),
    #[error("{attempt}")]
    Database {
        attempt: &'static str,
        #[source]
        source: sqlx::Error,
    },
    #[error("sync the write-ahead log of the database to disk")]
    Sync(#[source] std::io::Error),
    #[error("open the database `{url}`")]
    Open {
        url: String,
        #[source]
        source: sqlx::Error,
    },
    /// Written by another version of the server, which this one cannot read.
    #[error(
        "the database `{url}` {} and this server uses format {FORMAT}: it was written by another version of Margrave. \
         Nothing was changed. {}, and start the server again",
        found.map_or("has no format version".to_owned(), |found| format!("has format {found}")),
        if url.starts_with("sqlite:") {
            "Move the data folder away, or use another one with --data"
        } else {
            "Use an empty database"
        }
    )]
    UnknownFormat { url: String, found: Option<i64> },
    #[error("bring the database schema up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    #[error(transparent)]
    Publish(#[from] margrave_core::publish::PublishError),
}

/// Adds what was attempted to a database error, and distinguishes a full disk from other errors.
pub(crate) trait During<T> {
    fn during(self, attempt: &'static str) -> Result<T, StoreError>;
}

impl<T> During<T> for Result<T, sqlx::Error> {
    fn during(self, attempt: &'static str) -> Result<T, StoreError> {
        self.map_err(
            |source| {
                if is_full(&source) { StoreError::Full(source) } else { StoreError::Database { attempt, source } }
            },
        )
    }
}

/// SQLITE_FULL, SQLITE_IOERR_SHMSIZE (no space for the index of the write-ahead log), and PostgreSQL's disk_full.
const FULL_CODES: [&str; 3] = ["13", "4874", "53100"];

pub(crate) fn is_full(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| FULL_CODES.contains(&code.as_ref()))
}

/// SQLITE_ERROR, which SQLite returns for a statement that it cannot prepare, and PostgreSQL's undefined_table.
const MISSING_TABLE_CODES: [&str; 2] = ["1", "42P01"];

pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| MISSING_TABLE_CODES.contains(&code.as_ref()))
}

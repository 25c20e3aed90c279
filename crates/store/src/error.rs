//! What can go wrong in the store.

use crate::seal::SealError;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{what} does not exist")]
    NotFound { what: String },
    #[error("{what} exists already")]
    Exists { what: String },
    /// Optimistic concurrency: the caller's revision is not the current one.
    #[error("{what} has changed: it is at revision {current}, the request was made for {expected}")]
    Conflict { what: String, expected: i64, current: i64 },
    #[error("{what} is still used: {by}")]
    InUse { what: String, by: String },
    #[error("there are {max} {what} already, and no more are kept")]
    TooMany { what: &'static str, max: usize },
    /// The idempotency key of the call is taken; nothing was written.
    #[error("a call with this idempotency key was carried out already")]
    Repeated,
    /// The disk or the database is full; nothing was written.
    #[error("no room left to write")]
    Full(#[source] sqlx::Error),
    /// It stays where it is, and whatever depends on it is not done.
    #[error("{what} cannot be opened")]
    Sealed {
        what: String,
        #[source]
        source: SealError,
    },
    #[error("this database is sealed with key `{noted}`, not with `{held}`")]
    OtherKey { noted: String, held: String },
    #[error("a row of `{table}` makes no sense: {problem}")]
    Inconsistent { table: &'static str, problem: String },
    /// A call that breaks the store's own rules: a bug in the caller.
    #[error("the store cannot do that: {0}")]
    Misuse(String),
    #[error("{attempt}")]
    Database {
        attempt: &'static str,
        #[source]
        source: sqlx::Error,
    },
    #[error("wait until the write-ahead log of the database is on disk")]
    Sync(#[source] std::io::Error),
    #[error("open the database `{url}`")]
    Open {
        url: String,
        #[source]
        source: sqlx::Error,
    },
    #[error("bring the database schema up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    #[error(transparent)]
    Publish(#[from] margrave_core::publish::PublishError),
}

/// Says what was attempted when the database failed, and tells a full disk from everything else.
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

/// SQLITE_FULL, SQLITE_IOERR_SHMSIZE (no room for the index of the write-ahead log), and PostgreSQL's disk_full.
const FULL_CODES: [&str; 3] = ["13", "4874", "53100"];

pub(crate) fn is_full(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| FULL_CODES.contains(&code.as_ref()))
}

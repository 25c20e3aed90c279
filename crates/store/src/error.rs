//! What can go wrong in the store.

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
    /// The disk or the database is full; nothing was written.
    #[error("no room left to write")]
    Full(#[source] sqlx::Error),
    #[error("a row of `{table}` makes no sense: {problem}")]
    Inconsistent { table: &'static str, problem: String },
    #[error("{attempt}")]
    Database { attempt: &'static str, #[source] source: sqlx::Error },
    #[error("open the database `{url}`")]
    Open { url: String, #[source] source: sqlx::Error },
    #[error("bring the database schema up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    #[error(transparent)]
    Publish(#[from] margrave_core::publish::PublishError),
}

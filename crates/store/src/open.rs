//! Opening the database: one of the two places that know which engine it is.

use crate::Result;

#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// `sqlite:///path/to/file.db`, `sqlite::memory:` or `postgres://...`.
    pub url: String,
    /// Connections for reading; SQLite always writes through exactly one.
    pub readers: u32,
}

/// A handle to the database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {}

impl Store {
    /// Opens (and on SQLite creates) the database and runs the migrations.
    pub async fn open(options: &StoreOptions) -> Result<Self> {
        let _ = options;
        todo!()
    }
    /// A statement that writes nothing, for readiness.
    pub async fn ping(&self) -> Result<()> {
        todo!()
    }
    pub async fn close(&self) {
        todo!()
    }
}

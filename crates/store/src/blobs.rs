//! Content-addressed bytes.

use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margo::digest::Digest;
use margrave_core::time::Timestamp;
use sqlx::AnyConnection;

/// Stores bytes under their digest. Storing them again only renews `stored_at`, which keeps the garbage collector away while
/// the transaction that refers to them is still open.
pub(crate) async fn put(connection: &mut AnyConnection, digest: &Digest, body: &[u8], now: Timestamp) -> Result<()> {
    sqlx::query(
        "INSERT INTO blobs (digest, size, body, stored_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at",
    )
    .bind(digest.as_str())
    .bind(body.len() as i64)
    .bind(body)
    .bind(now.0)
    .execute(connection)
    .await
    .during("store a blob")?;
    Ok(())
}

/// Notes that a blob lost a reference, so that the next pruning looks whether it has any left.
pub(crate) async fn dereferenced(connection: &mut AnyConnection, digest: &str) -> Result<()> {
    sqlx::query("INSERT INTO blob_candidates (digest) VALUES ($1) ON CONFLICT (digest) DO NOTHING")
        .bind(digest)
        .execute(connection)
        .await
        .during("note a blob for collection")?;
    Ok(())
}

impl Store {
    pub async fn blob_get(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        let row = sqlx::query("SELECT body FROM blobs WHERE digest = $1")
            .bind(digest.as_str())
            .fetch_optional(&self.read)
            .await
            .during("read a blob")?;
        row.map(|row| Columns::of("blobs", &row).bytes("body")).transpose()
    }
}

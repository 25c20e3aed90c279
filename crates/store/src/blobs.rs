//! Content-addressed bytes.

use crate::error::During;
use crate::many::{Insert, Pile, Statement};
use crate::rows::Columns;
use crate::{Result, Store};
use margo::digest::Digest;
use margrave_core::time::Timestamp;
use sqlx::AnyConnection;
use std::collections::BTreeMap;

/// Stores bytes under their digest. Storing them again only renews `stored_at`, which keeps the garbage collector away while
/// the transaction that refers to them is still open.
const INSERT: Insert = Insert {
    into: "blobs (digest, size, body, stored_at)",
    columns: 4,
    on_conflict: "ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at",
    attempt: "store blobs",
};

/// In order of digest, so that two transactions with blobs in common never wait for each other crosswise.
pub(crate) async fn put(connection: &mut AnyConnection, blobs: &BTreeMap<Digest, &[u8]>, now: Timestamp) -> Result<()> {
    let rows: Vec<Row<'_>> = blobs.iter().map(|(digest, body)| (digest.clone(), *body, now)).collect();
    INSERT.rows(connection, &rows, bind).await
}

/// As [`put`], with other statements.
pub(crate) fn pile<'p>(pile: &mut Pile<'p>, blobs: BTreeMap<Digest, &'p [u8]>, now: Timestamp) {
    pile.insert(&INSERT, blobs.into_iter().map(|(digest, body)| (digest, body, now)).collect(), bind);
}

type Row<'a> = (Digest, &'a [u8], Timestamp);

fn bind<'q>(statement: Statement<'q>, (digest, body, now): &Row<'_>) -> Statement<'q> {
    statement.bind(digest.to_string()).bind(body.len() as i64).bind(body.to_vec()).bind(now.0)
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

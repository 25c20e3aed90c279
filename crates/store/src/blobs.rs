//! Content-addressed bytes.

use crate::batched::{Insert, Statement, StatementBatch};
use crate::error::During;
use crate::rows::Columns;
use crate::seal::{Cell, Sealing};
use crate::{Result, Store};
use margo::digest::Digest;
use margrave_core::time::Timestamp;
use sqlx::AnyConnection;
use std::collections::BTreeMap;

/// Stores bytes under their digest. Storing them again only renews `stored_at`, which protects them from garbage
/// collection while the transaction that refers to them is still open.
const INSERT: Insert = Insert {
    into: "blobs (digest, size, body, stored_at)",
    columns: 4,
    on_conflict: "ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at",
    attempt: "store blobs",
};

/// Sealed bytes. They replace an unsealed copy that was stored before the bytes were marked sensitive. An unsealed
/// copy never replaces sealed bytes.
const INSERT_SEALED: Insert = Insert {
    into: "blobs (digest, size, body, stored_at, sealed_with)",
    columns: 5,
    on_conflict: "ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at, body = excluded.body,
                  sealed_with = excluded.sealed_with",
    attempt: "store sealed blobs",
};

/// In order of digest, so that two transactions with common blobs never deadlock.
pub(crate) async fn put(connection: &mut AnyConnection, blobs: &BTreeMap<Digest, &[u8]>, now: Timestamp) -> Result<()> {
    let rows: Vec<Row<'_>> = blobs.iter().map(|(digest, body)| (digest.clone(), *body, now)).collect();
    INSERT.rows(connection, &rows, bind).await
}

/// As [`put`], in a batch with other statements.
pub(crate) fn add_to_batch<'p>(statements: &mut StatementBatch<'p>, blobs: BTreeMap<Digest, &'p [u8]>, now: Timestamp) {
    statements.insert(&INSERT, blobs.into_iter().map(|(digest, body)| (digest, body, now)).collect(), bind);
}

/// As [`put`], for bytes with sensitive values.
pub(crate) async fn put_sealed(
    connection: &mut AnyConnection,
    blobs: &BTreeMap<Digest, &[u8]>,
    sealing: &Sealing,
    now: Timestamp,
) -> Result<()> {
    INSERT_SEALED.rows(connection, &seal(blobs, sealing, now)?, bind_sealed).await
}

/// As [`put_sealed`], in a batch with other statements.
pub(crate) fn batch_sealed(
    statements: &mut StatementBatch<'_>,
    blobs: &BTreeMap<Digest, &[u8]>,
    sealing: &Sealing,
    now: Timestamp,
) -> Result<()> {
    statements.insert(&INSERT_SEALED, seal(blobs, sealing, now)?, bind_sealed);
    Ok(())
}

struct SealedRow {
    digest: Digest,
    /// Digest of the clear bytes.
    size: usize,
    body: Vec<u8>,
    sealed_with: String,
    now: Timestamp,
}

fn seal(blobs: &BTreeMap<Digest, &[u8]>, sealing: &Sealing, now: Timestamp) -> Result<Vec<SealedRow>> {
    let one = |(digest, clear): (&Digest, &&[u8])| {
        let (sealed_with, body) = sealing.bytes(cell(digest), clear)?;
        Ok(SealedRow { digest: digest.clone(), size: clear.len(), body, sealed_with, now })
    };
    blobs.iter().map(one).collect()
}

fn bind_sealed<'q>(statement: Statement<'q>, row: &SealedRow) -> Statement<'q> {
    let SealedRow { digest, size, body, sealed_with, now } = row;
    statement.bind(digest.to_string()).bind(*size as i64).bind(body.clone()).bind(now.0).bind(sealed_with.clone())
}

fn cell(digest: &Digest) -> Cell<'_> {
    Cell::new("blobs.body", digest)
}

/// The bytes of a row with `body` and `sealed_with`.
pub(crate) fn read(row: Columns<'_>, digest: &Digest, sealing: &Sealing) -> Result<Vec<u8>> {
    open(row, row.bytes("body")?, digest, sealing)
}

/// The same for a body that was already read.
pub(crate) fn open(row: Columns<'_>, body: Vec<u8>, digest: &Digest, sealing: &Sealing) -> Result<Vec<u8>> {
    match row.text_maybe("sealed_with")? {
        Some(key) => sealing.open_bytes(cell(digest), &key, body),
        None => Ok(body),
    }
}

type Row<'a> = (Digest, &'a [u8], Timestamp);

fn bind<'q>(statement: Statement<'q>, (digest, body, now): &Row<'_>) -> Statement<'q> {
    statement.bind(digest.to_string()).bind(body.len() as i64).bind(body.to_vec()).bind(now.0)
}

/// Notes that a blob lost a reference, so that the next pruning checks whether it has any left.
pub(crate) async fn dereferenced(connection: &mut AnyConnection, digest: &str) -> Result<()> {
    sqlx::query("INSERT INTO blob_candidates (digest) VALUES ($1) ON CONFLICT (digest) DO NOTHING")
        .bind(digest)
        .execute(connection)
        .await
        .during("note a blob for garbage collection")?;
    Ok(())
}

impl Store {
    pub async fn blob_get(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        let row = sqlx::query("SELECT body, sealed_with FROM blobs WHERE digest = $1")
            .bind(digest.as_str())
            .fetch_optional(&self.read)
            .await
            .during("read a blob")?;
        row.map(|row| read(Columns::of("blobs", &row), digest, &self.sealing)).transpose()
    }
}

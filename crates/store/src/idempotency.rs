//! Idempotency keys: the response to a call with a key, stored in the transaction of its effect.

use crate::error::During;
use crate::open::commit;
use crate::retention::PRUNE_ROWS_MAX;
use crate::rows::Columns;
use crate::{Result, Store, StoreError};
use margrave_core::time::Timestamp;
use sqlx::AnyConnection;
use std::sync::Arc;
use uuid::Uuid;

/// Keys stored per API token; beyond it the oldest are dropped. A program with one call per second reaches it after
/// three hours, and a retry comes within minutes.
pub const KEYS_PER_TOKEN_MAX: i64 = 10_000;

/// The owner of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyOwner {
    pub token: Uuid,
    pub key_hash: String,
}

/// A key with the response to store under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyWrite {
    pub owner: KeyOwner,
    /// Hash of everything that identifies the request.
    pub request_hash: String,
    /// Empty: only that it was done.
    pub answer: Vec<u8>,
    pub at: Timestamp,
    /// Entries older than this are ignored, even if they are still stored.
    pub expired_before: Timestamp,
}

/// The entry stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    pub request_hash: String,
    pub answer: Vec<u8>,
}

/// Locks the key for the rest of the transaction; on PostgreSQL this waits for a transaction that holds it. Fails with
/// `Repeated` if another call was first, which aborts the whole transaction.
pub(crate) async fn claim(connection: &mut AnyConnection, key: &KeyWrite) -> Result<()> {
    let row = sqlx::query(
        "INSERT INTO idempotency_keys (token_id, key_hash, request_hash, response, created_at, seq)
         VALUES ($1, $2, $3, $4, $5,
                 (SELECT COALESCE(MAX(k.seq), 0) + 1 FROM idempotency_keys k WHERE k.token_id = $1))
         ON CONFLICT (token_id, key_hash) DO UPDATE SET request_hash = excluded.request_hash, response = excluded.response,
             created_at = excluded.created_at, seq = excluded.seq
         WHERE idempotency_keys.created_at <= $6
         RETURNING seq",
    )
    .bind(key.owner.token.to_string())
    .bind(&key.owner.key_hash)
    .bind(&key.request_hash)
    .bind(key.answer.as_slice())
    .bind(key.at.0)
    .bind(key.expired_before.0)
    .fetch_optional(&mut *connection)
    .await
    .during("store an idempotency key")?;
    let Some(row) = row else { return Err(StoreError::Repeated) };
    let seq = Columns::of("idempotency_keys", &row).number("seq")?;
    sqlx::query("DELETE FROM idempotency_keys WHERE token_id = $1 AND seq <= $2")
        .bind(key.owner.token.to_string())
        .bind(seq - KEYS_PER_TOKEN_MAX)
        .execute(connection)
        .await
        .during("bound the idempotency keys of a token")?;
    Ok(())
}

impl Store {
    /// The same store, whose next writing call stores the key in its own transaction, or fails with `Repeated` and
    /// writes nothing. For exactly one writing call: a second one would find its own key.
    #[must_use]
    pub fn with_key(&self, key: KeyWrite) -> Self {
        let mut store = self.clone();
        store.key = Some(Arc::new(key));
        store
    }

    /// The entry under a key.
    pub async fn key_find(&self, owner: &KeyOwner, expired_before: Timestamp) -> Result<Option<KeyEntry>> {
        let row = sqlx::query(
            "SELECT request_hash, response FROM idempotency_keys
             WHERE token_id = $1 AND key_hash = $2 AND created_at > $3",
        )
        .bind(owner.token.to_string())
        .bind(&owner.key_hash)
        .bind(expired_before.0)
        .fetch_optional(&self.read)
        .await
        .during("find an idempotency key")?;
        let Some(row) = row else { return Ok(None) };
        let row = Columns::of("idempotency_keys", &row);
        Ok(Some(KeyEntry { request_hash: row.text("request_hash")?, answer: row.bytes("response")? }))
    }

    /// Stores a key alone, for effects outside of a store transaction; fails with `Repeated` if it exists.
    pub async fn key_put(&self, key: KeyWrite) -> Result<()> {
        // Beginning the transaction stores it.
        commit(self.with_key(key).begin().await?).await
    }

    pub(crate) async fn prune_keys(&self, before: Timestamp) -> Result<u64> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query(
            "DELETE FROM idempotency_keys WHERE (token_id, key_hash) IN
                 (SELECT token_id, key_hash FROM idempotency_keys WHERE created_at <= $1 ORDER BY created_at LIMIT $2)",
        )
        .bind(before.0)
        .bind(PRUNE_ROWS_MAX)
        .execute(&mut *transaction)
        .await
        .during("delete old idempotency keys")?;
        commit(transaction).await?;
        Ok(removed.rows_affected())
    }
}

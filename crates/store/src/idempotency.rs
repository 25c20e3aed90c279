//! Idempotency keys: what a call with a key answered, kept in the transaction of its effect.

use crate::error::During;
use crate::open::commit;
use crate::retention::PRUNE_ROWS_MAX;
use crate::rows::Columns;
use crate::{Result, Store, StoreError};
use margrave_core::time::Timestamp;
use sqlx::AnyConnection;
use std::sync::Arc;
use uuid::Uuid;

/// Keys remembered per API token; beyond it a token's oldest go first. A program that makes one thing a second needs three
/// hours to get here, and a retry comes within minutes.
pub const KEYS_PER_TOKEN_MAX: i64 = 10_000;

/// Whose key it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyOwner {
    pub token: Uuid,
    pub key_hash: String,
}

/// A key with what is to be remembered under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyWrite {
    pub owner: KeyOwner,
    /// Of everything that makes the request what it is.
    pub request_hash: String,
    /// Empty: only that it was done.
    pub answer: Vec<u8>,
    pub at: Timestamp,
    /// Entries written before this are forgotten, whether or not they are still there.
    pub expired_before: Timestamp,
}

/// What is remembered under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    pub request_hash: String,
    pub answer: Vec<u8>,
}

/// Takes the key for the rest of the transaction; on PostgreSQL this waits for a transaction that has it. Fails with
/// `Repeated` when somebody was faster, and with that the whole transaction.
pub(crate) async fn claim(connection: &mut AnyConnection, key: &KeyWrite) -> Result<()> {
    let row = sqlx::query(
        "INSERT INTO idempotency_keys (token_id, key_hash, request_hash, answer, created_at, seq)
         VALUES ($1, $2, $3, $4, $5,
                 (SELECT COALESCE(MAX(k.seq), 0) + 1 FROM idempotency_keys k WHERE k.token_id = $1))
         ON CONFLICT (token_id, key_hash) DO UPDATE SET request_hash = excluded.request_hash, answer = excluded.answer,
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
    .during("remember an idempotency key")?;
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
    /// The same store, whose next writing call remembers the key in its own transaction, or fails with `Repeated` and writes
    /// nothing. For exactly one call that writes: a second one would find its own key.
    #[must_use]
    pub fn with_key(&self, key: KeyWrite) -> Self {
        let mut store = self.clone();
        store.key = Some(Arc::new(key));
        store
    }

    /// What is remembered under a key.
    pub async fn key_find(&self, owner: &KeyOwner, expired_before: Timestamp) -> Result<Option<KeyEntry>> {
        let row = sqlx::query(
            "SELECT request_hash, answer FROM idempotency_keys
             WHERE token_id = $1 AND key_hash = $2 AND created_at > $3",
        )
        .bind(owner.token.to_string())
        .bind(&owner.key_hash)
        .bind(expired_before.0)
        .fetch_optional(&self.read)
        .await
        .during("look for an idempotency key")?;
        let Some(row) = row else { return Ok(None) };
        let row = Columns::of("idempotency_keys", &row);
        Ok(Some(KeyEntry { request_hash: row.text("request_hash")?, answer: row.bytes("answer")? }))
    }

    /// Remembers a key by itself, for effects that are no transaction of the store; fails with `Repeated` when it is there.
    pub async fn key_put(&self, key: KeyWrite) -> Result<()> {
        // Beginning is what remembers it.
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
        .during("forget old idempotency keys")?;
        commit(transaction).await?;
        Ok(removed.rows_affected())
    }
}

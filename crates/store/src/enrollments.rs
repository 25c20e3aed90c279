//! One-time enrollment tokens: only their SHA-256 is stored.

use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::{WriteTransaction, commit};
use crate::rows::Columns;
use crate::{Result, Store, StoreError, clients};
use margo::ids::ClientId;
use margrave_core::model::{Actor, ClientState};
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::AnyConnection;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnrollmentUse {
    /// The client that this token enrolls; the client row exists (accepted) afterwards.
    Granted(ClientId),
    Unknown,
    Expired,
    /// Used by another key, or by the same key too long ago.
    Used,
}

/// A token as shown to operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrollment {
    pub client: ClientId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

struct StoredToken {
    client: ClientId,
    expires_at: Timestamp,
    used: Option<(Timestamp, String)>,
}

/// Locks the client of the token, if it exists. All transactions lock the client first and its tokens after.
async fn lock_client(connection: &mut AnyConnection, secret_hash: &str) -> Result<()> {
    let row = sqlx::query("SELECT client_id FROM enrollment_tokens WHERE secret_hash = $1")
        .bind(secret_hash)
        .fetch_optional(&mut *connection)
        .await
        .during("find an enrollment token")?;
    if let Some(row) = row {
        clients::lock(connection, &Columns::of("enrollment_tokens", &row).parsed("client_id")?).await?;
    }
    Ok(())
}

/// Locks the row for the rest of the transaction: of two keys at the same time, one waits and finds the token used.
async fn lock(connection: &mut AnyConnection, secret_hash: &str) -> Result<Option<StoredToken>> {
    let row = sqlx::query(
        "UPDATE enrollment_tokens SET client_id = client_id WHERE secret_hash = $1
         RETURNING client_id, expires_at, used_at, key_hash",
    )
    .bind(secret_hash)
    .fetch_optional(connection)
    .await
    .during("lock an enrollment token")?;
    let Some(row) = row else { return Ok(None) };
    let row = Columns::of("enrollment_tokens", &row);
    Ok(Some(StoredToken {
        client: row.parsed("client_id")?,
        expires_at: row.time("expires_at")?,
        used: row.time_maybe("used_at")?.zip(row.text_maybe("key_hash")?),
    }))
}

impl Store {
    pub async fn enrollment_create(
        &self,
        actor: &Actor,
        secret_hash: &str,
        client: &ClientId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        let mut transaction = self.begin().await?;
        let inserted = sqlx::query(
            "INSERT INTO enrollment_tokens (secret_hash, client_id, created_at, expires_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (secret_hash) DO NOTHING",
        )
        .bind(secret_hash)
        .bind(client.as_str())
        .bind(now.0)
        .bind(expires_at.0)
        .execute(&mut *transaction)
        .await
        .during("create an enrollment token")?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::Exists { what: "this enrollment token".to_owned() });
        }
        let entry = Entry {
            actor,
            action: "enrollment-token.create",
            subject: format!("client/{client}"),
            before: None,
            after: Some(json!({ "expiresAt": expires_at.to_string() })),
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await
    }

    /// Usable tokens, then those used or expired recently; newest first within each.
    pub async fn enrollments(&self, now: Timestamp, limit: u32) -> Result<Vec<Enrollment>> {
        let rows = sqlx::query(
            "SELECT client_id, created_at, expires_at, used_at FROM enrollment_tokens
             ORDER BY CASE WHEN used_at IS NULL AND expires_at > $2 THEN 0 ELSE 1 END, created_at DESC, client_id LIMIT $1",
        )
        .bind(i64::from(limit))
        .bind(now.0)
        .fetch_all(&self.read)
        .await
        .during("list enrollment tokens")?;
        let read = |row| {
            let row = Columns::of("enrollment_tokens", row);
            Ok(Enrollment {
                client: row.parsed("client_id")?,
                created_at: row.time("created_at")?,
                expires_at: row.time("expires_at")?,
                used_at: row.time_maybe("used_at")?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// The number of unused tokens of a client: those that [`Store::enrollments_revoke`] would revoke.
    pub async fn enrollments_unused(&self, client: &ClientId) -> Result<u64> {
        let row =
            sqlx::query("SELECT COUNT(*) AS tokens FROM enrollment_tokens WHERE client_id = $1 AND used_at IS NULL")
                .bind(client.as_str())
                .fetch_one(&self.read)
                .await
                .during("count the enrollment tokens of a client")?;
        Columns::of("enrollment_tokens", &row).unsigned("tokens")
    }

    /// Revokes the unused tokens of a client; returns how many.
    pub async fn enrollments_revoke(&self, actor: &Actor, client: &ClientId, now: Timestamp) -> Result<u64> {
        let mut transaction = self.begin().await?;
        clients::lock(&mut transaction, client).await?;
        let removed = sqlx::query("DELETE FROM enrollment_tokens WHERE client_id = $1 AND used_at IS NULL")
            .bind(client.as_str())
            .execute(&mut *transaction)
            .await
            .during("revoke enrollment tokens")?
            .rows_affected();
        if removed > 0 {
            let subject = format!("client/{client}");
            let after = Some(json!({ "tokens": removed }));
            let entry = Entry { actor, action: "enrollment-token.revoke", subject, before: None, after };
            audit::append(&mut transaction, vec![entry], now).await?;
        }
        commit(transaction).await?;
        Ok(removed)
    }

    /// Uses a token for the key with this hash. The same key may use it again until `retry_window` after the first use
    /// (a response can get lost); a second key never may.
    pub async fn enrollment_use(
        &self,
        secret_hash: &str,
        key_hash: &str,
        retry_window: std::time::Duration,
        now: Timestamp,
    ) -> Result<EnrollmentUse> {
        let mut transaction = self.begin().await?;
        lock_client(&mut transaction, secret_hash).await?;
        let Some(enrollment) = lock(&mut transaction, secret_hash).await? else { return Ok(EnrollmentUse::Unknown) };
        match enrollment.used {
            Some((used_at, key)) if key == key_hash && now <= used_at.plus(retry_window) => {
                return Ok(EnrollmentUse::Granted(enrollment.client));
            }
            Some(_) => return Ok(EnrollmentUse::Used),
            None if now >= enrollment.expires_at => return Ok(EnrollmentUse::Expired),
            None => {}
        }
        sqlx::query("UPDATE enrollment_tokens SET used_at = $2, key_hash = $3 WHERE secret_hash = $1")
            .bind(secret_hash)
            .bind(now.0)
            .bind(key_hash)
            .execute(&mut *transaction)
            .await
            .during("use an enrollment token")?;
        admit(&mut transaction, &enrollment.client, key_hash, now).await?;
        commit(transaction).await?;
        Ok(EnrollmentUse::Granted(enrollment.client))
    }
}

/// Makes the client accepted, whatever its state: an operator created the token after its last decommissioning.
async fn admit(connection: &mut WriteTransaction, client: &ClientId, key_hash: &str, now: Timestamp) -> Result<()> {
    let before = if clients::insert(connection, client, ClientState::Accepted, None, now).await? {
        None
    } else {
        clients::lock(connection, client).await?.map(|(state, _)| state)
    };
    if before.is_some_and(|state| state != ClientState::Accepted) {
        clients::write_state(connection, client, ClientState::Accepted).await?;
    }
    let actor = Actor { name: format!("client:{client}"), comment: None, request_id: None };
    let entry = Entry {
        actor: &actor,
        action: "client.enroll",
        subject: format!("client/{client}"),
        before: before.map(|state| json!({ "state": state.as_str() })),
        after: Some(json!({ "state": ClientState::Accepted.as_str(), "key": key_hash })),
    };
    audit::append(connection, vec![entry], now).await?;
    Ok(())
}

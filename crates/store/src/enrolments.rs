//! One-time enrolment tokens: only their SHA-256 is kept.

use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::{Writing, commit};
use crate::rows::Columns;
use crate::{Result, Store, StoreError, clients};
use margo::ids::ClientId;
use margrave_core::model::{Actor, ClientState};
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::AnyConnection;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnrolmentUse {
    /// The client this token enrols; the client row is there (accepted) afterwards.
    Granted(ClientId),
    Unknown,
    Expired,
    /// Used by another key, or by the same key too long ago.
    Used,
}

/// A token as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    pub client: ClientId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

struct Held {
    client: ClientId,
    expires_at: Timestamp,
    used: Option<(Timestamp, String)>,
}

/// Takes the client the token is for, if it is there. Everybody takes the client first and its tokens after, as retiring does.
async fn lock_client(connection: &mut AnyConnection, secret_hash: &str) -> Result<()> {
    let row = sqlx::query("SELECT client_id FROM enrolments WHERE secret_hash = $1")
        .bind(secret_hash)
        .fetch_optional(&mut *connection)
        .await
        .during("look for an enrolment token")?;
    if let Some(row) = row {
        clients::lock(connection, &Columns::of("enrolments", &row).parsed("client_id")?).await?;
    }
    Ok(())
}

/// Takes the row for the rest of the transaction: of two keys that come at once, one waits and finds the token used.
async fn lock(connection: &mut AnyConnection, secret_hash: &str) -> Result<Option<Held>> {
    let row = sqlx::query(
        "UPDATE enrolments SET client_id = client_id WHERE secret_hash = $1
         RETURNING client_id, expires_at, used_at, key_hash",
    )
    .bind(secret_hash)
    .fetch_optional(connection)
    .await
    .during("take an enrolment token")?;
    let Some(row) = row else { return Ok(None) };
    let row = Columns::of("enrolments", &row);
    Ok(Some(Held {
        client: row.parsed("client_id")?,
        expires_at: row.time("expires_at")?,
        used: row.time_maybe("used_at")?.zip(row.text_maybe("key_hash")?),
    }))
}

impl Store {
    pub async fn enrolment_create(
        &self,
        actor: &Actor,
        secret_hash: &str,
        client: &ClientId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        let mut transaction = self.begin().await?;
        let inserted = sqlx::query(
            "INSERT INTO enrolments (secret_hash, client_id, created_at, expires_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (secret_hash) DO NOTHING",
        )
        .bind(secret_hash)
        .bind(client.as_str())
        .bind(now.0)
        .bind(expires_at.0)
        .execute(&mut *transaction)
        .await
        .during("create an enrolment token")?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::Exists { what: "this enrolment token".to_owned() });
        }
        let entry = Entry {
            actor,
            action: "enrolment.create",
            subject: format!("client/{client}"),
            before: None,
            after: Some(json!({ "expiresAt": expires_at.to_string() })),
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await
    }

    /// Those that can still be used, then those used or expired lately; the newest first among each.
    pub async fn enrolments(&self, now: Timestamp, limit: u32) -> Result<Vec<Enrolment>> {
        let rows = sqlx::query(
            "SELECT client_id, created_at, expires_at, used_at FROM enrolments
             ORDER BY CASE WHEN used_at IS NULL AND expires_at > $2 THEN 0 ELSE 1 END, created_at DESC, client_id LIMIT $1",
        )
        .bind(i64::from(limit))
        .bind(now.0)
        .fetch_all(&self.read)
        .await
        .during("list enrolment tokens")?;
        let read = |row| {
            let row = Columns::of("enrolments", row);
            Ok(Enrolment {
                client: row.parsed("client_id")?,
                created_at: row.time("created_at")?,
                expires_at: row.time("expires_at")?,
                used_at: row.time_maybe("used_at")?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// How many tokens of a client nobody has used yet: what [`Store::enrolments_withdraw`] would withdraw.
    pub async fn enrolments_unused(&self, client: &ClientId) -> Result<u64> {
        let row = sqlx::query("SELECT COUNT(*) AS tokens FROM enrolments WHERE client_id = $1 AND used_at IS NULL")
            .bind(client.as_str())
            .fetch_one(&self.read)
            .await
            .during("count the enrolment tokens of a client")?;
        Columns::of("enrolments", &row).unsigned("tokens")
    }

    /// Withdraws the tokens of a client that nobody has used yet; gives how many.
    pub async fn enrolments_withdraw(&self, actor: &Actor, client: &ClientId, now: Timestamp) -> Result<u64> {
        let mut transaction = self.begin().await?;
        clients::lock(&mut transaction, client).await?;
        let removed = sqlx::query("DELETE FROM enrolments WHERE client_id = $1 AND used_at IS NULL")
            .bind(client.as_str())
            .execute(&mut *transaction)
            .await
            .during("withdraw enrolment tokens")?
            .rows_affected();
        if removed > 0 {
            let subject = format!("client/{client}");
            let after = Some(json!({ "tokens": removed }));
            let entry = Entry { actor, action: "enrolment.withdraw", subject, before: None, after };
            audit::append(&mut transaction, vec![entry], now).await?;
        }
        commit(transaction).await?;
        Ok(removed)
    }

    /// Uses a token for the key with this hash. The same key may come again until `retry_window` after the first use
    /// (an answer can get lost); a second key never may.
    pub async fn enrolment_use(
        &self,
        secret_hash: &str,
        key_hash: &str,
        retry_window: std::time::Duration,
        now: Timestamp,
    ) -> Result<EnrolmentUse> {
        let mut transaction = self.begin().await?;
        lock_client(&mut transaction, secret_hash).await?;
        let Some(enrolment) = lock(&mut transaction, secret_hash).await? else { return Ok(EnrolmentUse::Unknown) };
        match enrolment.used {
            Some((used_at, key)) if key == key_hash && now <= used_at.plus(retry_window) => {
                return Ok(EnrolmentUse::Granted(enrolment.client));
            }
            Some(_) => return Ok(EnrolmentUse::Used),
            None if now >= enrolment.expires_at => return Ok(EnrolmentUse::Expired),
            None => {}
        }
        sqlx::query("UPDATE enrolments SET used_at = $2, key_hash = $3 WHERE secret_hash = $1")
            .bind(secret_hash)
            .bind(now.0)
            .bind(key_hash)
            .execute(&mut *transaction)
            .await
            .during("use an enrolment token")?;
        admit(&mut transaction, &enrolment.client, key_hash, now).await?;
        commit(transaction).await?;
        Ok(EnrolmentUse::Granted(enrolment.client))
    }
}

/// Leaves the client accepted, whatever it was: an operator made the token after the last time it was retired.
async fn admit(connection: &mut Writing, client: &ClientId, key_hash: &str, now: Timestamp) -> Result<()> {
    let before = if clients::insert(connection, client, ClientState::Accepted, None, now).await? {
        None
    } else {
        clients::lock(connection, client).await?.map(|(state, _)| state)
    };
    if before.is_some_and(|state| state != ClientState::Accepted) {
        clients::write_state(connection, client, ClientState::Accepted).await?;
    }
    let actor = Actor { name: format!("client:{client}"), reason: None, request_id: None };
    let entry = Entry {
        actor: &actor,
        action: "client.enrol",
        subject: format!("client/{client}"),
        before: before.map(|state| json!({ "state": state.as_str() })),
        after: Some(json!({ "state": ClientState::Accepted.as_str(), "key": key_hash })),
    };
    audit::append(connection, vec![entry], now).await?;
    Ok(())
}

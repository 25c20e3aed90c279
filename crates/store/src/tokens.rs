//! Operator API tokens: only their SHA-256 is stored.

use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::commit;
use crate::rows::Columns;
use crate::{Result, Store, StoreError};
use margrave_core::model::{Actor, ApiToken};
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::any::AnyRow;
use uuid::Uuid;

fn read(row: &AnyRow) -> Result<ApiToken> {
    let row = Columns::of("tokens", row);
    Ok(ApiToken {
        id: row.parsed("id")?,
        name: row.text("name")?,
        created_at: row.time("created_at")?,
        expires_at: row.time_maybe("expires_at")?,
        revoked_at: row.time_maybe("revoked_at")?,
    })
}

impl Store {
    pub async fn token_create(&self, actor: &Actor, token: &ApiToken, secret_hash: &str) -> Result<()> {
        let mut transaction = self.begin().await?;
        let inserted = sqlx::query(
            "INSERT INTO tokens (id, name, secret_hash, created_at, expires_at, revoked_at)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        )
        .bind(token.id.to_string())
        .bind(&token.name)
        .bind(secret_hash)
        .bind(token.created_at.0)
        .bind(token.expires_at.map(|at| at.0))
        .bind(token.revoked_at.map(|at| at.0))
        .execute(&mut *transaction)
        .await
        .during("create a token")?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::Exists { what: format!("token `{}`", token.name) });
        }
        let entry = Entry {
            actor,
            action: "token.create",
            subject: format!("token/{}", token.id),
            before: None,
            after: Some(json!({ "name": token.name, "expiresAt": token.expires_at.map(|at| at.to_string()) })),
        };
        audit::append(&mut transaction, vec![entry], token.created_at).await?;
        commit(transaction).await
    }

    /// A token that is neither revoked nor expired.
    pub async fn token_find(&self, secret_hash: &str, now: Timestamp) -> Result<Option<ApiToken>> {
        let row = sqlx::query(
            "SELECT * FROM tokens WHERE secret_hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)",
        )
        .bind(secret_hash)
        .bind(now.0)
        .fetch_optional(&self.read)
        .await
        .during("find a token")?;
        row.as_ref().map(read).transpose()
    }

    /// Oldest first, revoked and expired ones included.
    pub async fn tokens(&self) -> Result<Vec<ApiToken>> {
        let rows = sqlx::query("SELECT * FROM tokens ORDER BY created_at, id").fetch_all(&self.read).await;
        rows.during("list tokens")?.iter().map(read).collect()
    }

    /// False if there is no such token or it is already revoked.
    pub async fn token_revoke(&self, actor: &Actor, id: Uuid, now: Timestamp) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query("UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL RETURNING name")
            .bind(id.to_string())
            .bind(now.0)
            .fetch_optional(&mut *transaction)
            .await
            .during("revoke a token")?;
        let Some(row) = row else { return Ok(false) };
        let name = Columns::of("tokens", &row).text("name")?;
        let entry = Entry {
            actor,
            action: "token.revoke",
            subject: format!("token/{id}"),
            before: Some(json!({ "name": name })),
            after: None,
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(true)
    }
}

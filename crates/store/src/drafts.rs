//! Drafts: unfinished deployments of the wizard, saved between its steps. Each belongs to one token.

use crate::error::During;
use crate::open::commit;
use crate::retention::PRUNE_ROWS_MAX;
use crate::rows::Columns;
use crate::seal::{Cell, Sealing};
use crate::{Result, Store, StoreError};
use margrave_core::time::Timestamp;
use sqlx::any::AnyRow;
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub id: Uuid,
    pub token: Uuid,
    /// JSON; only the server knows its format.
    pub body: String,
    /// Increases with every saved step.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

fn body_cell(id: &Uuid) -> Cell<'_> {
    Cell::new("drafts.body", id)
}

fn read(row: &AnyRow, sealing: &Sealing) -> Result<Draft> {
    let row = Columns::of("drafts", row);
    let id = row.parsed("id")?;
    Ok(Draft {
        id,
        token: row.parsed("token_id")?,
        body: sealing.open_text(body_cell(&id), row.text("body")?)?,
        revision: row.number("revision")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

impl Store {
    /// `sensitive`: whether it may contain sensitive values.
    pub async fn draft_create(&self, id: Uuid, token: Uuid, body: &str, sensitive: bool, now: Timestamp) -> Result<()> {
        let body = self.draft_body(id, body, sensitive)?;
        let mut transaction = self.begin().await?;
        sqlx::query(
            "INSERT INTO drafts (id, token_id, body, revision, created_at, updated_at) VALUES ($1, $2, $3, 1, $4, $4)",
        )
        .bind(id.to_string())
        .bind(token.to_string())
        .bind(body)
        .bind(now.0)
        .execute(&mut *transaction)
        .await
        .during("save a draft")?;
        commit(transaction).await
    }

    /// `None` also for a draft of another token.
    pub async fn draft_get(&self, id: Uuid, token: Uuid) -> Result<Option<Draft>> {
        let row = sqlx::query("SELECT * FROM drafts WHERE id = $1 AND token_id = $2")
            .bind(id.to_string())
            .bind(token.to_string())
            .fetch_optional(&self.read)
            .await
            .during("read a draft")?;
        row.map(|row| read(&row, &self.sealing)).transpose()
    }

    /// Newest first.
    pub async fn drafts(&self, token: Uuid, limit: u32) -> Result<Vec<Draft>> {
        let rows = sqlx::query("SELECT * FROM drafts WHERE token_id = $1 ORDER BY updated_at DESC, id LIMIT $2")
            .bind(token.to_string())
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list drafts")?;
        rows.iter().map(|row| read(row, &self.sealing)).collect()
    }

    /// Replaces the content of a draft; `expected` is the revision the caller saw. Returns the new one.
    pub async fn draft_put(
        &self,
        id: Uuid,
        token: Uuid,
        body: &str,
        sensitive: bool,
        expected: Option<i64>,
        now: Timestamp,
    ) -> Result<i64> {
        let body = self.draft_body(id, body, sensitive)?;
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE drafts SET body = $3, revision = revision + 1, updated_at = $4 WHERE id = $1 AND token_id = $2
             RETURNING revision",
        )
        .bind(id.to_string())
        .bind(token.to_string())
        .bind(body)
        .bind(now.0)
        .fetch_optional(&mut *transaction)
        .await
        .during("save a draft")?;
        let Some(row) = row else { return Err(StoreError::NotFound { what: "this draft".to_owned() }) };
        let revision = Columns::of("drafts", &row).number("revision")?;
        if let Some(expected) = expected.filter(|expected| *expected != revision - 1) {
            return Err(StoreError::Conflict { what: "this draft".to_owned(), expected, current: revision - 1 });
        }
        commit(transaction).await?;
        Ok(revision)
    }

    fn draft_body(&self, id: Uuid, body: &str, sensitive: bool) -> Result<String> {
        if sensitive { self.sealing.text(body_cell(&id), body) } else { Ok(body.to_owned()) }
    }

    pub async fn draft_delete(&self, id: Uuid, token: Uuid) -> Result<()> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM drafts WHERE id = $1 AND token_id = $2")
            .bind(id.to_string())
            .bind(token.to_string())
            .execute(&mut *transaction)
            .await
            .during("discard a draft")?;
        commit(transaction).await
    }

    /// Deletes drafts that have not been touched since.
    pub(crate) async fn prune_drafts(&self, before: Timestamp) -> Result<u64> {
        let mut transaction = self.begin().await?;
        let removed =
            sqlx::query("DELETE FROM drafts WHERE id IN (SELECT id FROM drafts WHERE updated_at <= $1 LIMIT $2)")
                .bind(before.0)
                .bind(PRUNE_ROWS_MAX)
                .execute(&mut *transaction)
                .await
                .during("remove old drafts")?;
        commit(transaction).await?;
        Ok(removed.rows_affected())
    }
}

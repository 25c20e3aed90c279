//! Operators: people with a name and a password. Only the memory-hard hash of a password is stored.

use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::commit;
use crate::rows::Columns;
use crate::{Result, Store, StoreError};
use margrave_core::model::Actor;
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::any::AnyRow;
use std::fmt;
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    pub id: Uuid,
    /// The name to sign in with; in lower case.
    pub name: String,
    pub created_at: Timestamp,
    /// When the password was set.
    pub password_at: Timestamp,
}

/// An operator with the password hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub operator: Operator,
    pub password_hash: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("operator", &self.operator).finish_non_exhaustive()
    }
}

fn read(row: &AnyRow) -> Result<Operator> {
    let row = Columns::of("operators", row);
    Ok(Operator {
        id: row.parsed("id")?,
        name: row.text("name")?,
        created_at: row.time("created_at")?,
        password_at: row.time("password_at")?,
    })
}

impl Store {
    pub async fn operator_create(&self, actor: &Actor, operator: &Operator, password_hash: &str) -> Result<()> {
        let mut transaction = self.begin().await?;
        let inserted = sqlx::query(
            "INSERT INTO operators (id, name, password_hash, created_at, password_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT DO NOTHING",
        )
        .bind(operator.id.to_string())
        .bind(&operator.name)
        .bind(password_hash)
        .bind(operator.created_at.0)
        .bind(operator.password_at.0)
        .execute(&mut *transaction)
        .await
        .during("create an operator")?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::Exists { what: format!("operator `{}`", operator.name) });
        }
        let subject = format!("operator/{}", operator.name);
        let entry = Entry { actor, action: "operator.create", subject, before: None, after: None };
        audit::append(&mut transaction, vec![entry], operator.created_at).await?;
        commit(transaction).await
    }

    /// In order of name.
    pub async fn operators(&self) -> Result<Vec<Operator>> {
        let rows = sqlx::query("SELECT * FROM operators ORDER BY name").fetch_all(&self.read).await;
        rows.during("list operators")?.iter().map(read).collect()
    }

    pub async fn operator_find(&self, name: &str) -> Result<Option<Credential>> {
        let row = sqlx::query("SELECT * FROM operators WHERE name = $1").bind(name).fetch_optional(&self.read).await;
        let Some(row) = row.during("find an operator")? else { return Ok(None) };
        let password_hash = Columns::of("operators", &row).text("password_hash")?;
        Ok(Some(Credential { operator: read(&row)?, password_hash }))
    }

    /// Sets a password and ends the operator's web sessions except the one to keep; returns how many ended, `None` if
    /// there is no such operator.
    pub async fn operator_password(
        &self,
        actor: &Actor,
        name: &str,
        password_hash: &str,
        keep: Option<Uuid>,
        now: Timestamp,
    ) -> Result<Option<u64>> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query("UPDATE operators SET password_hash = $2, password_at = $3 WHERE name = $1 RETURNING id")
            .bind(name)
            .bind(password_hash)
            .bind(now.0)
            .fetch_optional(&mut *transaction)
            .await
            .during("set a password")?;
        let Some(row) = row else { return Ok(None) };
        let ended = sqlx::query(
            "UPDATE web_sessions SET ended_at = $3
             WHERE operator_id = $1 AND id <> $2 AND ended_at IS NULL AND expires_at > $3",
        )
        .bind(Columns::of("operators", &row).text("id")?)
        // No session has this id.
        .bind(keep.unwrap_or(Uuid::nil()).to_string())
        .bind(now.0)
        .execute(&mut *transaction)
        .await
        .during("end the web sessions of an operator")?
        .rows_affected();
        let (subject, after) = (format!("operator/{name}"), Some(json!({ "sessionsEnded": ended })));
        let entry = Entry { actor, action: "operator.password", subject, before: None, after };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(Some(ended))
    }
}

//! Groups: named label selectors.

use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::commit;
use crate::rows::Columns;
use crate::{Result, Store, StoreError};
use margrave_core::model::{Actor, Group};
use margrave_core::time::Timestamp;
use serde_json::{Value, json};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

fn read(row: &AnyRow) -> Result<Group> {
    let row = Columns::of("device_groups", row);
    Ok(Group {
        name: row.text("name")?,
        selector: row.text("selector")?,
        description: row.text_maybe("description")?,
        created_at: row.time("created_at")?,
        revision: row.number("revision")?,
    })
}

/// Locks the row for the rest of the transaction.
async fn lock(connection: &mut AnyConnection, name: &str) -> Result<Option<Group>> {
    let row = sqlx::query("UPDATE device_groups SET revision = revision WHERE name = $1 RETURNING *")
        .bind(name)
        .fetch_optional(connection)
        .await
        .during("lock a group")?;
    row.as_ref().map(read).transpose()
}

fn what(name: &str) -> String {
    format!("group `{name}`")
}

fn state(group: &Group) -> Value {
    json!({ "selector": group.selector, "description": group.description, "revision": group.revision })
}

fn check_revision(group: &Group, expected: Option<i64>) -> Result<()> {
    match expected {
        Some(expected) if expected != group.revision => {
            Err(StoreError::Conflict { what: what(&group.name), expected, current: group.revision })
        }
        _ => Ok(()),
    }
}

async fn create(connection: &mut AnyConnection, group: &Group) -> Result<()> {
    let inserted = sqlx::query(
        "INSERT INTO device_groups (name, selector, description, created_at, revision) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(&group.name)
    .bind(&group.selector)
    .bind(&group.description)
    .bind(group.created_at.0)
    .bind(group.revision)
    .execute(connection)
    .await
    .during("create a group")?;
    if inserted.rows_affected() == 0 { Err(StoreError::Exists { what: what(&group.name) }) } else { Ok(()) }
}

async fn update(connection: &mut AnyConnection, group: &Group) -> Result<()> {
    sqlx::query("UPDATE device_groups SET selector = $2, description = $3, revision = $4 WHERE name = $1")
        .bind(&group.name)
        .bind(&group.selector)
        .bind(&group.description)
        .bind(group.revision)
        .execute(connection)
        .await
        .during("change a group")?;
    Ok(())
}

impl Store {
    /// Creates (`expected` none) or updates (`expected` some) a group.
    pub async fn group_put(
        &self,
        actor: &Actor,
        name: &str,
        selector: &str,
        description: Option<&str>,
        expected: Option<i64>,
        now: Timestamp,
    ) -> Result<Group> {
        let mut transaction = self.begin().await?;
        let mut group = Group {
            name: name.to_owned(),
            selector: selector.to_owned(),
            description: description.map(str::to_owned),
            created_at: now,
            revision: 1,
        };
        let before = match expected {
            None => {
                create(&mut transaction, &group).await?;
                None
            }
            Some(_) => {
                let before = lock(&mut transaction, name).await?;
                let before = before.ok_or_else(|| StoreError::NotFound { what: what(name) })?;
                check_revision(&before, expected)?;
                group.created_at = before.created_at;
                group.revision = before.revision + 1;
                update(&mut transaction, &group).await?;
                Some(before)
            }
        };
        let entry = Entry {
            actor,
            action: if before.is_some() { "group.update" } else { "group.create" },
            subject: format!("group/{name}"),
            before: before.as_ref().map(state),
            after: Some(state(&group)),
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(group)
    }

    pub async fn group_get(&self, name: &str) -> Result<Option<Group>> {
        let row =
            sqlx::query("SELECT * FROM device_groups WHERE name = $1").bind(name).fetch_optional(&self.read).await;
        row.during("read a group")?.as_ref().map(read).transpose()
    }

    /// In order of name.
    pub async fn groups_page(&self, after: Option<&str>, limit: u32) -> Result<Vec<Group>> {
        let rows = sqlx::query("SELECT * FROM device_groups WHERE name > $1 ORDER BY name LIMIT $2")
            .bind(after.unwrap_or_default())
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list groups")?;
        rows.iter().map(read).collect()
    }

    /// False if there is no such group.
    pub async fn group_delete(&self, actor: &Actor, name: &str, expected: Option<i64>, now: Timestamp) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let Some(before) = lock(&mut transaction, name).await? else { return Ok(false) };
        check_revision(&before, expected)?;
        sqlx::query("DELETE FROM device_groups WHERE name = $1")
            .bind(name)
            .execute(&mut *transaction)
            .await
            .during("delete a group")?;
        let entry = Entry {
            actor,
            action: "group.delete",
            subject: format!("group/{name}"),
            before: Some(state(&before)),
            after: None,
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(true)
    }
}

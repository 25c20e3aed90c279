//! External registries with their credentials. Passwords are always sealed.

use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::commit;
use crate::rows::Columns;
use crate::seal::{Cell, Sealing};
use crate::{Result, Store, StoreError};
use margo::digest::Digest;
use margrave_core::model::Actor;
use margrave_core::registries::{CheckOutcome, RegistryCheck, SavedRegistry};
use margrave_core::time::Timestamp;
use serde_json::{Value, json};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;
use std::fmt;

/// A plant has a handful; all are shown on one page. Two concurrent additions on PostgreSQL may exceed it by one.
pub const REGISTRIES_MAX: usize = 100;

/// A registry to be saved.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryWrite {
    pub host: String,
    pub login: LoginWrite,
    pub ca: Option<String>,
    pub plain_http: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub enum LoginWrite {
    Anonymous,
    As {
        username: String,
        password: String,
    },
    /// Keeps the current user and password.
    Kept,
}

/// A registry with its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryAccess {
    pub registry: SavedRegistry,
    /// Present if there is a user.
    pub password: Option<String>,
}

impl fmt::Debug for RegistryWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryWrite").field("host", &self.host).finish_non_exhaustive()
    }
}

impl fmt::Debug for RegistryAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryAccess").field("registry", &self.registry).finish_non_exhaustive()
    }
}

fn password_cell<'a>(host: &'a &str) -> Cell<'a> {
    Cell::new("registries.password", host)
}

fn read(row: &AnyRow) -> Result<SavedRegistry> {
    let row = Columns::of("registries", row);
    let last_check = match row.time_maybe("checked_at")? {
        None => None,
        Some(at) => Some(RegistryCheck {
            at,
            outcome: row.named("outcome", CheckOutcome::parse)?,
            message: row.text_maybe("message")?.unwrap_or_default(),
        }),
    };
    Ok(SavedRegistry {
        host: row.text("host")?,
        username: row.text_maybe("username")?,
        ca: row.text_maybe("ca")?,
        plain_http: row.number("plain_http")? != 0,
        added_by: row.text("added_by")?,
        added_at: row.time("added_at")?,
        revision: row.number("revision")?,
        last_check,
    })
}

fn read_access(row: &AnyRow, sealing: &Sealing) -> Result<RegistryAccess> {
    let registry = read(row)?;
    let sealed = Columns::of("registries", row).text_maybe("password")?;
    let host = registry.host.as_str();
    let password = sealed.map(|text| sealing.open_text(password_cell(&host), text)).transpose()?;
    Ok(RegistryAccess { registry, password })
}

/// Locks the row for the rest of the transaction.
async fn lock(connection: &mut AnyConnection, host: &str) -> Result<Option<SavedRegistry>> {
    let row = sqlx::query("UPDATE registries SET revision = revision WHERE host = $1 RETURNING *")
        .bind(host)
        .fetch_optional(connection)
        .await
        .during("lock a registry")?;
    row.as_ref().map(read).transpose()
}

fn what(host: &str) -> String {
    format!("registry `{host}`")
}

fn subject(host: &str) -> String {
    format!("registry/{host}")
}

/// For the audit: of the password only that there is one, of a CA only which one.
fn state(registry: &SavedRegistry) -> Value {
    json!({
        "username": registry.username,
        "password": registry.username.is_some(),
        "ca": registry.ca.as_ref().map(|pem| Digest::of(pem.as_bytes()).to_string()),
        "plainHttp": registry.plain_http,
        "revision": registry.revision,
    })
}

fn check_revision(registry: &SavedRegistry, expected: Option<i64>) -> Result<()> {
    match expected {
        Some(expected) if expected != registry.revision => {
            Err(StoreError::Conflict { what: what(&registry.host), expected, current: registry.revision })
        }
        _ => Ok(()),
    }
}

async fn create(connection: &mut AnyConnection, registry: &SavedRegistry, password: Option<String>) -> Result<()> {
    let counted = sqlx::query("SELECT COUNT(*) AS found FROM registries WHERE host <> $1")
        .bind(&registry.host)
        .fetch_one(&mut *connection)
        .await
        .during("count registries")?;
    if Columns::of("registries", &counted).unsigned("found")? >= REGISTRIES_MAX as u64 {
        return Err(StoreError::TooMany { what: "registries", max: REGISTRIES_MAX });
    }
    let inserted = sqlx::query(
        "INSERT INTO registries (host, username, password, ca, plain_http, added_by, added_at, revision)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (host) DO NOTHING",
    )
    .bind(&registry.host)
    .bind(&registry.username)
    .bind(password)
    .bind(&registry.ca)
    .bind(i64::from(registry.plain_http))
    .bind(&registry.added_by)
    .bind(registry.added_at.0)
    .bind(registry.revision)
    .execute(connection)
    .await
    .during("add a registry")?;
    if inserted.rows_affected() == 0 { Err(StoreError::Exists { what: what(&registry.host) }) } else { Ok(()) }
}

/// Keeps the password if none is given.
async fn update(connection: &mut AnyConnection, registry: &SavedRegistry, password: Option<String>) -> Result<()> {
    sqlx::query(
        "UPDATE registries SET username = $2, ca = $4, plain_http = $5, revision = $6,
             password = CASE WHEN $2 IS NULL THEN NULL ELSE COALESCE($3, password) END,
             checked_at = NULL, outcome = NULL, message = NULL
         WHERE host = $1",
    )
    .bind(&registry.host)
    .bind(&registry.username)
    .bind(password)
    .bind(&registry.ca)
    .bind(i64::from(registry.plain_http))
    .bind(registry.revision)
    .execute(connection)
    .await
    .during("update a registry")?;
    Ok(())
}

impl Store {
    /// Adds (`expected` none) or updates (`expected` some) a registry.
    pub async fn registry_put(
        &self,
        actor: &Actor,
        write: &RegistryWrite,
        expected: Option<i64>,
        now: Timestamp,
    ) -> Result<SavedRegistry> {
        let host = write.host.as_str();
        let (username, password) = match &write.login {
            LoginWrite::Anonymous | LoginWrite::Kept => (None, None),
            LoginWrite::As { username, password } => {
                (Some(username.clone()), Some(self.sealing.text(password_cell(&host), password)?))
            }
        };
        let mut transaction = self.begin().await?;
        let mut registry = SavedRegistry {
            host: write.host.clone(),
            username,
            ca: write.ca.clone(),
            plain_http: write.plain_http,
            added_by: actor.name.clone(),
            added_at: now,
            revision: 1,
            last_check: None,
        };
        let news = password.is_some();
        let before = match expected {
            None => {
                create(&mut transaction, &registry, password).await?;
                None
            }
            Some(_) => {
                let before = lock(&mut transaction, host).await?;
                let before = before.ok_or_else(|| StoreError::NotFound { what: what(host) })?;
                check_revision(&before, expected)?;
                if write.login == LoginWrite::Kept {
                    registry.username.clone_from(&before.username);
                }
                registry.added_by.clone_from(&before.added_by);
                registry.added_at = before.added_at;
                registry.revision = before.revision + 1;
                update(&mut transaction, &registry, password).await?;
                Some(before)
            }
        };
        let mut after = state(&registry);
        after["passwordChanged"] = json!(news && before.is_some());
        let entry = Entry {
            actor,
            action: if before.is_some() { "registry.update" } else { "registry.add" },
            subject: subject(host),
            before: before.as_ref().map(state),
            after: Some(after),
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(registry)
    }

    /// In order of host; about [`REGISTRIES_MAX`] at most.
    pub async fn registries(&self) -> Result<Vec<SavedRegistry>> {
        let rows = sqlx::query("SELECT * FROM registries ORDER BY host").fetch_all(&self.read).await;
        rows.during("list registries")?.iter().map(read).collect()
    }

    pub async fn registry_get(&self, host: &str) -> Result<Option<SavedRegistry>> {
        let row = sqlx::query("SELECT * FROM registries WHERE host = $1").bind(host).fetch_optional(&self.read).await;
        row.during("read a registry")?.as_ref().map(read).transpose()
    }

    /// With the password, to connect to the registry.
    pub async fn registry_access(&self, host: &str) -> Result<Option<RegistryAccess>> {
        let row = sqlx::query("SELECT * FROM registries WHERE host = $1").bind(host).fetch_optional(&self.read).await;
        row.during("read a registry")?.map(|row| read_access(&row, &self.sealing)).transpose()
    }

    /// Stores the result of a check of this revision; false if the registry was changed or removed in the meantime.
    pub async fn registry_checked(
        &self,
        actor: &Actor,
        host: &str,
        revision: i64,
        check: &RegistryCheck,
    ) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let noted = sqlx::query(
            "UPDATE registries SET checked_at = $3, outcome = $4, message = $5 WHERE host = $1 AND revision = $2",
        )
        .bind(host)
        .bind(revision)
        .bind(check.at.0)
        .bind(check.outcome.as_str())
        .bind(&check.message)
        .execute(&mut *transaction)
        .await
        .during("store the check of a registry")?;
        if noted.rows_affected() == 0 {
            return Ok(false);
        }
        let after = Some(json!({ "state": check.outcome.as_str(), "message": check.message }));
        let entry = Entry { actor, action: "registry.check", subject: subject(host), before: None, after };
        audit::append(&mut transaction, vec![entry], check.at).await?;
        commit(transaction).await?;
        Ok(true)
    }

    /// False if there is no such registry.
    pub async fn registry_delete(
        &self,
        actor: &Actor,
        host: &str,
        expected: Option<i64>,
        now: Timestamp,
    ) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let Some(before) = lock(&mut transaction, host).await? else { return Ok(false) };
        check_revision(&before, expected)?;
        sqlx::query("DELETE FROM registries WHERE host = $1")
            .bind(host)
            .execute(&mut *transaction)
            .await
            .during("remove a registry")?;
        let entry = Entry {
            actor,
            action: "registry.remove",
            subject: subject(host),
            before: Some(state(&before)),
            after: None,
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(true)
    }

    /// How many versions in the catalog were imported from a registry.
    pub async fn versions_from(&self, host: &str) -> Result<u64> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS found FROM application_versions WHERE LOWER(SUBSTR(source, 1, LENGTH($1))) = $1",
        )
        .bind(format!("oci://{host}/"))
        .fetch_one(&self.read)
        .await
        .during("count the versions from a registry")?;
        Columns::of("application_versions", &row).unsigned("found")
    }
}

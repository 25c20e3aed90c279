//! Finds objects by what an operator types: the beginning of an id, or a name. Every statement reads a bounded part of
//! one index.

use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margrave_core::model::DeviceKey;
use margrave_core::names::IdRange;
use margrave_core::time::Timestamp;
use sqlx::any::AnyRow;
use uuid::Uuid;

/// Objects whose id is a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdKind {
    Deployment,
    Rollout,
    Token,
    Session,
}

/// An object with the name that helps to recognize it: the application of a deployment or a rollout, the name of a
/// token, the owner of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedId {
    pub id: Uuid,
    pub name: String,
}

macro_rules! in_range {
    ($name:literal, $table:literal) => {
        concat!("SELECT id, ", $name, " AS name FROM ", $table, " WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3")
    };
}

const DEPLOYMENTS: &str = in_range!("application", "deployments");
const ROLLOUTS: &str = in_range!("application", "rollouts");
const TOKENS: &str = in_range!("name", "tokens");

const DEVICES_NAMED: &str = "SELECT client_id, device_id FROM devices WHERE device_id = $1 ORDER BY client_id LIMIT $2";
const DEVICES_FROM: &str = "SELECT device_id AS name FROM devices WHERE device_id >= $1 ORDER BY device_id LIMIT $2";
const DEVICES_BEFORE: &str =
    "SELECT device_id AS name FROM devices WHERE device_id < $1 ORDER BY device_id DESC LIMIT $2";
const CLIENTS_FROM: &str = "SELECT id AS name FROM clients WHERE id >= $1 ORDER BY id LIMIT $2";
const CLIENTS_BEFORE: &str = "SELECT id AS name FROM clients WHERE id < $1 ORDER BY id DESC LIMIT $2";

impl Store {
    /// In order of id. Of sessions only those that are active now.
    pub async fn ids_in_range(&self, kind: IdKind, range: IdRange, now: Timestamp, limit: u32) -> Result<Vec<NamedId>> {
        let (table, statement) = match kind {
            IdKind::Deployment => ("deployments", DEPLOYMENTS),
            IdKind::Rollout => ("rollouts", ROLLOUTS),
            IdKind::Token => ("tokens", TOKENS),
            IdKind::Session => return self.sessions_in_range(range, now, limit).await,
        };
        let rows = sqlx::query(statement)
            .bind(range.first.to_string())
            .bind(range.last.to_string())
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("find objects by id")?;
        let read = |row: &AnyRow| {
            let row = Columns::of(table, row);
            Ok(NamedId { id: row.parsed("id")?, name: row.text("name")? })
        };
        rows.iter().map(read).collect()
    }

    /// The devices with this id, of any client, in order of client.
    pub async fn devices_named(&self, name: &str, limit: u32) -> Result<Vec<DeviceKey>> {
        let rows = sqlx::query(DEVICES_NAMED).bind(name.to_owned()).bind(i64::from(limit));
        let rows = rows.fetch_all(&self.read).await.during("find devices by name")?;
        let read = |row: &AnyRow| {
            let row = Columns::of("devices", row);
            Ok(DeviceKey { client: row.parsed("client_id")?, device: row.parsed("device_id")? })
        };
        rows.iter().map(read).collect()
    }

    /// Device ids beside this name in their order, at most `limit` on each side: all of a small fleet, and those that
    /// begin alike in a large one.
    pub async fn device_names_near(&self, name: &str, limit: u32) -> Result<Vec<String>> {
        self.names_near([DEVICES_BEFORE, DEVICES_FROM], name, limit).await
    }

    /// The same for client ids.
    pub async fn client_names_near(&self, name: &str, limit: u32) -> Result<Vec<String>> {
        self.names_near([CLIENTS_BEFORE, CLIENTS_FROM], name, limit).await
    }

    async fn names_near(&self, statements: [&'static str; 2], name: &str, limit: u32) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for statement in statements {
            let rows = sqlx::query(statement).bind(name.to_owned()).bind(i64::from(limit));
            for row in &rows.fetch_all(&self.read).await.during("find similar names")? {
                names.push(Columns::of("names", row).text("name")?);
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;
    use crate::sessions::SESSIONS_IN_RANGE;
    use sqlx::{AssertSqlSafe, Row as _};

    #[tokio::test]
    async fn every_lookup_reads_one_index() {
        let store = Store::open(&StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 }).await.unwrap();
        for statement in [
            DEPLOYMENTS,
            ROLLOUTS,
            TOKENS,
            SESSIONS_IN_RANGE,
            DEVICES_NAMED,
            DEVICES_FROM,
            DEVICES_BEFORE,
            CLIENTS_FROM,
            CLIENTS_BEFORE,
        ] {
            let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
            let rows = explain.fetch_all(&store.read).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
            assert!(plan.iter().all(|step| step.starts_with("SEARCH")), "{statement}: {plan:?}");
        }
    }
}

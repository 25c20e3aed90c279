//! The key of a database: its id is stored at the first start with a key, so that no server seals with another.

use super::{Seal, Sealing};
use crate::error::During;
use crate::open::commit;
use crate::rows::Columns;
use crate::{Result, Store, StoreError};
use margrave_core::time::Timestamp;
use sqlx::AnyConnection;
use std::sync::Arc;

/// Each finds one sealed value, if there is any. They scan every row, so they run only if a key is missing.
const ANY_SEALED: [&str; 6] = [
    "SELECT 1 AS found FROM blobs WHERE sealed_with IS NOT NULL LIMIT 1",
    "SELECT 1 AS found FROM deployments WHERE parameter_values LIKE 'sealed:%' LIMIT 1",
    "SELECT 1 AS found FROM deployment_revisions WHERE parameter_values LIKE 'sealed:%' LIMIT 1",
    "SELECT 1 AS found FROM rollouts WHERE parameter_values LIKE 'sealed:%' LIMIT 1",
    "SELECT 1 AS found FROM drafts WHERE body LIKE 'sealed:%' LIMIT 1",
    "SELECT 1 AS found FROM registries WHERE password IS NOT NULL LIMIT 1",
];

impl Store {
    /// The id of the key this database is sealed with; `None` before the first.
    pub async fn seal_key(&self) -> Result<Option<String>> {
        let mut connection = self.read.acquire().await.during(NOTED)?;
        noted(&mut connection).await
    }

    /// The same store, which seals and opens with this key. The id of the first key is stored in the database, any
    /// other key is rejected with `OtherKey`.
    pub async fn sealing_with(mut self, seal: Seal, now: Timestamp) -> Result<Self> {
        if self.seal_key().await?.as_deref() != Some(seal.id()) {
            let mut transaction = self.begin().await?;
            sqlx::query("INSERT INTO seal_key (id, key_id, noted_at) VALUES (1, $1, $2) ON CONFLICT (id) DO NOTHING")
                .bind(seal.id())
                .bind(now.0)
                .execute(&mut *transaction)
                .await
                .during("store the key id of this database")?;
            // On PostgreSQL another server may have been first.
            let noted = noted(&mut transaction).await?.unwrap_or_default();
            if noted != seal.id() {
                return Err(StoreError::OtherKey { noted, held: seal.id().to_owned() });
            }
            commit(transaction).await?;
        }
        self.sealing = Sealing(Some(Arc::new(seal)));
        Ok(self)
    }

    /// Whether anything is sealed.
    pub async fn has_sealed(&self) -> Result<bool> {
        let mut connection = self.read.acquire().await.during(LOOKED)?;
        any_sealed(&mut connection).await
    }

    /// Deletes the id of the key if nothing is sealed; returns whether it did. Never if other servers may be about
    /// to seal with it.
    pub async fn seal_key_forget(&self) -> Result<bool> {
        if self.is_shared() {
            return Ok(false);
        }
        let mut transaction = self.begin().await?;
        if any_sealed(&mut transaction).await? {
            return Ok(false);
        }
        sqlx::query("DELETE FROM seal_key")
            .execute(&mut *transaction)
            .await
            .during("delete the id of an unused key")?;
        commit(transaction).await?;
        Ok(true)
    }
}

const LOOKED: &str = "look for sealed values";

async fn any_sealed(connection: &mut AnyConnection) -> Result<bool> {
    for statement in ANY_SEALED {
        if sqlx::query(statement).fetch_optional(&mut *connection).await.during(LOOKED)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

const NOTED: &str = "read which key this database is sealed with";

async fn noted(connection: &mut AnyConnection) -> Result<Option<String>> {
    let row = sqlx::query("SELECT key_id FROM seal_key WHERE id = 1").fetch_optional(connection).await.during(NOTED)?;
    row.map(|row| Columns::of("seal_key", &row).text("key_id")).transpose()
}

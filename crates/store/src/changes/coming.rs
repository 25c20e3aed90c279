//! Changes under way, without their targets: what explains a deployment that has not moved yet.

use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margo::ids::{ApplicationId, DeploymentId};
use margrave_core::model::ChangeKind;
use margrave_core::time::Timestamp;
use uuid::Uuid;

/// A change that is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coming {
    pub id: Uuid,
    pub kind: ChangeKind,
    pub version: String,
    pub total: u64,
    pub done: u64,
    pub created_at: Timestamp,
}

impl Store {
    /// Unfinished changes of an application, oldest first; with `deployment` only those that name it.
    pub async fn changes_coming(
        &self,
        application: &ApplicationId,
        deployment: Option<DeploymentId>,
        limit: u32,
    ) -> Result<Vec<Coming>> {
        let named = deployment.map(|id| format!("%\"{id}\"%"));
        // Few changes are unfinished, so looking through the targets of each is bounded by what one change may have.
        let rows = sqlx::query(
            "SELECT c.id, c.kind, c.version, c.target_count, c.done, c.created_at FROM changes c
             WHERE c.finished_at IS NULL AND c.application = $1 AND ($2 IS NULL OR EXISTS
                 (SELECT 1 FROM change_targets t WHERE t.change_id = c.id AND t.targets LIKE $2))
             ORDER BY c.created_at, c.id LIMIT $3",
        )
        .bind(application.as_str())
        .bind(named)
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("look for changes under way")?;
        let read = |row| {
            let row = Columns::of("changes", row);
            Ok(Coming {
                id: row.parsed("id")?,
                kind: row.named("kind", ChangeKind::parse)?,
                version: row.text("version")?,
                total: row.unsigned("target_count")?,
                done: row.unsigned("done")?,
                created_at: row.time("created_at")?,
            })
        };
        rows.iter().map(read).collect()
    }

    pub async fn device_count(&self) -> Result<u64> {
        let row = sqlx::query("SELECT COUNT(*) AS devices FROM devices").fetch_one(&self.read).await;
        Columns::of("devices", &row.during("count devices")?).unsigned("devices")
    }
}

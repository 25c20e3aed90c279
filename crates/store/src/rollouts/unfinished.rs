//! Unfinished rollouts without their targets: they explain a deployment that has not changed yet.

use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margo::ids::{ApplicationId, DeploymentId};
use margrave_core::model::RolloutKind;
use margrave_core::time::Timestamp;
use uuid::Uuid;

/// An unfinished rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedRollout {
    pub id: Uuid,
    pub kind: RolloutKind,
    pub version: String,
    pub total: u64,
    pub done: u64,
    pub created_at: Timestamp,
}

impl Store {
    /// Unfinished rollouts of an application, oldest first; with `deployment` only those that target it.
    pub async fn unfinished_rollouts_of(
        &self,
        application: &ApplicationId,
        deployment: Option<DeploymentId>,
        limit: u32,
    ) -> Result<Vec<UnfinishedRollout>> {
        let named = deployment.map(|id| format!("%\"{id}\"%"));
        // Few rollouts are unfinished, so searching the targets of each is bounded by the size of one rollout.
        let rows = sqlx::query(
            "SELECT c.id, c.kind, c.version, c.target_count, c.done, c.created_at FROM rollouts c
             WHERE c.finished_at IS NULL AND c.application = $1 AND ($2 IS NULL OR EXISTS
                 (SELECT 1 FROM rollout_targets t WHERE t.rollout_id = c.id AND t.targets LIKE $2))
             ORDER BY c.created_at, c.id LIMIT $3",
        )
        .bind(application.as_str())
        .bind(named)
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("find unfinished rollouts")?;
        let read = |row| {
            let row = Columns::of("rollouts", row);
            Ok(UnfinishedRollout {
                id: row.parsed("id")?,
                kind: row.named("kind", RolloutKind::parse)?,
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

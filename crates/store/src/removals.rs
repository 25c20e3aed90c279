//! What is being removed and what was removed, the newest first: found through an index of their own, however large the fleet.

use crate::deployments::{
    BEHIND_ALL, DeploymentView, convergence_case, deployments_with_status, read_view, reported_columns,
};
use crate::error::During;
use crate::rows::Columns;
use crate::summary::read_count;
use crate::{Result, Store};
use margo::ids::{ApplicationId, DeploymentId};
use margrave_core::convergence::Convergence;
use margrave_core::time::Timestamp;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Which removals.
#[derive(Debug, Clone, Default)]
pub struct RemovalFilter {
    /// The device has said that it is gone; otherwise those that are still waited for.
    pub over: bool,
    pub application: Option<ApplicationId>,
    pub version: Option<String>,
}

/// Where a page of removals ended: when the last one was told, and which one it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalPlace(pub Timestamp, pub DeploymentId);

impl From<&DeploymentView> for RemovalPlace {
    fn from(view: &DeploymentView) -> Self {
        Self(view.deployment.updated_at, view.deployment.id)
    }
}

/// Behind `$1` and `$2`, newest first.
macro_rules! removed_behind {
    () => {
        " d.desired = 'absent' AND d.updated_at <= $1 AND (d.updated_at < $1 OR d.id > $2)"
    };
}

/// CROSS JOIN keeps SQLite from beginning with all statuses.
const PAGE: &str = concat!(
    "SELECT d.*, ",
    reported_columns!(),
    ", c.seen_at
     FROM deployments d CROSS JOIN statuses s LEFT JOIN client_seen c ON c.client_id = d.client_id WHERE",
    removed_behind!(),
    " AND d.updated_at >= $3 AND (d.updated_at > $3 OR d.id <= $4) AND s.deployment_id = d.id
      AND $5 = CASE WHEN s.state = 'removed' AND s.adopted_version <> 0 THEN 1
                    WHEN s.state IS NULL AND c.seen_at > d.updated_at THEN 1 ELSE 0 END
      AND ($6 = '' OR d.application = $6) AND ($7 = '' OR d.version = $7)
      ORDER BY d.updated_at DESC, d.id LIMIT $8"
);

/// The place so many removals further on.
const BEHIND: &str = concat!(
    "SELECT d.updated_at, d.id FROM deployments d WHERE",
    removed_behind!(),
    " ORDER BY d.updated_at DESC, d.id LIMIT 1 OFFSET $3"
);

impl Store {
    /// Newest first; at most `looked_at_max` are looked at. Also gives where to go on when there may be more.
    pub async fn removals_look(
        &self,
        filter: &RemovalFilter,
        after: Option<RemovalPlace>,
        limit: u32,
        looked_at_max: u32,
    ) -> Result<(Vec<DeploymentView>, Option<RemovalPlace>)> {
        let (at, id) = after.map_or((i64::MAX, String::new()), |RemovalPlace(at, id)| (at.0, id.to_string()));
        let last = sqlx::query(BEHIND)
            .bind(at)
            .bind(&id)
            .bind(i64::from(looked_at_max) - 1)
            .fetch_optional(&self.read)
            .await
            .during("find where to stop looking")?;
        let last = match &last {
            Some(row) => {
                let row = Columns::of("deployments", row);
                Some(RemovalPlace(row.time("updated_at")?, row.parsed("id")?))
            }
            None => None,
        };
        let (end, end_id) =
            last.map_or((i64::MIN, BEHIND_ALL.to_owned()), |RemovalPlace(at, id)| (at.0, id.to_string()));
        let rows = sqlx::query(PAGE)
            .bind(at)
            .bind(&id)
            .bind(end)
            .bind(end_id)
            .bind(i64::from(filter.over))
            .bind(filter.application.as_ref().map_or("", ApplicationId::as_str))
            .bind(filter.version.as_deref().unwrap_or_default())
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list removals")?;
        let found: Vec<DeploymentView> = rows.iter().map(|row| read_view(row, &self.sealing)).collect::<Result<_>>()?;
        let next = if found.len() < limit as usize { last } else { found.last().map(RemovalPlace::from) };
        Ok((found, next))
    }

    /// Everything that is to be gone, by how far that is.
    pub async fn removal_counts(&self, silent_since: Timestamp) -> Result<BTreeMap<Convergence, u64>> {
        let rows = sqlx::query(concat!(
            "SELECT convergence, COUNT(*) AS deployment_count FROM (SELECT ",
            convergence_case!(),
            " AS convergence FROM deployments d CROSS JOIN statuses s LEFT JOIN client_seen c ON c.client_id = d.client_id
              WHERE d.desired = 'absent' AND d.updated_at >= $2 AND s.deployment_id = d.id) counted GROUP BY convergence"
        ))
        .bind(silent_since.0)
        // So that the index by age leads to them.
        .bind(i64::MIN)
        .fetch_all(&self.read)
        .await
        .during("count removals")?;
        rows.iter().map(read_count).collect()
    }

    /// Changes that are not over: not told to everybody yet, or some device is still at it. Those a device joined last come first.
    pub async fn changes_under_way(&self, silent_since: Timestamp, limit: u32) -> Result<Vec<Uuid>> {
        let untold = sqlx::query("SELECT id FROM changes WHERE finished_at IS NULL ORDER BY created_at DESC LIMIT $1")
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list unfinished changes")?;
        let open = sqlx::query(concat!(
            "SELECT change_id AS id FROM (SELECT d.change_id, d.updated_at, ",
            convergence_case!(),
            " AS convergence FROM ",
            deployments_with_status!(),
            " JOIN clients k ON k.id = d.client_id WHERE k.state <> 'retired') counted
              WHERE convergence <> 'converged' AND convergence <> 'failed'
              GROUP BY change_id ORDER BY MAX(updated_at) DESC, change_id LIMIT $2"
        ))
        .bind(silent_since.0)
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("look for changes under way")?;
        let mut ids: Vec<Uuid> = Vec::new();
        for row in untold.iter().chain(&open) {
            let id = Columns::of("changes", row).parsed("id")?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids.truncate(limit as usize);
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::{BEHIND, PAGE};
    use crate::{Store, StoreOptions};
    use sqlx::{AssertSqlSafe, Row as _};

    #[tokio::test]
    async fn what_is_removed_is_found_without_reading_what_is_present() {
        let options = StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 };
        let store = Store::open(&options).await.unwrap();
        for statement in [PAGE, BEHIND] {
            let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
            let rows = explain.fetch_all(&store.read).await.unwrap();
            let first: String = rows[0].get("detail");
            assert!(first.contains("deployments_removed"), "{first}");
        }
    }
}

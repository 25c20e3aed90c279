//! Deployments that are being removed or were removed, newest first: found through an index of their own, whatever the
//! fleet size.

use crate::deployments::{
    BEHIND_ALL, DeploymentView, deployment_state_case, deployments_with_status, read_view, reported_columns,
};
use crate::error::During;
use crate::rows::Columns;
use crate::summary::read_count;
use crate::{Result, Store};
use margo::ids::{ApplicationId, DeploymentId};
use margrave_core::deployment_state::DeploymentState;
use margrave_core::time::Timestamp;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Which removals.
#[derive(Debug, Clone, Default)]
pub struct RemovalFilter {
    /// Removals that the device has confirmed; otherwise those still pending.
    pub over: bool,
    pub application: Option<ApplicationId>,
    pub version: Option<String>,
}

/// The end of a page of removals: time and id of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalPlace(pub Timestamp, pub DeploymentId);

impl From<&DeploymentView> for RemovalPlace {
    fn from(view: &DeploymentView) -> Self {
        Self(view.deployment.updated_at, view.deployment.id)
    }
}

/// After `$1` and `$2`, newest first.
macro_rules! removed_behind {
    () => {
        " d.desired = 'absent' AND d.updated_at <= $1 AND (d.updated_at < $1 OR d.id > $2)"
    };
}

/// CROSS JOIN keeps SQLite from starting with all statuses.
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

/// The position this many removals later.
const BEHIND: &str = concat!(
    "SELECT d.updated_at, d.id FROM deployments d WHERE",
    removed_behind!(),
    " ORDER BY d.updated_at DESC, d.id LIMIT 1 OFFSET $3"
);

impl Store {
    /// Newest first; reads at most `read_max`. Also returns where to continue if there may be more.
    pub async fn removals_search_bounded(
        &self,
        filter: &RemovalFilter,
        after: Option<RemovalPlace>,
        limit: u32,
        read_max: u32,
    ) -> Result<(Vec<DeploymentView>, Option<RemovalPlace>)> {
        let (at, id) = after.map_or((i64::MAX, String::new()), |RemovalPlace(at, id)| (at.0, id.to_string()));
        let last = sqlx::query(BEHIND)
            .bind(at)
            .bind(&id)
            .bind(i64::from(read_max) - 1)
            .fetch_optional(&self.read)
            .await
            .during("find the end of a page")?;
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

    /// All removals, by state.
    pub async fn removal_counts(&self, offline_before: Timestamp) -> Result<BTreeMap<DeploymentState, u64>> {
        let rows = sqlx::query(concat!(
            "SELECT deployment_state, COUNT(*) AS deployment_count FROM (SELECT ",
            deployment_state_case!(),
            " AS deployment_state FROM deployments d CROSS JOIN statuses s LEFT JOIN client_seen c ON c.client_id = d.client_id
              WHERE d.desired = 'absent' AND d.updated_at >= $2 AND s.deployment_id = d.id) counted GROUP BY deployment_state"
        ))
        .bind(offline_before.0)
        // So that the query uses the index by age.
        .bind(i64::MIN)
        .fetch_all(&self.read)
        .await
        .during("count removals")?;
        rows.iter().map(read_count).collect()
    }

    /// Unfinished rollouts: not published to all devices yet, or some device is still updating. Most recently joined
    /// first.
    pub async fn rollouts_in_progress(&self, offline_before: Timestamp, limit: u32) -> Result<Vec<Uuid>> {
        let untold = sqlx::query("SELECT id FROM rollouts WHERE finished_at IS NULL ORDER BY created_at DESC LIMIT $1")
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list unfinished rollouts")?;
        let open = sqlx::query(concat!(
            "SELECT rollout_id AS id FROM (SELECT d.rollout_id, d.updated_at, ",
            deployment_state_case!(),
            " AS deployment_state FROM ",
            deployments_with_status!(),
            " JOIN clients k ON k.id = d.client_id WHERE k.state <> 'decommissioned') counted
              WHERE deployment_state NOT IN ('up-to-date', 'removed', 'failed')
              GROUP BY rollout_id ORDER BY MAX(updated_at) DESC, rollout_id LIMIT $2"
        ))
        .bind(offline_before.0)
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("find rollouts in progress")?;
        let mut ids: Vec<Uuid> = Vec::new();
        for row in untold.iter().chain(&open) {
            let id = Columns::of("rollouts", row).parsed("id")?;
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
    async fn finds_removals_without_reading_present_deployments() {
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

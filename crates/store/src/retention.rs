//! Bounded history.

use crate::batched::StatementBatch;
use crate::blobs;
use crate::deployments::read_deployment;
use crate::error::During;
use crate::open::commit;
use crate::rollouts::{RolloutOutcomes, read_state_from_last_report};
use crate::rows::Columns;
use crate::{Result, Store};
use margrave_core::deployment_state::{DeploymentState, never_started};
use margrave_core::time::Timestamp;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;
use std::time::Duration;

/// Rows of one kind that are deleted in one transaction; the caller repeats while something was deleted.
pub const PRUNE_ROWS_MAX: i64 = 500;

/// Blobs younger than this are never collected: the transaction that stored them may not have committed the reference
/// yet.
const BLOB_AGE_MIN: Duration = Duration::from_hours(1);

/// How long an ended session stays visible.
const SESSION_KEPT: Duration = Duration::from_hours(24 * 7);
/// How long an abandoned draft is kept.
const DRAFT_KEPT: Duration = Duration::from_hours(24 * 7);

/// Deployments removed long enough ago, by age.
pub(crate) const SELECT_REMOVED: &str = "SELECT d.*, s.state, s.adopted_version, s.failed_version, c.seen_at
    FROM deployments d LEFT JOIN statuses s ON s.deployment_id = d.id LEFT JOIN client_seen c ON c.client_id = d.client_id
    WHERE d.desired = 'absent' AND d.updated_at <= $1 ORDER BY d.updated_at, d.id LIMIT $2";

/// How much history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub revisions_per_deployment: u32,
    pub statuses_per_deployment: u32,
    /// How long replaced YAMLs and bundles are kept, for clients that are still fetching them.
    pub replaced_artifacts: std::time::Duration,
    pub finished_rollouts: std::time::Duration,
    pub removed_deployments: std::time::Duration,
    pub idempotency_keys: std::time::Duration,
    /// How many of the newest events.
    pub events: u32,
}

impl Store {
    /// Deletes what exceeds its limit, a bounded number of rows at a time; returns how many. Never touches the audit.
    pub async fn prune(&self, retention: &Retention, now: Timestamp) -> Result<u64> {
        let mut gone = self.prune_revisions(i64::from(retention.revisions_per_deployment.max(1))).await?;
        gone += self.prune_statuses(i64::from(retention.statuses_per_deployment)).await?;
        gone += self.prune_artifacts(now.minus(retention.replaced_artifacts)).await?;
        gone += self.prune_deployments(now.minus(retention.removed_deployments)).await?;
        gone += self.prune_rollouts(now.minus(retention.finished_rollouts)).await?;
        gone += self.prune_enrollments(now.minus(retention.finished_rollouts)).await?;
        gone += self.prune_keys(now.minus(retention.idempotency_keys)).await?;
        gone += self.prune_events(i64::from(retention.events)).await?;
        gone += self.prune_sessions(now.minus(SESSION_KEPT)).await?;
        gone += self.prune_drafts(now.minus(DRAFT_KEPT)).await?;
        gone += self.prune_blobs(now.minus(BLOB_AGE_MIN)).await?;
        Ok(gone)
    }

    /// Searches outside of the deleting transaction, so that writers do not wait for a scan.
    async fn prune_revisions(&self, keep: i64) -> Result<u64> {
        // Never the newest, which keeps the document of its deployment.
        let keep = keep.max(1);
        let rows = sqlx::query(
            "SELECT r.deployment_id, r.revision FROM deployment_revisions r JOIN deployments d ON d.id = r.deployment_id
             WHERE r.revision <= d.revision - $1 LIMIT $2",
        )
        .bind(keep)
        .bind(PRUNE_ROWS_MAX)
        .fetch_all(&self.read)
        .await
        .during("find old revisions")?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        for row in &rows {
            let row = Columns::of("deployment_revisions", row);
            let removed = sqlx::query(
                "DELETE FROM deployment_revisions WHERE deployment_id = $1 AND revision = $2 RETURNING yaml_digest AS digest",
            )
            .bind(row.text("deployment_id")?)
            .bind(row.number("revision")?)
            .fetch_all(&mut *transaction)
            .await
            .during("remove old revisions")?;
            dereference(&mut transaction, &removed).await?;
        }
        commit(transaction).await?;
        Ok(rows.len() as u64)
    }

    async fn prune_statuses(&self, keep: i64) -> Result<u64> {
        let rows = sqlx::query(
            "SELECT h.deployment_id, h.seq FROM status_history h JOIN statuses s ON s.deployment_id = h.deployment_id
             WHERE h.seq <= s.reports - $1 LIMIT $2",
        )
        .bind(keep)
        .bind(PRUNE_ROWS_MAX)
        .fetch_all(&self.read)
        .await
        .during("find old status reports")?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        for row in &rows {
            let row = Columns::of("status_history", row);
            sqlx::query("DELETE FROM status_history WHERE deployment_id = $1 AND seq = $2")
                .bind(row.text("deployment_id")?)
                .bind(row.number("seq")?)
                .execute(&mut *transaction)
                .await
                .during("remove old status reports")?;
        }
        commit(transaction).await?;
        Ok(rows.len() as u64)
    }

    async fn prune_artifacts(&self, before: Timestamp) -> Result<u64> {
        let rows = sqlx::query(
            "SELECT client_id, kind, deployment_id, digest FROM artifacts WHERE replaced_at <= $1 ORDER BY replaced_at LIMIT $2",
        )
        .bind(before.0)
        .bind(PRUNE_ROWS_MAX)
        .fetch_all(&self.read)
        .await
        .during("find replaced artifacts")?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        let mut gone = 0;
        for row in &rows {
            let row = Columns::of("artifacts", row);
            // Checked again: it may have come back into use since.
            let removed = sqlx::query(
                "DELETE FROM artifacts WHERE client_id = $1 AND kind = $2 AND deployment_id = $3 AND digest = $4
                 AND replaced_at <= $5 RETURNING digest",
            )
            .bind(row.text("client_id")?)
            .bind(row.text("kind")?)
            .bind(row.text("deployment_id")?)
            .bind(row.text("digest")?)
            .bind(before.0)
            .fetch_all(&mut *transaction)
            .await
            .during("remove replaced artifacts")?;
            gone += removed.len() as u64;
            dereference(&mut transaction, &removed).await?;
        }
        commit(transaction).await?;
        Ok(gone)
    }

    async fn prune_deployments(&self, before: Timestamp) -> Result<u64> {
        let rows = sqlx::query(SELECT_REMOVED)
            .bind(before.0)
            .bind(PRUNE_ROWS_MAX)
            .fetch_all(&self.read)
            .await
            .during("find removed deployments")?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        let mut outcomes = RolloutOutcomes::default();
        for row in &rows {
            let row = Columns::of("deployments", row);
            let deployment = read_deployment(row, &self.sealing)?;
            let last_seen = row.number_maybe("seen_at")?.map(Timestamp);
            let outcome = match row.text_maybe("state")? {
                None if never_started(&deployment, false, last_seen) => DeploymentState::Removed,
                _ => read_state_from_last_report(row, &deployment)?,
            };
            outcomes.add(deployment.rollout, outcome);
            let id = deployment.id.to_string();
            for statement in [
                "DELETE FROM status_history WHERE deployment_id = $1 RETURNING '' AS digest",
                "DELETE FROM statuses WHERE deployment_id = $1 RETURNING '' AS digest",
                "DELETE FROM deployment_revisions WHERE deployment_id = $1 RETURNING yaml_digest AS digest",
                "DELETE FROM deployments WHERE id = $1 RETURNING yaml_digest AS digest",
            ] {
                let removed = sqlx::query(statement).bind(&id).fetch_all(&mut *transaction).await;
                dereference(&mut transaction, &removed.during("delete a removed deployment")?).await?;
            }
        }
        let mut statements = StatementBatch::new(&transaction);
        outcomes.add_to_batch(&mut statements);
        statements.write(&mut transaction, "store the outcomes of removed deployments").await?;
        commit(transaction).await?;
        Ok(rows.len() as u64)
    }

    async fn prune_rollouts(&self, before: Timestamp) -> Result<u64> {
        let rows = sqlx::query("SELECT id FROM rollouts WHERE finished_at <= $1 ORDER BY finished_at LIMIT $2")
            .bind(before.0)
            .bind(PRUNE_ROWS_MAX)
            .fetch_all(&self.read)
            .await
            .during("find finished rollouts")?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        for row in &rows {
            let id = Columns::of("rollouts", row).text("id")?;
            for statement in [
                "DELETE FROM rollout_skips WHERE rollout_id = $1",
                "DELETE FROM rollout_outcomes WHERE rollout_id = $1",
                "DELETE FROM rollout_targets WHERE rollout_id = $1",
                "DELETE FROM rollouts WHERE id = $1",
            ] {
                sqlx::query(statement)
                    .bind(&id)
                    .execute(&mut *transaction)
                    .await
                    .during("delete a finished rollout")?;
            }
        }
        commit(transaction).await?;
        Ok(rows.len() as u64)
    }

    async fn prune_enrollments(&self, before: Timestamp) -> Result<u64> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query("DELETE FROM enrollment_tokens WHERE expires_at <= $1")
            .bind(before.0)
            .execute(&mut *transaction)
            .await
            .during("remove expired enrollment tokens")?;
        commit(transaction).await?;
        Ok(removed.rows_affected())
    }

    /// Checks only blobs that lost a reference, so the cost does not grow with the number of blobs.
    async fn prune_blobs(&self, before: Timestamp) -> Result<u64> {
        let rows = sqlx::query(
            "SELECT c.digest FROM blob_candidates c LEFT JOIN blobs b ON b.digest = c.digest
             WHERE b.digest IS NULL OR b.stored_at <= $1 ORDER BY c.digest LIMIT $2",
        )
        .bind(before.0)
        .bind(PRUNE_ROWS_MAX)
        .fetch_all(&self.read)
        .await
        .during("find unreferenced blobs")?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        let mut gone = 0;
        for row in &rows {
            let digest = Columns::of("blob_candidates", row).text("digest")?;
            // `stored_at` is checked again: on PostgreSQL this waits for a transaction that stores the same bytes and
            // then sees its new time.
            let removed = sqlx::query(
                "DELETE FROM blobs WHERE digest = $1 AND stored_at <= $2
                 AND NOT EXISTS (SELECT 1 FROM artifacts WHERE digest = $1)
                 AND NOT EXISTS (SELECT 1 FROM deployment_revisions WHERE yaml_digest = $1)
                 AND NOT EXISTS (SELECT 1 FROM application_versions WHERE description_digest = $1)
                 AND NOT EXISTS (SELECT 1 FROM application_resources WHERE digest = $1)",
            )
            .bind(&digest)
            .bind(before.0)
            .execute(&mut *transaction)
            .await
            .during("delete an unreferenced blob")?;
            gone += removed.rows_affected();
            sqlx::query("DELETE FROM blob_candidates WHERE digest = $1")
                .bind(&digest)
                .execute(&mut *transaction)
                .await
                .during("clear a checked blob candidate")?;
        }
        commit(transaction).await?;
        Ok(gone)
    }
}

async fn dereference(connection: &mut AnyConnection, removed: &[AnyRow]) -> Result<()> {
    for row in removed {
        let digest = Columns::of("blobs", row).text("digest")?;
        if !digest.is_empty() {
            blobs::dereferenced(connection, &digest).await?;
        }
    }
    Ok(())
}

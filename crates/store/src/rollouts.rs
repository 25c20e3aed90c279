//! Rollouts: durable intents, carried out in batches. Each batch is one transaction: deployments, manifests, audit,
//! progress.

mod apply;
mod unfinished;
mod outcomes;
mod publish;
mod republish;
mod rows;

pub(crate) use outcomes::{RolloutOutcomes, read_state_from_last_report};
pub use republish::PublishAbove;
pub use unfinished::UnfinishedRollout;

use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::commit;
use crate::rows::{Columns, to_json};
use crate::seal::Cell;
use crate::sql::{Order, Sql, read_value};
use crate::{Result, Store, StoreError, events};
use margo::deployment::ApplicationDeployment;
use margo::ids::{ClientId, DeploymentId, DeviceTarget};
use margo::parameters::ParameterValues;
use margrave_core::events::{About, NewEvent};
use margrave_core::model::{Actor, Rollout, RolloutKind, RolloutProgress, RolloutTarget};
use margrave_core::policy::PolicyUpdate;
use margrave_core::skips::SkipReason;
use margrave_core::sort::{Column as _, RolloutColumn, Sort, SortValue};
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::any::AnyRow;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The most devices in one transaction, so that other writers do not wait long.
pub const BATCH_TARGETS_MAX: usize = 500;

/// What to do for one target of a rollout.
#[derive(Debug, Clone)]
pub struct BatchItem {
    pub target: RolloutTarget,
    pub write: BatchWrite,
}

#[derive(Debug, Clone)]
pub enum BatchWrite {
    /// Create or replace: the document to serve, with its values.
    Put {
        document: Box<ApplicationDeployment>,
        yaml: Vec<u8>,
        version: String,
        values: ParameterValues,
        /// Whether some of the values are marked sensitive: then they are sealed, and the document and bundle as well.
        sensitive: bool,
    },
    Remove,
    /// Nothing can be done; recorded with the reason.
    Skip(SkipReason),
}

/// A target as stored in the database.
#[derive(serde::Serialize, serde::Deserialize)]
struct TargetRow {
    deployment: DeploymentId,
    client: ClientId,
    target: DeviceTarget,
    profile: String,
    #[serde(rename = "expectedRevision", default, skip_serializing_if = "Option::is_none")]
    expected_revision: Option<i64>,
}

impl From<&RolloutTarget> for TargetRow {
    fn from(target: &RolloutTarget) -> Self {
        let RolloutTarget { deployment, client, target, profile, expected_revision } = target.clone();
        Self { deployment, client, target, profile, expected_revision }
    }
}

impl From<TargetRow> for RolloutTarget {
    fn from(row: TargetRow) -> Self {
        let TargetRow { deployment, client, target, profile, expected_revision } = row;
        Self { deployment, client, target, profile, expected_revision }
    }
}

fn read(row: &AnyRow) -> Result<RolloutProgress> {
    let row = Columns::of("rollouts", row);
    Ok(RolloutProgress {
        id: row.parsed("id")?,
        kind: row.named("kind", RolloutKind::parse)?,
        application: row.parsed("application")?,
        version: row.text("version")?,
        total: row.unsigned("target_count")? as usize,
        done: row.unsigned("done")? as usize,
        skipped: Vec::new(),
        past: BTreeMap::new(),
        actor: read_actor(row)?,
        created_at: row.time("created_at")?,
        finished_at: row.time_maybe("finished_at")?,
        rollback_to: row.number_maybe("rollback_to")?,
    })
}

/// The cell with the values of a rollout.
fn values_cell(id: &Uuid) -> Cell<'_> {
    Cell::new("rollouts.parameter_values", id)
}

fn read_actor(row: Columns<'_>) -> Result<Actor> {
    Ok(Actor {
        name: row.text("actor")?,
        comment: row.text_maybe("comment")?,
        request_id: row.text_maybe("request_id")?,
    })
}

impl Store {
    /// Records the intent (one row, whatever the number of targets) with its audit entry.
    pub async fn rollout_create(&self, rollout: &Rollout) -> Result<()> {
        let values = if rollout.sensitive {
            self.sealing.text(values_cell(&rollout.id), &to_json(&rollout.values))?
        } else {
            to_json(&rollout.values)
        };
        let mut transaction = self.begin().await?;
        // A rollout without targets is finished from the start.
        let finished_at = if rollout.targets.is_empty() { Some(rollout.created_at.0) } else { None };
        let inserted = sqlx::query(
            "INSERT INTO rollouts (id, kind, application, version, parameter_values, policy, target_count, done, actor, comment, request_id,
                                  created_at, finished_at, rollback_to)
             VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10, $11, $12, $13) ON CONFLICT (id) DO NOTHING",
        )
        .bind(rollout.id.to_string())
        .bind(rollout.kind.as_str())
        .bind(rollout.application.as_str())
        .bind(&rollout.version)
        .bind(values)
        .bind(rollout.policy.to_text())
        .bind(rollout.targets.len() as i64)
        .bind(&rollout.actor.name)
        .bind(&rollout.actor.comment)
        .bind(&rollout.actor.request_id)
        .bind(rollout.created_at.0)
        .bind(finished_at)
        .bind(rollout.rollback_to)
        .execute(&mut *transaction)
        .await
        .during("record a rollout")?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::Exists { what: format!("rollout `{}`", rollout.id) });
        }
        let targets: Vec<TargetRow> = rollout.targets.iter().map(TargetRow::from).collect();
        sqlx::query("INSERT INTO rollout_targets (rollout_id, targets) VALUES ($1, $2)")
            .bind(rollout.id.to_string())
            .bind(to_json(&targets))
            .execute(&mut *transaction)
            .await
            .during("record the targets of a rollout")?;
        audit::append(&mut transaction, vec![creation(rollout)], rollout.created_at).await?;
        if rollout.targets.is_empty() {
            let finished = finished(rollout.id, rollout.application.as_str(), &rollout.actor, 0, 0);
            events::append(&mut transaction, vec![finished], rollout.created_at).await?;
        }
        commit(transaction).await
    }

    pub async fn rollout_get(&self, id: Uuid) -> Result<Option<RolloutProgress>> {
        let row = sqlx::query("SELECT * FROM rollouts WHERE id = $1").bind(id.to_string()).fetch_optional(&self.read);
        match row.await.during("read a rollout")? {
            Some(row) => Ok(Some(self.with_outcome(&row).await?)),
            None => Ok(None),
        }
    }

    /// Newest first; `before` is the (created_at, id) of the last one seen.
    pub async fn rollouts_page(&self, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<RolloutProgress>> {
        let (at, id) = before.map_or((i64::MAX, String::new()), |(at, id)| (at.0, id.to_string()));
        let rows = sqlx::query(
            "SELECT * FROM rollouts WHERE (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3",
        )
        .bind(at)
        .bind(id)
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("list rollouts")?;
        let mut rollouts = Vec::with_capacity(rows.len());
        for row in &rows {
            rollouts.push(self.with_outcome(row).await?);
        }
        Ok(rollouts)
    }

    /// One page in the order of a column, each with its value, after a value and an id.
    pub async fn rollouts_sorted(
        &self,
        sort: Sort<RolloutColumn>,
        after: Option<&(SortValue, Uuid)>,
        limit: u32,
    ) -> Result<Vec<(SortValue, RolloutProgress)>> {
        let mut sql = Sql::default();
        let value = match sort.column {
            RolloutColumn::Application => "application",
            RolloutColumn::Started => "created_at",
        };
        let order = Order { value, key: &["id"], descending: sort.descending };
        if let Some((value, id)) = after {
            let after = order.after(&mut sql, value, &[&id.to_string()]);
            sql.and(after);
        }
        let (conditions, limit) = (sql.conditions(), sql.number(i64::from(limit)));
        let text = format!(
            "SELECT *, {value} AS sort_value FROM rollouts WHERE {conditions} ORDER BY {} LIMIT {limit}",
            order.terms()
        );
        let rows = sql.query(text).fetch_all(&self.read).await.during("sort rollouts")?;
        let mut rollouts = Vec::with_capacity(rows.len());
        for row in &rows {
            let value = read_value(Columns::of("rollouts", row), sort.column.values())?;
            rollouts.push((value, self.with_outcome(row).await?));
        }
        Ok(rollouts)
    }

    /// The oldest unfinished rollouts, with their targets, to be carried out.
    pub async fn rollouts_unfinished(&self, limit: u32) -> Result<Vec<Rollout>> {
        let rows = sqlx::query("SELECT * FROM rollouts WHERE finished_at IS NULL ORDER BY created_at, id LIMIT $1")
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list unfinished rollouts")?;
        let mut rollouts = Vec::with_capacity(rows.len());
        for row in &rows {
            let progress = self.with_outcome(row).await?;
            let targets = self.rollout_targets(progress.id).await?;
            let RolloutProgress { id, kind, application, version, done, skipped, actor, .. } = progress;
            let (created_at, finished_at, rollback_to) =
                (progress.created_at, progress.finished_at, progress.rollback_to);
            let (values, sensitive) =
                Columns::of("rollouts", row).json_sealed("parameter_values", values_cell(&id), &self.sealing)?;
            let policy = Columns::of("rollouts", row).named("policy", PolicyUpdate::parse)?;
            rollouts.push(Rollout {
                id,
                kind,
                application,
                version,
                values,
                sensitive,
                policy,
                targets,
                done,
                skipped,
                actor,
                created_at,
                finished_at,
                rollback_to,
            });
        }
        Ok(rollouts)
    }

    /// Cancels a rollout for its remaining targets and returns how many those are; 0 if it was already finished.
    pub async fn rollout_cancel(&self, actor: &Actor, id: Uuid, now: Timestamp) -> Result<u64> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE rollouts SET finished_at = $2 WHERE id = $1 AND finished_at IS NULL
             RETURNING target_count, done, application",
        )
        .bind(id.to_string())
        .bind(now.0)
        .fetch_optional(&mut *transaction)
        .await
        .during("cancel a rollout")?;
        let Some(row) = row else { return Ok(0) };
        let row = Columns::of("rollouts", &row);
        let (total, done) = (row.unsigned("target_count")?, row.unsigned("done")?);
        let left = total.saturating_sub(done);
        let after = json!({ "kind": "cancel", "application": row.text("application")?, "targets": left });
        let subject = format!("rollout/{id}");
        let entry = Entry { actor, action: "rollout.cancel", subject, before: None, after: Some(after) };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(left)
    }

    /// The values that a rollout sets, as requested, and whether some of them are sensitive.
    pub async fn rollout_values(&self, id: Uuid) -> Result<Option<(ParameterValues, bool)>> {
        let row = sqlx::query("SELECT parameter_values FROM rollouts WHERE id = $1").bind(id.to_string());
        let row = row.fetch_optional(&self.read).await.during("read the values of a rollout")?;
        let Some(row) = row else { return Ok(None) };
        Columns::of("rollouts", &row).json_sealed("parameter_values", values_cell(&id), &self.sealing).map(Some)
    }

    /// The targets of a rollout, in the order they are processed.
    pub async fn rollout_targets(&self, id: Uuid) -> Result<Vec<RolloutTarget>> {
        let row = sqlx::query("SELECT targets FROM rollout_targets WHERE rollout_id = $1").bind(id.to_string());
        let row = row.fetch_optional(&self.read).await.during("read the targets of a rollout")?;
        let Some(row) = row else { return Ok(Vec::new()) };
        let json = Columns::of("rollout_targets", &row).text("targets")?;
        // On a blocking thread: parsing a whole fleet takes long enough to delay other tasks.
        let read = tokio::task::spawn_blocking(move || serde_json::from_str::<Vec<TargetRow>>(&json));
        let problem = match read.await {
            Ok(Ok(rows)) => return Ok(rows.into_iter().map(RolloutTarget::from).collect()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(StoreError::Inconsistent { table: "rollout_targets", problem: format!("rollout `{id}`: {problem}") })
    }

    async fn with_outcome(&self, row: &AnyRow) -> Result<RolloutProgress> {
        let mut rollout = read(row)?;
        let skipped =
            sqlx::query("SELECT deployment_id, kind, data FROM rollout_skips WHERE rollout_id = $1 ORDER BY position")
                .bind(rollout.id.to_string())
                .fetch_all(&self.read)
                .await
                .during("read the skipped targets of a rollout")?;
        for row in &skipped {
            let row = Columns::of("rollout_skips", row);
            let reason = SkipReason::from_parts(row.text("kind")?, row.json("data")?);
            rollout.skipped.push((row.parsed("deployment_id")?, reason));
        }
        rollout.past = self.rollout_past_outcomes(rollout.id).await?;
        Ok(rollout)
    }
}

/// The event for the last batch; the devices may still be updating.
fn finished(id: Uuid, application: &str, actor: &Actor, published: u64, skipped: u64) -> NewEvent {
    let (rollout, application) = (Some(id.to_string()), Some(application.to_owned()));
    let about = About { rollout, application, ..About::default() };
    let detail = json!({ "published": published, "skipped": skipped });
    NewEvent::new("rollout.finished", about).by(actor.name.clone()).with(detail)
}

/// Names of parameters are enough here: values may be secrets (PRM-09), and each deployment's digest shows their
/// effect.
fn creation(rollout: &Rollout) -> Entry<'_> {
    Entry {
        actor: &rollout.actor,
        action: "rollout.create",
        subject: format!("rollout/{}", rollout.id),
        before: None,
        after: Some(json!({
            "kind": rollout.kind.as_str(),
            "application": rollout.application,
            "version": rollout.version,
            "policy": rollout.policy.to_text(),
            "parameters": rollout.values.keys().collect::<Vec<_>>(),
            "targets": rollout.targets.len(),
        })),
    }
}

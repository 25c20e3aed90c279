//! Changes: durable intents, carried out in batches. Each batch is one transaction: deployments, manifests, audit, progress.

mod apply;
mod coming;
mod outcomes;
mod publish;
mod raise;
mod rows;

pub use coming::Coming;
pub(crate) use outcomes::{Outcomes, read_last_word};

use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::commit;
use crate::rows::{Columns, to_json};
use crate::seal::Cell;
use crate::{Result, Store, StoreError, events};
use margo::deployment::ApplicationDeployment;
use margo::ids::{ClientId, DeploymentId, DeviceTarget};
use margo::parameters::Answers;
use margrave_core::events::{About, NewEvent};
use margrave_core::model::{Actor, Change, ChangeKind, ChangeProgress, ChangeTarget};
use margrave_core::policy::Wish;
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::any::AnyRow;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The most devices one transaction may touch, so that others are not kept waiting.
pub const BATCH_TARGETS_MAX: usize = 500;

/// What to do for one target of a change.
#[derive(Debug, Clone)]
pub struct BatchItem {
    pub target: ChangeTarget,
    pub write: BatchWrite,
}

#[derive(Debug, Clone)]
pub enum BatchWrite {
    /// Create or replace: the document to serve, with its values.
    Put {
        document: Box<ApplicationDeployment>,
        yaml: Vec<u8>,
        version: String,
        values: Answers,
        /// Whether some of the values are marked sensitive: they are sealed, and with them document and bundle.
        sensitive: bool,
    },
    Remove,
    /// Nothing can be done; recorded with the reason.
    Skip {
        reason: String,
    },
}

/// A target as it stands in the database.
#[derive(serde::Serialize, serde::Deserialize)]
struct TargetRow {
    deployment: DeploymentId,
    client: ClientId,
    target: DeviceTarget,
    profile: String,
    #[serde(rename = "expectedRevision", default, skip_serializing_if = "Option::is_none")]
    expected_revision: Option<i64>,
}

impl From<&ChangeTarget> for TargetRow {
    fn from(target: &ChangeTarget) -> Self {
        let ChangeTarget { deployment, client, target, profile, expected_revision } = target.clone();
        Self { deployment, client, target, profile, expected_revision }
    }
}

impl From<TargetRow> for ChangeTarget {
    fn from(row: TargetRow) -> Self {
        let TargetRow { deployment, client, target, profile, expected_revision } = row;
        Self { deployment, client, target, profile, expected_revision }
    }
}

fn read(row: &AnyRow) -> Result<ChangeProgress> {
    let row = Columns::of("changes", row);
    Ok(ChangeProgress {
        id: row.parsed("id")?,
        kind: row.named("kind", ChangeKind::parse)?,
        application: row.parsed("application")?,
        version: row.text("version")?,
        total: row.unsigned("target_count")? as usize,
        done: row.unsigned("done")? as usize,
        skipped: Vec::new(),
        past: BTreeMap::new(),
        actor: read_actor(row)?,
        created_at: row.time("created_at")?,
        finished_at: row.time_maybe("finished_at")?,
    })
}

/// Where the answers of a change stand.
fn answers_cell(id: &Uuid) -> Cell<'_> {
    Cell::new("changes.answers", id)
}

fn read_actor(row: Columns<'_>) -> Result<Actor> {
    Ok(Actor { name: row.text("actor")?, reason: row.text_maybe("reason")?, request_id: row.text_maybe("request_id")? })
}

impl Store {
    /// Records the intent (one row, whatever the number of targets) with its audit entry.
    pub async fn change_create(&self, change: &Change) -> Result<()> {
        let answers = if change.sensitive {
            self.sealing.text(answers_cell(&change.id), &to_json(&change.answers))?
        } else {
            to_json(&change.answers)
        };
        let mut transaction = self.begin().await?;
        // A change without targets is finished before it begins.
        let finished_at = if change.targets.is_empty() { Some(change.created_at.0) } else { None };
        let inserted = sqlx::query(
            "INSERT INTO changes (id, kind, application, version, answers, policy, target_count, done, actor, reason, request_id,
                                  created_at, finished_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10, $11, $12) ON CONFLICT (id) DO NOTHING",
        )
        .bind(change.id.to_string())
        .bind(change.kind.as_str())
        .bind(change.application.as_str())
        .bind(&change.version)
        .bind(answers)
        .bind(change.policy.to_text())
        .bind(change.targets.len() as i64)
        .bind(&change.actor.name)
        .bind(&change.actor.reason)
        .bind(&change.actor.request_id)
        .bind(change.created_at.0)
        .bind(finished_at)
        .execute(&mut *transaction)
        .await
        .during("record a change")?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::Exists { what: format!("change `{}`", change.id) });
        }
        let targets: Vec<TargetRow> = change.targets.iter().map(TargetRow::from).collect();
        sqlx::query("INSERT INTO change_targets (change_id, targets) VALUES ($1, $2)")
            .bind(change.id.to_string())
            .bind(to_json(&targets))
            .execute(&mut *transaction)
            .await
            .during("record the targets of a change")?;
        audit::append(&mut transaction, vec![creation(change)], change.created_at).await?;
        if change.targets.is_empty() {
            let finished = finished(change.id, change.application.as_str(), &change.actor, 0, 0);
            events::append(&mut transaction, vec![finished], change.created_at).await?;
        }
        commit(transaction).await
    }

    pub async fn change_get(&self, id: Uuid) -> Result<Option<ChangeProgress>> {
        let row = sqlx::query("SELECT * FROM changes WHERE id = $1").bind(id.to_string()).fetch_optional(&self.read);
        match row.await.during("read a change")? {
            Some(row) => Ok(Some(self.with_outcome(&row).await?)),
            None => Ok(None),
        }
    }

    /// Newest first; `before` is the (created_at, id) of the last one seen.
    pub async fn changes_page(&self, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<ChangeProgress>> {
        let (at, id) = before.map_or((i64::MAX, String::new()), |(at, id)| (at.0, id.to_string()));
        let rows = sqlx::query(
            "SELECT * FROM changes WHERE (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3",
        )
        .bind(at)
        .bind(id)
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("list changes")?;
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            changes.push(self.with_outcome(row).await?);
        }
        Ok(changes)
    }

    /// The oldest changes not finished yet, with their targets, for carrying them out.
    pub async fn changes_unfinished(&self, limit: u32) -> Result<Vec<Change>> {
        let rows = sqlx::query("SELECT * FROM changes WHERE finished_at IS NULL ORDER BY created_at, id LIMIT $1")
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list unfinished changes")?;
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            let progress = self.with_outcome(row).await?;
            let targets = self.change_targets(progress.id).await?;
            let ChangeProgress { id, kind, application, version, done, skipped, actor, .. } = progress;
            let (created_at, finished_at) = (progress.created_at, progress.finished_at);
            let (answers, sensitive) =
                Columns::of("changes", row).json_sealed("answers", answers_cell(&id), &self.sealing)?;
            let policy = Columns::of("changes", row).named("policy", Wish::parse)?;
            changes.push(Change {
                id,
                kind,
                application,
                version,
                answers,
                sensitive,
                policy,
                targets,
                done,
                skipped,
                actor,
                created_at,
                finished_at,
            });
        }
        Ok(changes)
    }

    /// Ends a change before its remaining targets are told; gives how many those are, 0 when it was over already.
    pub async fn change_cancel(&self, actor: &Actor, id: Uuid, now: Timestamp) -> Result<u64> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE changes SET finished_at = $2 WHERE id = $1 AND finished_at IS NULL
             RETURNING target_count, done, application",
        )
        .bind(id.to_string())
        .bind(now.0)
        .fetch_optional(&mut *transaction)
        .await
        .during("cancel a change")?;
        let Some(row) = row else { return Ok(0) };
        let row = Columns::of("changes", &row);
        let (total, done) = (row.unsigned("target_count")?, row.unsigned("done")?);
        let left = total.saturating_sub(done);
        let after = json!({ "kind": "cancel", "application": row.text("application")?, "targets": left });
        let subject = format!("change/{id}");
        let entry = Entry { actor, action: "change.cancel", subject, before: None, after: Some(after) };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(left)
    }

    /// The answers a change gives, as they were asked for, and whether something sensitive is among them.
    pub async fn change_answers(&self, id: Uuid) -> Result<Option<(Answers, bool)>> {
        let row = sqlx::query("SELECT answers FROM changes WHERE id = $1").bind(id.to_string());
        let row = row.fetch_optional(&self.read).await.during("read the answers of a change")?;
        let Some(row) = row else { return Ok(None) };
        Columns::of("changes", &row).json_sealed("answers", answers_cell(&id), &self.sealing).map(Some)
    }

    /// What a change reaches, in the order it is carried out.
    pub async fn change_targets(&self, id: Uuid) -> Result<Vec<ChangeTarget>> {
        let row = sqlx::query("SELECT targets FROM change_targets WHERE change_id = $1").bind(id.to_string());
        let row = row.fetch_optional(&self.read).await.during("read the targets of a change")?;
        let Some(row) = row else { return Ok(Vec::new()) };
        let json = Columns::of("change_targets", &row).text("targets")?;
        // Aside: a whole fleet takes long enough to keep others waiting.
        let read = tokio::task::spawn_blocking(move || serde_json::from_str::<Vec<TargetRow>>(&json));
        let problem = match read.await {
            Ok(Ok(rows)) => return Ok(rows.into_iter().map(ChangeTarget::from).collect()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(StoreError::Inconsistent { table: "change_targets", problem: format!("change `{id}`: {problem}") })
    }

    async fn with_outcome(&self, row: &AnyRow) -> Result<ChangeProgress> {
        let mut change = read(row)?;
        let skipped =
            sqlx::query("SELECT deployment_id, reason FROM change_skips WHERE change_id = $1 ORDER BY position")
                .bind(change.id.to_string())
                .fetch_all(&self.read)
                .await
                .during("read what a change skipped")?;
        for row in &skipped {
            let row = Columns::of("change_skips", row);
            change.skipped.push((row.parsed("deployment_id")?, row.text("reason")?));
        }
        change.past = self.change_past(change.id).await?;
        Ok(change)
    }
}

/// Told when the last batch is written; how the devices do is another matter.
fn finished(id: Uuid, application: &str, actor: &Actor, published: u64, skipped: u64) -> NewEvent {
    let (change, application) = (Some(id.to_string()), Some(application.to_owned()));
    let about = About { change, application, ..About::default() };
    let devices = if published == 1 { "1 device".to_owned() } else { format!("{published} devices") };
    let without = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
    let message = format!("change `{id}` is published: {devices}{without}");
    let detail = json!({ "published": published, "skipped": skipped });
    NewEvent::new("change.finished", about, message).by(actor.name.clone()).with(detail)
}

/// Names of parameters are enough here: values may be secrets (PRM-09), and each deployment's digest tells what became of them.
fn creation(change: &Change) -> Entry<'_> {
    Entry {
        actor: &change.actor,
        action: "change.create",
        subject: format!("change/{}", change.id),
        before: None,
        after: Some(json!({
            "kind": change.kind.as_str(),
            "application": change.application,
            "version": change.version,
            "policy": change.policy.to_text(),
            "parameters": change.answers.keys().collect::<Vec<_>>(),
            "targets": change.targets.len(),
        })),
    }
}

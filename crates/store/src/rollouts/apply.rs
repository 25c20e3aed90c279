//! One batch: decides per target, publishes per client, records everything, in one transaction.
//!
//! All transactions lock in the same order: the rollout, the manifests of its clients by id, the heads of the
//! audit chain and of the events.

use super::publish::{Named, Published, Publishing, load, publish};
use super::rows::Rows;
use super::{BATCH_TARGETS_MAX, BatchItem, BatchWrite, RolloutOutcomes, finished, read_actor};
use crate::audit::{self, Entry};
use crate::batched::StatementBatch;
use crate::clients::Head;
use crate::error::During;
use crate::open::{WriteTransaction, commit};
use crate::rows::{Columns, to_json};
use crate::{Result, Store, StoreError, events};
use margo::digest::Digest;
use margo::ids::{ClientId, DeploymentId};
use margrave_core::events::NewEvent;
use margrave_core::model::{Actor, Deployment, Desired, RolloutKind};
use margrave_core::policy::Policy;
use margrave_core::publish::PublishError;
use margrave_core::skips::{PublishProblem, SkipReason};
use margrave_core::time::Timestamp;
use serde_json::{Value, json};
use sqlx::AnyConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The rollout of a batch, its row locked.
pub(super) struct Running {
    pub(super) id: Uuid,
    pub(super) kind: RolloutKind,
    pub(super) actor: Actor,
    pub(super) now: Timestamp,
    done: usize,
    target_count: usize,
    application: String,
    finished: bool,
    pub(super) rollback_to: Option<i64>,
}

/// One deployment as it will be after the batch. Publishing fills in its versions.
pub(super) struct Write {
    pub(super) before: Option<Deployment>,
    pub(super) after: Deployment,
    /// The bytes to serve; `None` for a removal.
    pub(super) yaml: Option<Vec<u8>>,
    /// The manifest it is published with; also filled in by publishing.
    pub(super) manifest_version: u64,
}

impl Write {
    /// Whether the device is to retry the same content under another revision (ADR 41).
    pub(super) fn is_retry_of(&self) -> bool {
        let after = &self.after;
        self.before.as_ref().is_some_and(|before| {
            let again = Policy { attempt: after.policy.attempt, ..before.policy };
            before.policy.attempt != after.policy.attempt
                && (before.desired, &before.version, &before.profile, &before.values, again)
                    == (after.desired, &after.version, &after.profile, &after.values, after.policy)
        })
    }
}

impl Store {
    /// Carries out `items` (the targets from `change.done` on) in one transaction and advances `done`; finishes the
    /// rollout with its last batch. Does nothing and returns no heads if `done` is not what the caller expects.
    /// Skips targets whose deployment is no longer at the expected revision, with the reason.
    pub async fn rollout_apply(
        &self,
        rollout: Uuid,
        done: usize,
        items: &[BatchItem],
        now: Timestamp,
    ) -> Result<Vec<Head>> {
        apply(self.begin().await?, rollout, done, items, now).await
    }

    /// The same without waiting for the disk. The heads must not be served before [`Store::settle`]. Also returns how
    /// long other writers had to wait.
    pub async fn rollout_apply_soon(
        &self,
        rollout: Uuid,
        done: usize,
        items: &[BatchItem],
        now: Timestamp,
    ) -> Result<(Vec<Head>, Duration)> {
        let transaction = self.begin_soon().await?;
        let started = Instant::now();
        let heads = apply(transaction, rollout, done, items, now).await?;
        Ok((heads, started.elapsed()))
    }
}

async fn apply(
    mut transaction: WriteTransaction,
    rollout: Uuid,
    done: usize,
    items: &[BatchItem],
    now: Timestamp,
) -> Result<Vec<Head>> {
    if items.len() > BATCH_TARGETS_MAX {
        return Err(StoreError::Misuse(format!("{} targets in one batch, {BATCH_TARGETS_MAX} at most", items.len())));
    }
    let running = take(&mut transaction, rollout, now).await?;
    if running.finished || running.done != done || items.is_empty() {
        return Ok(Vec::new());
    }
    if done + items.len() > running.target_count {
        return Err(StoreError::Misuse(format!("the batch exceeds the {} targets", running.target_count)));
    }
    let mut skipped: Vec<(usize, SkipReason)> = Vec::new();
    let mut by_client: BTreeMap<&ClientId, Vec<(usize, &BatchItem)>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        match &item.write {
            BatchWrite::Skip(reason) => skipped.push((index, reason.clone())),
            _ => by_client.entry(&item.target.client).or_default().push((index, item)),
        }
    }
    let clients: Vec<&ClientId> = by_client.keys().copied().collect();
    let mut publishings = Publishing::begin(&mut transaction, &clients).await?;
    let exists = |client: &ClientId| publishings.binary_search_by(|one| one.client().cmp(client)).is_ok();
    for (client, items) in by_client.iter().filter(|(client, _)| !exists(client)) {
        let reason = SkipReason::ClientNotFound { client: client.to_string() };
        skipped.extend(items.iter().map(|(index, _)| (*index, reason.clone())));
    }
    let named = load(&mut transaction, &mut publishings, items).await?;
    let mut written = BTreeSet::new();
    for publishing in &mut publishings {
        let items = &by_client[publishing.client()];
        for (index, item) in items {
            match decide(&running, publishing, item, &written, &named) {
                Ok(()) => {
                    written.insert(item.target.deployment);
                }
                Err(reason) => skipped.push((*index, reason)),
            }
        }
    }
    let Published { writes, heads, artifacts, manifests, failed } = publish(&running, publishings);
    skip_failed(&failed, &by_client, &mut skipped);
    let records = writes.iter().map(|write| record(&running, write)).collect();
    skipped.sort_unstable_by_key(|(index, _)| *index);
    write_skipped(&mut transaction, &running, items, &skipped).await?;
    let mut statements = StatementBatch::new(&transaction);
    let rows = Rows { running: &running, writes: &writes, artifacts: &artifacts, manifests: &manifests };
    rows.add_to_batch(&mut statements, &transaction.sealing())?;
    outcome_when_taken_over(&writes, &named).add_to_batch(&mut statements);
    let last = advance(&mut transaction, &mut statements, &running, items.len()).await?;
    audit::append_after_batch(&mut transaction, statements, records, now).await?;
    if let Some(finished) = last {
        events::append(&mut transaction, vec![finished], now).await?;
    }
    commit(transaction).await?;
    Ok(heads)
}

/// One client that cannot be published never stops the others.
fn skip_failed(
    failed: &[(ClientId, StoreError)],
    by_client: &BTreeMap<&ClientId, Vec<(usize, &BatchItem)>>,
    skipped: &mut Vec<(usize, SkipReason)>,
) {
    for (client, problem) in failed {
        let problem_kind = match problem {
            StoreError::Publish(PublishError::VersionsExhausted) => PublishProblem::VersionsExhausted,
            _ => PublishProblem::Unreadable,
        };
        let reason = SkipReason::ClientCannotBePublished { problem: problem_kind, detail: problem.to_string() };
        let known: BTreeSet<usize> = skipped.iter().map(|(index, _)| *index).collect();
        let items = by_client.get(client).into_iter().flatten().filter(|(index, _)| !known.contains(index));
        skipped.extend(items.map(|(index, _)| (*index, reason.clone())));
    }
}

async fn take(connection: &mut AnyConnection, id: Uuid, now: Timestamp) -> Result<Running> {
    let row = sqlx::query(
        "UPDATE rollouts SET done = done WHERE id = $1
         RETURNING kind, application, done, target_count, actor, comment, request_id, finished_at, rollback_to",
    )
    .bind(id.to_string())
    .fetch_optional(connection)
    .await
    .during("lock a rollout")?
    .ok_or_else(|| StoreError::NotFound { what: format!("rollout `{id}`") })?;
    let row = Columns::of("rollouts", &row);
    Ok(Running {
        id,
        kind: row.named("kind", RolloutKind::parse)?,
        actor: read_actor(row)?,
        now,
        done: row.unsigned("done")? as usize,
        target_count: row.unsigned("target_count")? as usize,
        application: row.text("application")?,
        finished: row.time_maybe("finished_at")?.is_some(),
        rollback_to: row.number_maybe("rollback_to")?,
    })
}

/// The result for one item: a write, or the reason to skip it. `written` are the deployments that the batch already
/// writes.
fn decide(
    running: &Running,
    publishing: &mut Publishing,
    item: &BatchItem,
    written: &BTreeSet<DeploymentId>,
    named: &BTreeMap<DeploymentId, Named>,
) -> std::result::Result<(), SkipReason> {
    let id = item.target.deployment;
    if written.contains(&id) {
        return Err(SkipReason::DuplicateTarget);
    }
    publishing.stage(plan_write(running, item, named.get(&id).map(|named| named.deployment.clone()))?);
    Ok(())
}

fn plan_write(
    running: &Running,
    item: &BatchItem,
    current: Option<Deployment>,
) -> std::result::Result<Write, SkipReason> {
    let target = &item.target;
    match (&current, target.expected_revision) {
        (None, Some(_)) => return Err(SkipReason::DeploymentGone),
        (Some(_), None) => return Err(SkipReason::DeploymentIdTaken),
        (Some(current), Some(_)) if current.client != target.client => {
            return Err(SkipReason::BelongsToAnotherClient);
        }
        (Some(current), Some(_)) if current.desired == Desired::Absent => {
            return Err(SkipReason::DeploymentRemoved);
        }
        (Some(current), Some(expected)) if current.revision != expected => {
            return Err(SkipReason::RevisionChanged { current: current.revision, expected });
        }
        _ => {}
    }
    match (&item.write, current) {
        (BatchWrite::Put { document, yaml, version, values, sensitive }, current) => {
            // DS-04
            if document.id != target.deployment {
                return Err(SkipReason::WrongDocument { deployment: document.id });
            }
            let after = Deployment {
                id: target.deployment,
                client: target.client.clone(),
                target: target.target.clone(),
                application: document.spec.application_id.clone(),
                version: version.clone(),
                profile: target.profile.clone(),
                values: values.clone(),
                // A value stays protected even if another version does not mark it as sensitive.
                sensitive: *sensitive || current.as_ref().is_some_and(|current| current.sensitive),
                policy: Policy::of(document),
                revision: current.as_ref().map_or(1, |current| current.revision + 1),
                desired: Desired::Present,
                yaml_digest: Digest::of(yaml),
                changed_version: current.as_ref().map_or(0, |current| current.changed_version),
                target_version: current.as_ref().map_or(0, |current| current.target_version),
                created_at: current.as_ref().map_or(running.now, |current| current.created_at),
                updated_at: running.now,
                rollout: running.id,
            };
            Ok(Write { before: current, after, yaml: Some(yaml.clone()), manifest_version: 0 })
        }
        (BatchWrite::Remove, Some(current)) => {
            let after = Deployment {
                revision: current.revision + 1,
                desired: Desired::Absent,
                updated_at: running.now,
                rollout: running.id,
                ..current.clone()
            };
            Ok(Write { before: Some(current), after, yaml: None, manifest_version: 0 })
        }
        (BatchWrite::Remove, None) => Err(SkipReason::DeploymentNotFound),
        (BatchWrite::Skip(reason), _) => Err(reason.clone()),
    }
}

/// The last state under earlier rollouts, where this rollout takes over.
fn outcome_when_taken_over(writes: &[Write], named: &BTreeMap<DeploymentId, Named>) -> RolloutOutcomes {
    let mut outcomes = RolloutOutcomes::default();
    for before in writes.iter().filter_map(|write| named.get(&write.after.id)) {
        outcomes.add(before.deployment.rollout, before.deployment_state);
    }
    outcomes
}

/// Before and after with digests and revisions; values are in the revisions, where they can be masked.
fn record<'a>(running: &'a Running, write: &Write) -> Entry<'a> {
    let state = |deployment: &Deployment| -> Value {
        json!({
            "application": deployment.application,
            "version": deployment.version,
            "profile": deployment.profile,
            "client": deployment.client,
            "target": deployment.target,
            "revision": deployment.revision,
            "desired": deployment.desired.as_str(),
            "digest": deployment.yaml_digest,
            "manifestVersion": deployment.target_version,
            "rollout": deployment.rollout,
        })
    };
    let mut after = state(&write.after);
    if let Some(revision) = running.rollback_to {
        after["rollbackTo"] = json!(revision);
    }
    Entry {
        actor: &running.actor,
        action: match running.kind {
            _ if running.rollback_to.is_some() => "deployment.roll-back",
            RolloutKind::Create => "deployment.create",
            RolloutKind::Reconfigure => "deployment.reconfigure",
            RolloutKind::Upgrade => "deployment.upgrade",
            RolloutKind::Remove => "deployment.remove",
        },
        subject: format!("deployment/{}", write.after.id),
        before: write.before.as_ref().map(state),
        after: Some(after),
    }
}

async fn write_skipped(
    connection: &mut AnyConnection,
    running: &Running,
    items: &[BatchItem],
    skipped: &[(usize, SkipReason)],
) -> Result<()> {
    for (index, reason) in skipped {
        sqlx::query(
            "INSERT INTO rollout_skips (rollout_id, position, deployment_id, kind, data) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(running.id.to_string())
        .bind((running.done + index) as i64)
        .bind(items[*index].target.deployment.to_string())
        .bind(reason.kind())
        .bind(to_json(&reason.data()))
        .execute(&mut *connection)
        .await
        .during("record the skipped targets of a rollout")?;
    }
    Ok(())
}

/// Advances the progress; returns the event to write if this was the last batch.
async fn advance(
    connection: &mut AnyConnection,
    statements: &mut StatementBatch<'_>,
    running: &Running,
    carried_out: usize,
) -> Result<Option<NewEvent>> {
    let done = running.done + carried_out;
    let finished_at = (done == running.target_count).then_some(running.now.0);
    let id = running.id.to_string();
    let text =
        |first| format!("UPDATE rollouts SET done = ${first}, finished_at = ${} WHERE id = ${}", first + 1, first + 2);
    statements.add(3, text, move |statement| statement.bind(done as i64).bind(finished_at).bind(id));
    if finished_at.is_none() {
        return Ok(None);
    }
    let row = sqlx::query("SELECT COUNT(*) AS skipped FROM rollout_skips WHERE rollout_id = $1")
        .bind(running.id.to_string())
        .fetch_one(connection)
        .await
        .during("count the skipped targets of a rollout")?;
    let skipped = Columns::of("rollout_skips", &row).unsigned("skipped")?;
    Ok(Some(finished(running.id, &running.application, &running.actor, done as u64 - skipped, skipped)))
}

//! One batch: decide per target, publish per client, record everything, all in one transaction.
//!
//! Locks are taken in one order by everybody: the change, the manifests of its clients by id, the heads of the
//! audit chain and of the events.

use super::publish::{Named, Published, Publishing, load, publish};
use super::rows::Rows;
use super::{BATCH_TARGETS_MAX, BatchItem, BatchWrite, Outcomes, finished, read_actor};
use crate::audit::{self, Entry};
use crate::clients::Head;
use crate::error::During;
use crate::many::Pile;
use crate::open::{Writing, commit};
use crate::rows::Columns;
use crate::{Result, Store, StoreError, events};
use margo::digest::Digest;
use margo::ids::{ClientId, DeploymentId};
use margrave_core::events::NewEvent;
use margrave_core::model::{Actor, ChangeKind, Deployment, Desired};
use margrave_core::policy::Policy;
use margrave_core::time::Timestamp;
use serde_json::{Value, json};
use sqlx::AnyConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The change a batch belongs to, its row held.
pub(super) struct Running {
    pub(super) id: Uuid,
    pub(super) kind: ChangeKind,
    pub(super) actor: Actor,
    pub(super) now: Timestamp,
    done: usize,
    target_count: usize,
    application: String,
    finished: bool,
}

/// One deployment as it will stand after the batch. Its versions are filled in by publishing.
pub(super) struct Write {
    pub(super) before: Option<Deployment>,
    pub(super) after: Deployment,
    /// The bytes to serve; `None` for a removal.
    pub(super) yaml: Option<Vec<u8>>,
    /// The manifest it is published with; also filled in by publishing.
    pub(super) manifest_version: u64,
}

impl Write {
    /// Whether the device is to try the same once more, under another revision (ADR 41).
    pub(super) fn is_told_again(&self) -> bool {
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
    /// Carries out `items` (the targets from `change.done` on) in one transaction and moves `done`; finishes the change
    /// with its last batch. Does nothing and returns no heads when `done` is not where the caller thinks it is.
    /// Targets whose deployment is no longer at the expected revision are skipped with the reason.
    pub async fn change_apply(
        &self,
        change: Uuid,
        done: usize,
        items: &[BatchItem],
        now: Timestamp,
    ) -> Result<Vec<Head>> {
        apply(self.begin().await?, change, done, items, now).await
    }

    /// The same without waiting for the disk. The heads may be told to nobody before [`Store::settle`]. Also gives how long
    /// others who write were kept waiting.
    pub async fn change_apply_soon(
        &self,
        change: Uuid,
        done: usize,
        items: &[BatchItem],
        now: Timestamp,
    ) -> Result<(Vec<Head>, Duration)> {
        let transaction = self.begin_soon().await?;
        let begun = Instant::now();
        let heads = apply(transaction, change, done, items, now).await?;
        Ok((heads, begun.elapsed()))
    }
}

async fn apply(
    mut transaction: Writing,
    change: Uuid,
    done: usize,
    items: &[BatchItem],
    now: Timestamp,
) -> Result<Vec<Head>> {
    if items.len() > BATCH_TARGETS_MAX {
        return Err(StoreError::Misuse(format!("{} targets in one batch, {BATCH_TARGETS_MAX} at most", items.len())));
    }
    let running = take(&mut transaction, change, now).await?;
    if running.finished || running.done != done || items.is_empty() {
        return Ok(Vec::new());
    }
    if done + items.len() > running.target_count {
        return Err(StoreError::Misuse(format!("the batch goes beyond the {} targets", running.target_count)));
    }
    let mut skipped: Vec<(usize, String)> = Vec::new();
    let mut by_client: BTreeMap<&ClientId, Vec<(usize, &BatchItem)>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        match &item.write {
            BatchWrite::Skip { reason } => skipped.push((index, reason.clone())),
            _ => by_client.entry(&item.target.client).or_default().push((index, item)),
        }
    }
    let clients: Vec<&ClientId> = by_client.keys().copied().collect();
    let mut publishings = Publishing::begin(&mut transaction, &clients).await?;
    let exists = |client: &ClientId| publishings.binary_search_by(|one| one.client().cmp(client)).is_ok();
    for (client, items) in by_client.iter().filter(|(client, _)| !exists(client)) {
        skipped.extend(items.iter().map(|(index, _)| (*index, format!("client `{client}` does not exist"))));
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
    let Published { writes, heads, artifacts, manifests } = publish(&running, publishings)?;
    let records = writes.iter().map(|write| record(&running, write)).collect();
    skipped.sort_unstable();
    write_skipped(&mut transaction, &running, items, &skipped).await?;
    let mut pile = Pile::new(&transaction);
    let rows = Rows { running: &running, writes: &writes, artifacts: &artifacts, manifests: &manifests };
    rows.pile(&mut pile, &transaction.sealing())?;
    taken_over(&writes, &named).pile(&mut pile);
    let last = advance(&mut transaction, &mut pile, &running, items.len()).await?;
    audit::append_behind(&mut transaction, pile, records, now).await?;
    if let Some(finished) = last {
        events::append(&mut transaction, vec![finished], now).await?;
    }
    commit(transaction).await?;
    Ok(heads)
}

async fn take(connection: &mut AnyConnection, id: Uuid, now: Timestamp) -> Result<Running> {
    let row = sqlx::query(
        "UPDATE changes SET done = done WHERE id = $1
         RETURNING kind, application, done, target_count, actor, reason, request_id, finished_at",
    )
    .bind(id.to_string())
    .fetch_optional(connection)
    .await
    .during("take a change")?
    .ok_or_else(|| StoreError::NotFound { what: format!("change `{id}`") })?;
    let row = Columns::of("changes", &row);
    Ok(Running {
        id,
        kind: row.named("kind", ChangeKind::parse)?,
        actor: read_actor(row)?,
        now,
        done: row.unsigned("done")? as usize,
        target_count: row.unsigned("target_count")? as usize,
        application: row.text("application")?,
        finished: row.time_maybe("finished_at")?.is_some(),
    })
}

/// What one item comes to: a write, or the reason to skip it. `written` are the deployments the batch writes already.
fn decide(
    running: &Running,
    publishing: &mut Publishing,
    item: &BatchItem,
    written: &BTreeSet<DeploymentId>,
    named: &BTreeMap<DeploymentId, Named>,
) -> std::result::Result<(), String> {
    let id = item.target.deployment;
    if written.contains(&id) {
        return Err("it is named twice in one batch".to_owned());
    }
    publishing.stage(judge(running, item, named.get(&id).map(|named| named.deployment.clone()))?);
    Ok(())
}

fn judge(running: &Running, item: &BatchItem, current: Option<Deployment>) -> std::result::Result<Write, String> {
    let target = &item.target;
    match (&current, target.expected_revision) {
        (None, Some(_)) => return Err("it does not exist any more".to_owned()),
        (Some(_), None) => return Err("a deployment with this id exists already".to_owned()),
        (Some(current), Some(_)) if current.client != target.client => {
            return Err("it belongs to another client".to_owned());
        }
        (Some(current), Some(_)) if current.desired == Desired::Absent => {
            return Err("it was removed meanwhile".to_owned());
        }
        (Some(current), Some(expected)) if current.revision != expected => {
            return Err(format!(
                "it is at revision {} meanwhile, the change was planned for {expected}",
                current.revision
            ));
        }
        _ => {}
    }
    match (&item.write, current) {
        (BatchWrite::Put { document, yaml, version, values, sensitive }, current) => {
            // DS-04
            if document.id != target.deployment {
                return Err(format!("the document is for deployment {}", document.id));
            }
            let after = Deployment {
                id: target.deployment,
                client: target.client.clone(),
                target: target.target.clone(),
                application: document.spec.application_id.clone(),
                version: version.clone(),
                profile: target.profile.clone(),
                values: values.clone(),
                // A value keeps its protection when another version does not mark it any more.
                sensitive: *sensitive || current.as_ref().is_some_and(|current| current.sensitive),
                policy: Policy::of(document),
                revision: current.as_ref().map_or(1, |current| current.revision + 1),
                desired: Desired::Present,
                yaml_digest: Digest::of(yaml),
                changed_version: current.as_ref().map_or(0, |current| current.changed_version),
                target_version: current.as_ref().map_or(0, |current| current.target_version),
                created_at: current.as_ref().map_or(running.now, |current| current.created_at),
                updated_at: running.now,
                change: running.id,
            };
            Ok(Write { before: current, after, yaml: Some(yaml.clone()), manifest_version: 0 })
        }
        (BatchWrite::Remove, Some(current)) => {
            let after = Deployment {
                revision: current.revision + 1,
                desired: Desired::Absent,
                updated_at: running.now,
                change: running.id,
                ..current.clone()
            };
            Ok(Write { before: Some(current), after, yaml: None, manifest_version: 0 })
        }
        (BatchWrite::Remove, None) => Err("it does not exist".to_owned()),
        (BatchWrite::Skip { reason }, _) => Err(reason.clone()),
    }
}

/// What the changes before this one had come to where this one takes over.
fn taken_over(writes: &[Write], named: &BTreeMap<DeploymentId, Named>) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for before in writes.iter().filter_map(|write| named.get(&write.after.id)) {
        outcomes.add(before.deployment.change, before.convergence);
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
            "change": deployment.change,
        })
    };
    Entry {
        actor: &running.actor,
        action: match running.kind {
            ChangeKind::Create => "deployment.create",
            ChangeKind::Reconfigure => "deployment.reconfigure",
            ChangeKind::Upgrade => "deployment.upgrade",
            ChangeKind::Remove => "deployment.remove",
        },
        subject: format!("deployment/{}", write.after.id),
        before: write.before.as_ref().map(state),
        after: Some(state(&write.after)),
    }
}

async fn write_skipped(
    connection: &mut AnyConnection,
    running: &Running,
    items: &[BatchItem],
    skipped: &[(usize, String)],
) -> Result<()> {
    for (index, reason) in skipped {
        sqlx::query("INSERT INTO change_skips (change_id, position, deployment_id, reason) VALUES ($1, $2, $3, $4)")
            .bind(running.id.to_string())
            .bind((running.done + index) as i64)
            .bind(items[*index].target.deployment.to_string())
            .bind(reason)
            .execute(&mut *connection)
            .await
            .during("record what a change skipped")?;
    }
    Ok(())
}

/// Moves the mark; gives the event to write when this was the last batch.
async fn advance(
    connection: &mut AnyConnection,
    pile: &mut Pile<'_>,
    running: &Running,
    carried_out: usize,
) -> Result<Option<NewEvent>> {
    let done = running.done + carried_out;
    let finished_at = (done == running.target_count).then_some(running.now.0);
    let id = running.id.to_string();
    let text =
        |first| format!("UPDATE changes SET done = ${first}, finished_at = ${} WHERE id = ${}", first + 1, first + 2);
    pile.add(3, text, move |statement| statement.bind(done as i64).bind(finished_at).bind(id));
    if finished_at.is_none() {
        return Ok(None);
    }
    let row = sqlx::query("SELECT COUNT(*) AS skipped FROM change_skips WHERE change_id = $1")
        .bind(running.id.to_string())
        .fetch_one(connection)
        .await
        .during("count what a change skipped")?;
    let skipped = Columns::of("change_skips", &row).unsigned("skipped")?;
    Ok(Some(finished(running.id, &running.application, &running.actor, done as u64 - skipped, skipped)))
}

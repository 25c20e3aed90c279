//! Status reports: the last report per deployment, and a bounded history.

mod report_events;

use crate::batched::{Insert, StatementBatch, select_in};
use crate::error::During;
use crate::open::commit;
use crate::rows::Columns;
use crate::{Result, Store, events};
use margo::ids::{ClientId, DeploymentId};
use margo::status::{DeploymentStatus, State};
use margrave_core::model::{Failed, Reported};
use margrave_core::time::Timestamp;
use report_events::{Changed, Previous};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;
use std::collections::BTreeMap;

/// The most reports stored per deployment, whatever the retention: a client that reports in a loop must not fill the
/// disk.
pub const STATUS_HISTORY_MAX: u32 = 100;

/// Reports updated in one round trip. Few, since SQLite caches a prepared statement for each number of them.
const REPORTS_AT_ONCE: usize = 8;

#[derive(Debug, Clone)]
pub struct StatusWrite {
    pub client: ClientId,
    pub status: DeploymentStatus,
    pub body: Vec<u8>,
    pub received_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusOutcome {
    /// Stored (or already superseded by a newer adopted version; either way it need not be sent again).
    Kept,
    /// Never assigned to this client (W-11).
    UnknownDeployment,
    /// The adopted version exceeds what the database can hold, and what any server issues: rejected, never wrapped.
    VersionOutOfRange,
}

/// Failures of a deployment since its last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAttempts {
    pub since: Timestamp,
    pub last_at: Timestamp,
    pub attempts: u64,
}

/// The last report, with the last failure.
pub(crate) fn read_reported(row: Columns<'_>) -> Result<Option<Reported>> {
    let Some(reported) = read_report(row)? else { return Ok(None) };
    let failed = match row.number_maybe("failed_version")? {
        Some(_) => Some(Failed {
            adopted_version: row.unsigned("failed_version")?,
            body: row.bytes("failed_body")?,
            received_at: row.time("failed_at")?,
            since: row.time("failed_since")?,
            attempts: row.unsigned("failures")?,
        }),
        None => None,
    };
    Ok(Some(Reported { failed, ..reported }))
}

/// One report alone.
fn read_report(row: Columns<'_>) -> Result<Option<Reported>> {
    if row.text_maybe("state")?.is_none() {
        return Ok(None);
    }
    Ok(Some(Reported {
        state: row.named("state", State::parse)?,
        adopted_version: row.unsigned("adopted_version")?,
        body: row.bytes("body")?,
        received_at: row.time("received_at")?,
        failed: None,
    }))
}

impl Store {
    /// Writes many reports in one transaction; one outcome per report, in order.
    pub async fn statuses_put(&self, reports: &[StatusWrite]) -> Result<Vec<StatusOutcome>> {
        let mut outcomes = vec![StatusOutcome::Kept; reports.len()];
        // In order of deployment, so that two batches never deadlock; reports about one deployment stay
        // in the order of arrival.
        let mut order: Vec<usize> = (0..reports.len()).collect();
        order.sort_by_key(|index| reports[*index].status.deployment_id);
        let mut transaction = self.begin().await?;
        let mut written = BTreeMap::new();
        for some in order.chunks(REPORTS_AT_ONCE) {
            let mut statements = StatementBatch::new(&transaction);
            for &index in some {
                outcomes[index] = put(&mut statements, index, &reports[index]);
            }
            for row in &statements.fetch(&mut transaction, "write statuses").await? {
                let (index, one) = read_written(row)?;
                written.insert(index, one);
            }
        }
        let (mut changed, mut entries): (Vec<Changed<'_>>, Vec<Entry<'_>>) = (Vec::new(), Vec::new());
        for index in order {
            let report = &reports[index];
            match written.remove(&index) {
                Some(Written { seq, adopted, previous }) => {
                    entries.push(Entry { seq, adopted, report });
                    changed.push(Changed { index, report, adopted, previous });
                }
                None if outcomes[index] == StatusOutcome::Kept => {
                    outcomes[index] = superseded_or_unknown(&mut transaction, report).await?;
                }
                None => {}
            }
        }
        changed.retain(Changed::differs);
        // Events in the order of arrival.
        changed.sort_unstable_by_key(|changed| changed.index);
        let events = match changed.iter().map(|changed| changed.report.received_at).max() {
            Some(now) => {
                let events = report_events::events(&mut transaction, &changed).await?;
                events::number(&mut transaction, events, now).await?
            }
            None => Vec::new(),
        };
        let mut statements = StatementBatch::new(&transaction);
        remember(&mut statements, entries);
        events::add_to_batch(&mut statements, events);
        statements.write(&mut transaction, "add to the status history").await?;
        commit(transaction).await?;
        Ok(outcomes)
    }

    /// The failures that stand, of these deployments.
    pub async fn failed_attempts(&self, ids: &[DeploymentId]) -> Result<BTreeMap<DeploymentId, FailedAttempts>> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during("find failed deployments")?;
        let rows = select_in(
            &mut connection,
            "SELECT deployment_id, failed_since, failed_at, failures FROM statuses WHERE deployment_id IN",
            &ids,
            "AND failed_version IS NOT NULL",
            "find failed deployments",
        )
        .await?;
        let read = |row: &AnyRow| {
            let row = Columns::of("statuses", row);
            let attempts = FailedAttempts {
                since: row.time("failed_since")?,
                last_at: row.time("failed_at")?,
                attempts: row.unsigned("failures")?,
            };
            Ok((row.parsed("deployment_id")?, attempts))
        };
        rows.iter().map(read).collect()
    }

    /// Newest first, bounded.
    pub async fn status_history(&self, deployment: DeploymentId) -> Result<Vec<Reported>> {
        let rows = sqlx::query("SELECT * FROM status_history WHERE deployment_id = $1 ORDER BY seq DESC LIMIT $2")
            .bind(deployment.to_string())
            .bind(i64::from(STATUS_HISTORY_MAX))
            .fetch_all(&self.read)
            .await
            .during("read the status history of a deployment")?;
        let read = |row: &AnyRow| read_report(Columns::of("status_history", row)).transpose();
        rows.iter().filter_map(read).collect()
    }
}

/// The result of a report.
struct Written {
    /// Its position in the history; that of the previous report if it is the same.
    seq: i64,
    adopted: i64,
    previous: Previous,
}

/// Adds the statement for one report to the batch; it returns a row with the report's `index` if it was written.
fn put<'a>(statements: &mut StatementBatch<'a>, index: usize, report: &'a StatusWrite) -> StatusOutcome {
    let Ok(adopted) = i64::try_from(report.status.adopted_manifest_version) else {
        return StatusOutcome::VersionOutOfRange;
    };
    // GEN-09: scoped to the caller. ST-12: also for removed deployments. W-12: version 0 is unknown and always
    // accepted.
    // A report that repeats the last one adds nothing to the history. A failure stands until a success; its manifest
    // version must be known, or it says nothing about the desired state.
    let text = |first: usize| {
        let [deployment, client, state, version, body, at, index] = std::array::from_fn(|place| first + place);
        let until_it_succeeds = |what: &str, column: &str| {
            format!(
                "{column} = CASE WHEN ${state} = 'failed' AND ${version} <> 0 THEN {what}
                            WHEN ${state} = 'installed' OR ${state} = 'removed' THEN NULL ELSE {column} END"
            )
        };
        let failed_version = until_it_succeeds(&format!("${version}"), "failed_version");
        let failed_body = until_it_succeeds(&format!("${body}"), "failed_body");
        let failed_at = until_it_succeeds(&format!("${at}"), "failed_at");
        // The failure of a new revision is another one: it has another cause, and an event of its own.
        let is_new = format!(
            "failed_version < (SELECT d.changed_version FROM deployments d
                               WHERE d.id = statuses.deployment_id AND d.changed_version <= ${version})"
        );
        let since = format!("CASE WHEN {is_new} THEN ${at} ELSE COALESCE(failed_since, ${at}) END");
        let failed_since = until_it_succeeds(&since, "failed_since");
        // A device that reports a failure once more has not tried once more.
        let attempts = format!(
            "CASE WHEN {is_new} THEN 1 WHEN failed_version IS NOT NULL AND state = 'failed' THEN failures ELSE failures + 1 END"
        );
        let failures = format!(
            "failures = CASE WHEN ${state} = 'failed' AND ${version} <> 0 THEN {attempts}
                        WHEN ${state} = 'installed' OR ${state} = 'removed' THEN 0 ELSE failures END"
        );
        format!(
            "UPDATE statuses SET
                 reports = reports + CASE WHEN state = ${state} AND adopted_version = ${version} AND body = ${body} THEN 0 ELSE 1 END,
                 {failed_version}, {failed_body}, {failed_at}, {failed_since}, {failures},
                 previous_state = state, previous_version = adopted_version, previous_failed_version = failed_version,
                 state = ${state}, adopted_version = ${version}, body = ${body}, received_at = ${at}
             WHERE deployment_id = ${deployment} AND client_id = ${client}
               AND (adopted_version IS NULL OR adopted_version = 0 OR ${version} = 0 OR adopted_version <= ${version})
             RETURNING CAST(${index} AS BIGINT) AS report_index, reports, adopted_version,
                 previous_state, previous_version, previous_failed_version"
        )
    };
    statements.add(7, text, move |statement| {
        statement
            .bind(report.status.deployment_id.to_string())
            .bind(report.client.to_string())
            .bind(report.status.state.as_str())
            .bind(adopted)
            .bind(report.body.clone())
            .bind(report.received_at.0)
            .bind(index as i64)
    });
    StatusOutcome::Kept
}

fn read_written(row: &AnyRow) -> Result<(usize, Written)> {
    let row = Columns::of("statuses", row);
    let previous = Previous {
        state: row.text_maybe("previous_state")?,
        adopted: row.number_maybe("previous_version")?,
        failed: row.number_maybe("previous_failed_version")?,
    };
    let written = Written { seq: row.number("reports")?, adopted: row.number("adopted_version")?, previous };
    Ok((row.unsigned("report_index")? as usize, written))
}

struct Entry<'a> {
    seq: i64,
    adopted: i64,
    report: &'a StatusWrite,
}

fn remember<'a>(statements: &mut StatementBatch<'a>, entries: Vec<Entry<'a>>) {
    const INSERT: Insert = Insert {
        into: "status_history (deployment_id, seq, state, adopted_version, body, received_at)",
        columns: 6,
        on_conflict: "ON CONFLICT (deployment_id, seq) DO NOTHING",
        attempt: "add to the status history",
    };
    let outgrown: Vec<(String, i64)> = entries
        .iter()
        .map(|entry| (entry.report.status.deployment_id.to_string(), entry.seq - i64::from(STATUS_HISTORY_MAX)))
        .filter(|(_, oldest_kept)| *oldest_kept > 0)
        .collect();
    statements.insert(&INSERT, entries, |row, Entry { seq, adopted, report }| {
        row.bind(report.status.deployment_id.to_string())
            .bind(*seq)
            .bind(report.status.state.as_str())
            .bind(*adopted)
            .bind(report.body.clone())
            .bind(report.received_at.0)
    });
    for (deployment, oldest_kept) in outgrown {
        let text =
            |first| format!("DELETE FROM status_history WHERE deployment_id = ${first} AND seq <= ${}", first + 1);
        statements.add(2, text, move |statement| statement.bind(deployment).bind(oldest_kept));
    }
}

async fn superseded_or_unknown(connection: &mut AnyConnection, report: &StatusWrite) -> Result<StatusOutcome> {
    let row = sqlx::query("SELECT deployment_id FROM statuses WHERE deployment_id = $1 AND client_id = $2")
        .bind(report.status.deployment_id.to_string())
        .bind(report.client.as_str())
        .fetch_optional(connection)
        .await
        .during("find a status")?;
    Ok(if row.is_some() { StatusOutcome::Kept } else { StatusOutcome::UnknownDeployment })
}

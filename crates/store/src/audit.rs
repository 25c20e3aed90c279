//! The audit chain: append-only, hash-chained, in the same transaction as the modification.

use crate::batched::{Insert, Statement, StatementBatch};
use crate::error::During;
use crate::events::EventOrder;
use crate::open::{WriteTransaction, commit};
use crate::rows::{Columns, containing, to_json};
use crate::{Result, Store, StoreError, events};
use margrave_core::audit::{GENESIS, hash};
use margrave_core::events::of_audit;
use margrave_core::model::{Actor, AuditRecord};
use margrave_core::time::Timestamp;
use serde_json::Value;
use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

/// Which records; an empty field does not filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub actor: Option<String>,
    /// An action or its beginning up to a dot: `client` matches `client.decommission`.
    pub action: Option<String>,
    /// Part of the subject or the states, such as `press-07`. The search also returns partial matches; the caller
    /// filters the results.
    pub text: Option<String>,
    /// Together with `text`: also matches records about these applications.
    pub applications: Vec<String>,
    /// The whole subject, such as `client/press-07`.
    pub of: Option<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// Older than this.
    pub until: Option<Timestamp>,
}

/// How many records verification reads at a time.
const VERIFY_PAGE: i64 = 1_000;

/// A record to append at the end of the transaction.
pub(crate) struct Entry<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) action: &'a str,
    pub(crate) subject: String,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

const ATTEMPT: &str = "append to the audit chain";

/// Both heads with one statement.
const SELECT_HEADS: &str =
    "SELECT a.seq, a.hash, e.newest FROM audit_head a JOIN event_head e ON e.id = a.id WHERE a.id = 1";
/// The same with locks, for PostgreSQL; all transactions lock in this order.
const LOCK_HEADS: &str =
    "SELECT a.seq, a.hash, e.newest FROM audit_head a JOIN event_head e ON e.id = a.id WHERE a.id = 1
                          FOR UPDATE";

/// Appends to the chain, and an event for each record. Must be the last statement of a transaction: on PostgreSQL the
/// head rows are locked from here to the commit.
pub(crate) async fn append(
    transaction: &mut WriteTransaction,
    entries: Vec<Entry<'_>>,
    now: Timestamp,
) -> Result<Vec<AuditRecord>> {
    let statements = StatementBatch::new(transaction);
    append_after_batch(transaction, statements, entries, now).await
}

/// The same after the statements of a batch, in as few round trips as possible.
pub(crate) async fn append_after_batch(
    transaction: &mut WriteTransaction,
    statements: StatementBatch<'_>,
    entries: Vec<Entry<'_>>,
    now: Timestamp,
) -> Result<Vec<AuditRecord>> {
    if entries.is_empty() {
        statements.write(transaction, ATTEMPT).await?;
        return Ok(Vec::new());
    }
    let statements = statements.write_early(transaction, ATTEMPT).await?;
    let select = if transaction.is_shared() { LOCK_HEADS } else { SELECT_HEADS };
    let heads = sqlx::query(select).fetch_one(&mut **transaction).await.during("take the head of the audit chain")?;
    let heads = Columns::of("audit_head", &heads);
    let (mut seq, mut previous_hash) = (heads.number("seq")?, heads.text("hash")?);
    let mut records = Vec::with_capacity(entries.len());
    for entry in entries {
        seq += 1;
        let record = chain(entry, seq, &previous_hash, now);
        previous_hash.clone_from(&record.hash);
        records.push(record);
    }
    let events = records.iter().map(of_audit).collect();
    let events = events::number_after(transaction, heads.number("newest")?, events, now);
    let mut statements = statements;
    statements.insert(&INSERT, records.iter().collect(), |row, record: &&AuditRecord| bind(row, record));
    let text = |first| format!("UPDATE audit_head SET seq = ${first}, hash = ${} WHERE id = 1", first + 1);
    statements.add(2, text, move |statement| statement.bind(seq).bind(previous_hash));
    events::move_head(&mut statements, &events);
    events::add_to_batch(&mut statements, events);
    statements.write(transaction, ATTEMPT).await?;
    Ok(records)
}

fn chain(entry: Entry<'_>, seq: i64, previous_hash: &str, now: Timestamp) -> AuditRecord {
    let Entry { actor, action, subject, before, after } = entry;
    let mut record = AuditRecord {
        seq,
        at: now,
        actor: actor.name.clone(),
        comment: actor.comment.clone(),
        request_id: actor.request_id.clone(),
        action: action.to_owned(),
        subject,
        before,
        after,
        previous_hash: previous_hash.to_owned(),
        hash: String::new(),
    };
    record.hash = hash(&record);
    record
}

const INSERT: Insert = Insert {
    into: "audit (seq, at, actor, comment, request_id, action, subject, before_state, after_state, previous_hash, hash)",
    columns: 11,
    on_conflict: "",
    attempt: ATTEMPT,
};

fn bind<'q>(statement: Statement<'q>, record: &AuditRecord) -> Statement<'q> {
    statement
        .bind(record.seq)
        .bind(record.at.0)
        .bind(record.actor.clone())
        .bind(record.comment.clone())
        .bind(record.request_id.clone())
        .bind(record.action.clone())
        .bind(record.subject.clone())
        .bind(record.before.as_ref().map(to_json))
        .bind(record.after.as_ref().map(to_json))
        .bind(record.previous_hash.clone())
        .bind(record.hash.clone())
}

fn read(row: &AnyRow) -> Result<AuditRecord> {
    let row = Columns::of("audit", row);
    Ok(AuditRecord {
        seq: row.number("seq")?,
        at: row.time("at")?,
        actor: row.text("actor")?,
        comment: row.text_maybe("comment")?,
        request_id: row.text_maybe("request_id")?,
        action: row.text("action")?,
        subject: row.text("subject")?,
        before: row.json_maybe("before_state")?,
        after: row.json_maybe("after_state")?,
        previous_hash: row.text("previous_hash")?,
        hash: row.text("hash")?,
    })
}

impl Store {
    /// For events without a row of their own, such as a server start.
    pub async fn audit_append(
        &self,
        actor: &Actor,
        action: &str,
        subject: &str,
        after: Option<Value>,
        now: Timestamp,
    ) -> Result<AuditRecord> {
        let mut transaction = self.begin().await?;
        let entry = Entry { actor, action, subject: subject.to_owned(), before: None, after };
        let records = append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(records.into_iter().next().expect("one entry makes one record"))
    }

    /// The sequence number of the last record; 0 if there is none.
    pub async fn audit_newest_seq(&self) -> Result<i64> {
        let row = sqlx::query("SELECT seq FROM audit_head WHERE id = 1").fetch_one(&self.read).await;
        let row = row.during("read the end of the audit chain")?;
        Columns::of("audit_head", &row).number("seq")
    }

    /// Newest first, below `before`; optionally for one subject.
    pub async fn audit_page(&self, subject: Option<&str>, before: Option<i64>, limit: u32) -> Result<Vec<AuditRecord>> {
        let before = before.unwrap_or(i64::MAX);
        let query = match subject {
            Some(subject) => {
                sqlx::query("SELECT * FROM audit WHERE subject = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3")
                    .bind(subject)
            }
            None => sqlx::query("SELECT * FROM audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2"),
        };
        let rows =
            query.bind(before).bind(i64::from(limit)).fetch_all(&self.read).await.during("read the audit chain")?;
        self.settle().await?;
        rows.iter().map(read).collect()
    }

    /// Approximately the first record that is not older than `at`, found by binary search, since times increase with
    /// the sequence number. A clock that was set back makes the result slightly wrong.
    pub async fn audit_seq_at(&self, at: Timestamp) -> Result<i64> {
        let (mut low, mut high) = (1, self.audit_newest_seq().await? + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = sqlx::query("SELECT at FROM audit WHERE seq = $1").bind(middle).fetch_optional(&self.read).await;
            let row = row.during("find a time in the audit chain")?;
            // A deleted record has no time; verification finds it.
            let older = row.map(|row| Columns::of("audit", &row).time("at")).transpose()?.is_some_and(|one| one < at);
            if older {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Above `above` and below `before`, filtered.
    pub async fn audit_search(
        &self,
        filter: &AuditFilter,
        above: i64,
        before: i64,
        order: EventOrder,
        limit: u32,
    ) -> Result<Vec<AuditRecord>> {
        let direction = match order {
            EventOrder::NewestFirst => "DESC",
            EventOrder::OldestFirst => "ASC",
        };
        let named: Vec<String> = (10..10 + filter.applications.len())
            .map(|place| {
                format!(
                    " OR subject LIKE 'application/' || ${place} || '/%'
                      OR COALESCE(after_state, before_state) LIKE '%\"application\":\"' || ${place} || '\"%'"
                )
            })
            .collect();
        let named = named.concat();
        // An empty text means "no filter"; no name is empty.
        let text = format!(
            "SELECT * FROM audit WHERE seq < $1 AND seq > $8 AND at >= $2 AND at < $3 AND ($4 = '' OR actor = $4)
               AND ($5 = '' OR action = $5 OR SUBSTR(action, 1, LENGTH($5) + 1) = $5 || '.')
               AND ($6 = '' OR LOWER(subject) LIKE $6 ESCAPE '\\'
                    OR LOWER(COALESCE(after_state, before_state)) LIKE $6 ESCAPE '\\'{named})
               AND ($9 = '' OR subject = $9)
             ORDER BY seq {direction} LIMIT $7"
        );
        // The statement consists of our own literals and placeholder numbers; values are bound.
        let query = sqlx::query(AssertSqlSafe(text))
            .bind(before)
            .bind(filter.since.map_or(i64::MIN, |since| since.0))
            .bind(filter.until.map_or(i64::MAX, |until| until.0))
            .bind(filter.actor.clone().unwrap_or_default())
            .bind(filter.action.clone().unwrap_or_default())
            .bind(filter.text.as_deref().map(containing).unwrap_or_default())
            .bind(i64::from(limit))
            .bind(above)
            .bind(filter.of.clone().unwrap_or_default());
        let query = filter.applications.iter().fold(query, |query, id| query.bind(id.clone()));
        let rows = query.fetch_all(&self.read).await.during("search the audit chain")?;
        self.settle().await?;
        rows.iter().map(read).collect()
    }

    /// Recent actors, in order of name.
    pub async fn audit_actors(&self, records: u32) -> Result<Vec<String>> {
        let rows = sqlx::query(
            "SELECT DISTINCT actor FROM (SELECT actor FROM audit ORDER BY seq DESC LIMIT $1) lately
             WHERE SUBSTR(actor, 1, 7) <> 'client:' ORDER BY actor",
        )
        .bind(i64::from(records))
        .fetch_all(&self.read)
        .await
        .during("list actors of the audit chain")?;
        rows.iter().map(|row| Columns::of("audit", row).text("actor")).collect()
    }

    /// Verifies the whole chain; `Ok(Err(seq))` names the first record that does not match.
    ///
    /// Reads the head first: records appended during verification are left to the next one.
    pub async fn audit_verify(&self) -> Result<std::result::Result<u64, i64>> {
        let head = sqlx::query("SELECT seq, hash FROM audit_head WHERE id = 1").fetch_one(&self.read).await;
        let head = head.during("read the head of the audit chain")?;
        let head = Columns::of("audit_head", &head);
        let (last, last_hash) = (head.number("seq")?, head.text("hash")?);
        let (mut seq, mut previous_hash) = (0, GENESIS.to_owned());
        while seq < last {
            let rows = sqlx::query("SELECT * FROM audit WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3")
                .bind(seq)
                .bind(last)
                .bind(VERIFY_PAGE)
                .fetch_all(&self.read)
                .await
                .during("read the audit chain")?;
            if rows.is_empty() {
                return Ok(Err(seq + 1));
            }
            for row in &rows {
                let record = match read(row) {
                    Ok(record) => record,
                    // An unreadable record does not match either.
                    Err(StoreError::Inconsistent { .. }) => return Ok(Err(seq + 1)),
                    Err(other) => return Err(other),
                };
                let fits =
                    record.seq == seq + 1 && record.previous_hash == previous_hash && record.hash == hash(&record);
                if !fits {
                    return Ok(Err(seq + 1));
                }
                seq = record.seq;
                previous_hash = record.hash;
            }
        }
        Ok(if previous_hash == last_hash { Ok(seq.unsigned_abs()) } else { Err(last) })
    }
}

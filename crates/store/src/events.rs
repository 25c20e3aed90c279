//! To write an event: do nothing where you write audit records (each becomes an event), otherwise call
//! `events::append(&mut transaction, vec![NewEvent::new("kind.past", About { .. }).with(data)], now)` just before the
//! commit, or [`Store::event_append`] outside of a transaction.
//!
//! Ids are assigned under a lock held to the commit, so that a reader in order of id misses nothing. The newest id is
//! published after each commit; readers wait for it and read pages, so a slow reader costs nothing here.

use crate::batched::{Insert, Statement, StatementBatch};
use crate::error::During;
use crate::open::{WriteTransaction, commit};
use crate::retention::PRUNE_ROWS_MAX;
use crate::rows::{Columns, containing, to_json};
use crate::{Result, Store};
use margrave_core::events::{About, Event, NewEvent};
use margrave_core::time::Timestamp;
use sqlx::any::AnyRow;
use tokio::sync::watch;

/// Which events; an empty field does not filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// A kind or its beginning up to a dot: `deployment` matches `deployment.failed`.
    pub kind: Option<String>,
    pub client: Option<String>,
    pub device: Option<String>,
    pub deployment: Option<String>,
    pub application: Option<String>,
    pub rollout: Option<String>,
    /// Part of the name of the client or the device.
    pub place: Option<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// Older than this.
    pub until: Option<Timestamp>,
}

/// The range of ids of a page; both ends are exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRange {
    pub above: i64,
    pub below: i64,
}

impl EventRange {
    pub const ALL: Self = Self { above: 0, below: i64::MAX };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOrder {
    NewestFirst,
    OldestFirst,
}

/// The stored ids, from `oldest` to `newest`. Nothing is stored if `oldest` is above `newest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventBounds {
    pub oldest: i64,
    pub newest: i64,
}

/// Writes events. Must be the last statement of a transaction, after the audit: the head row is locked from here to the
/// commit.
pub(crate) async fn append(transaction: &mut WriteTransaction, events: Vec<NewEvent>, now: Timestamp) -> Result<()> {
    let events = number(transaction, events, now).await?;
    let mut statements = StatementBatch::new(transaction);
    self::add_to_batch(&mut statements, events);
    statements.write(transaction, "write events").await
}

/// Assigns ids to events that are written before the commit, by [`statements`].
pub(crate) async fn number(
    transaction: &mut WriteTransaction,
    events: Vec<NewEvent>,
    now: Timestamp,
) -> Result<Vec<Event>> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let row = sqlx::query("UPDATE event_head SET newest = newest + $1 WHERE id = 1 RETURNING newest")
        .bind(events.len() as i64)
        .fetch_one(&mut **transaction)
        .await
        .during("lock the head of the events")?;
    let newest = Columns::of("event_head", &row).number("newest")?;
    Ok(number_after(transaction, newest - events.len() as i64, events, now))
}

/// The ids after `newest`, for a caller that holds the head and advances it with [`move_head`].
pub(crate) fn number_after(
    transaction: &mut WriteTransaction,
    newest: i64,
    events: Vec<NewEvent>,
    now: Timestamp,
) -> Vec<Event> {
    let events: Vec<Event> =
        (newest + 1..).zip(events).map(|(id, what)| Event { id, at: now, what: what.bounded() }).collect();
    transaction.announce(newest + events.len() as i64);
    events
}

pub(crate) fn move_head(statements: &mut StatementBatch<'_>, events: &[Event]) {
    if let Some(Event { id: newest, .. }) = events.last() {
        let newest = *newest;
        let text = |first| format!("UPDATE event_head SET newest = ${first} WHERE id = 1");
        statements.add(1, text, move |statement| statement.bind(newest));
    }
}

pub(crate) fn add_to_batch(statements: &mut StatementBatch<'_>, events: Vec<Event>) {
    statements.insert(&INSERT, events, bind);
}

const INSERT: Insert = Insert {
    into: "events (id, at, kind, client, device, deployment, application, rollout_id, actor, data)",
    columns: 10,
    on_conflict: "",
    attempt: "write events",
};

fn bind<'q>(statement: Statement<'q>, event: &Event) -> Statement<'q> {
    let Event { id, at, what: NewEvent { kind, about, actor, detail } } = event.clone();
    let About { client, device, deployment, application, rollout } = about;
    statement
        .bind(id)
        .bind(at.0)
        .bind(kind)
        .bind(client)
        .bind(device)
        .bind(deployment)
        .bind(application)
        .bind(rollout)
        .bind(actor)
        .bind(detail.as_ref().map(to_json))
}

fn read(row: &AnyRow) -> Result<Event> {
    let row = Columns::of("events", row);
    let about = About {
        client: row.text_maybe("client")?,
        device: row.text_maybe("device")?,
        deployment: row.text_maybe("deployment")?,
        application: row.text_maybe("application")?,
        rollout: row.text_maybe("rollout_id")?,
    };
    let what =
        NewEvent { kind: row.text("kind")?, about, actor: row.text_maybe("actor")?, detail: row.json_maybe("data")? };
    Ok(Event { id: row.number("id")?, at: row.time("at")?, what })
}

/// An empty text means "no filter"; no name is empty.
macro_rules! select_events {
    ($order:literal) => {
        concat!(
            "SELECT * FROM events WHERE id > $1 AND id < $2 AND at >= $3 AND at < $12
               AND ($4 = '' OR kind = $4 OR SUBSTR(kind, 1, LENGTH($4) + 1) = $4 || '.')
               AND ($5 = '' OR client = $5) AND ($6 = '' OR device = $6) AND ($7 = '' OR deployment = $7)
               AND ($8 = '' OR application = $8) AND ($9 = '' OR rollout_id = $9)
               AND ($11 = '' OR LOWER(client) LIKE $11 ESCAPE '\\' OR LOWER(device) LIKE $11 ESCAPE '\\')
             ORDER BY id ",
            $order,
            " LIMIT $10"
        )
    };
}

impl Store {
    /// For events without a modification of their own, such as a server start.
    pub async fn event_append(&self, event: NewEvent, now: Timestamp) -> Result<()> {
        let mut transaction = self.begin().await?;
        append(&mut transaction, vec![event], now).await?;
        commit(transaction).await
    }

    pub async fn events_page(
        &self,
        filter: &EventFilter,
        range: EventRange,
        order: EventOrder,
        limit: u32,
    ) -> Result<Vec<Event>> {
        let query = match order {
            EventOrder::NewestFirst => sqlx::query(select_events!("DESC")),
            EventOrder::OldestFirst => sqlx::query(select_events!("")),
        };
        let text = |name: &Option<String>| name.clone().unwrap_or_default();
        let rows = query
            .bind(range.above)
            .bind(range.below)
            .bind(filter.since.map_or(i64::MIN, |since| since.0))
            .bind(text(&filter.kind))
            .bind(text(&filter.client))
            .bind(text(&filter.device))
            .bind(text(&filter.deployment))
            .bind(text(&filter.application))
            .bind(text(&filter.rollout))
            .bind(i64::from(limit))
            .bind(filter.place.as_deref().map(containing).unwrap_or_default())
            .bind(filter.until.map_or(i64::MAX, |until| until.0))
            .fetch_all(&self.read)
            .await
            .during("read events")?;
        // A reader of events may come back with the last id.
        self.settle().await?;
        rows.iter().map(read).collect()
    }

    /// The stored range, as the database has it now.
    pub async fn event_bounds(&self) -> Result<EventBounds> {
        let row =
            sqlx::query("SELECT h.newest, (SELECT MIN(e.id) FROM events e) AS oldest FROM event_head h WHERE h.id = 1")
                .fetch_one(&self.read)
                .await
                .during("read the bounds of the events")?;
        let row = Columns::of("event_head", &row);
        let newest = row.number("newest")?;
        Ok(EventBounds { oldest: row.number_maybe("oldest")?.unwrap_or(newest + 1), newest })
    }

    /// The newest id this server knows; advances after a commit here, or with [`Store::events_refresh`].
    pub fn events_newest(&self) -> watch::Receiver<i64> {
        self.events.subscribe()
    }

    /// Reads the newest id written by other servers, if a reader here waits for it.
    pub async fn events_refresh(&self) -> Result<()> {
        if self.events.receiver_count() > 0 {
            let bounds = self.event_bounds().await?;
            self.announce_events(bounds.newest);
        }
        Ok(())
    }

    /// Keeps the newest `keep`.
    pub(crate) async fn prune_events(&self, keep: i64) -> Result<u64> {
        let EventBounds { oldest, newest } = self.event_bounds().await?;
        let last = (newest - keep).min(oldest.saturating_add(PRUNE_ROWS_MAX - 1));
        if last < oldest {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        let removed = sqlx::query("DELETE FROM events WHERE id <= $1")
            .bind(last)
            .execute(&mut *transaction)
            .await
            .during("remove old events")?;
        commit(transaction).await?;
        Ok(removed.rows_affected())
    }
}

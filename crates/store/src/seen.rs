//! When clients were last seen: written in batches, with events only for the first connection, going offline and coming
//! online.

use crate::batched::Insert;
use crate::error::During;
use crate::open::{WriteTransaction, commit};
use crate::rows::Columns;
use crate::{Result, Store, events};
use margo::ids::ClientId;
use margrave_core::events::{About, NewEvent};
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::AnyConnection;
use std::collections::BTreeMap;

/// Clients marked offline in one transaction; the caller repeats while it finds that many.
pub const OFFLINE_MAX: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAt {
    pub client: ClientId,
    pub at: Timestamp,
}

impl Store {
    /// Writes last-seen times in one transaction, without touching client rows; an older time never replaces a newer
    /// one.
    pub async fn seen_write(&self, seen: &[SeenAt]) -> Result<()> {
        // One entry per client, in order: two writers then never deadlock.
        let mut newest: BTreeMap<&str, i64> = BTreeMap::new();
        for SeenAt { client, at } in seen {
            let known = newest.entry(client.as_str()).or_insert(at.0);
            *known = at.0.max(*known);
        }
        let Some(now) = newest.values().max().copied().map(Timestamp) else { return Ok(()) };
        let newest: Vec<(&str, i64)> = newest.into_iter().collect();
        let mut transaction = self.begin().await?;
        INSERT.rows(&mut transaction, &newest, |row, (client, at)| row.bind((*client).to_owned()).bind(*at)).await?;
        write_events(&mut transaction, now).await?;
        commit(transaction).await
    }

    /// Marks accepted clients not seen since `since` as offline, at most [`OFFLINE_MAX`] of them; returns how many.
    pub async fn offline_write(&self, since: Timestamp, now: Timestamp) -> Result<usize> {
        // Searches outside of the transaction, so that writers do not wait for a scan.
        let rows = sqlx::query(
            "SELECT s.client_id FROM client_seen s JOIN clients c ON c.id = s.client_id
             WHERE s.offline_at IS NULL AND s.seen_at < $1 AND c.state = 'accepted' ORDER BY s.client_id LIMIT $2",
        )
        .bind(since.0)
        .bind(OFFLINE_MAX as i64)
        .fetch_all(&self.read)
        .await
        .during("find clients that went offline")?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        let mut offline = Vec::new();
        for row in &rows {
            let client = Columns::of("client_seen", row).text("client_id")?;
            // Checked again: it may have been seen since, or marked by another server.
            let row = sqlx::query(
                "UPDATE client_seen SET offline_at = $3 WHERE client_id = $1 AND offline_at IS NULL AND seen_at < $2
                 RETURNING seen_at",
            )
            .bind(&client)
            .bind(since.0)
            .bind(now.0)
            .fetch_optional(&mut *transaction)
            .await
            .during("mark a client as offline")?;
            if let Some(row) = row {
                let seen = Columns::of("client_seen", &row).time("seen_at")?;
                let data = json!({ "lastSeenAt": seen.to_string() });
                offline.push(NewEvent::new("client.offline", about(client)).with(data));
            }
        }
        events::append(&mut transaction, offline, now).await?;
        commit(transaction).await?;
        Ok(rows.len())
    }
}

/// Records the first contact of a client; returns its event if the client was not recorded before. The writer of the
/// row emits the event: a batch emits events only for rows it wrote.
pub(crate) async fn first(
    connection: &mut AnyConnection,
    client: &ClientId,
    at: Timestamp,
) -> Result<Option<NewEvent>> {
    let written = sqlx::query(
        "INSERT INTO client_seen (client_id, seen_at, pending_event) VALUES ($1, $2, NULL) ON CONFLICT (client_id) DO NOTHING",
    )
    .bind(client.as_str())
    .bind(at.0)
    .execute(connection)
    .await
    .during("write when a client was first seen")?;
    let event = || NewEvent::new(CONNECTED, about(client.to_string()));
    Ok((written.rows_affected() == 1).then(event))
}

/// The kind of the event for a first contact.
const CONNECTED: &str = "client.connected";

/// Writes events for the rows just written; in a fleet at rest there are none.
async fn write_events(transaction: &mut WriteTransaction, now: Timestamp) -> Result<()> {
    let rows = sqlx::query(
        "SELECT client_id, pending_event FROM client_seen WHERE pending_event IS NOT NULL ORDER BY client_id",
    )
    .fetch_all(&mut **transaction)
    .await
    .during("find clients that are new or came online")?;
    if rows.is_empty() {
        return Ok(());
    }
    let mut written = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Columns::of("client_seen", row);
        let client = row.text("client_id")?;
        let kind = match row.text("pending_event")?.as_str() {
            "back" => "client.online",
            _ => CONNECTED,
        };
        written.push(NewEvent::new(kind, about(client)));
    }
    sqlx::query("UPDATE client_seen SET pending_event = NULL WHERE pending_event IS NOT NULL")
        .execute(&mut **transaction)
        .await
        .during("clear the news of clients")?;
    events::append(transaction, written, now).await
}

fn about(client: String) -> About {
    About { client: Some(client), ..About::default() }
}

/// A new row is `first` by default.
const INSERT: Insert = Insert {
    into: "client_seen (client_id, seen_at)",
    columns: 2,
    on_conflict: "ON CONFLICT (client_id) DO UPDATE SET seen_at = excluded.seen_at,
                      pending_event = CASE WHEN client_seen.offline_at IS NULL THEN client_seen.pending_event ELSE 'back' END, offline_at = NULL
                  WHERE excluded.seen_at > client_seen.seen_at",
    attempt: "write when clients were seen",
};

//! When clients were heard of: written in batches, with events only for the first time, silence and return.

use crate::error::During;
use crate::many::Insert;
use crate::open::{Writing, commit};
use crate::rows::Columns;
use crate::{Result, Store, events};
use margo::ids::ClientId;
use margrave_core::events::{About, NewEvent};
use margrave_core::time::Timestamp;
use sqlx::AnyConnection;
use std::collections::BTreeMap;

/// Clients found silent in one transaction; the caller comes again while there are that many.
pub const SILENT_MAX: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAt {
    pub client: ClientId,
    pub at: Timestamp,
}

impl Store {
    /// Writes last-seen times in one transaction, away from the client rows; an older time never replaces a newer one.
    pub async fn seen_write(&self, seen: &[SeenAt]) -> Result<()> {
        // One entry per client, in order: two writers then never wait for each other crosswise.
        let mut newest: BTreeMap<&str, i64> = BTreeMap::new();
        for SeenAt { client, at } in seen {
            let known = newest.entry(client.as_str()).or_insert(at.0);
            *known = at.0.max(*known);
        }
        let Some(now) = newest.values().max().copied().map(Timestamp) else { return Ok(()) };
        let newest: Vec<(&str, i64)> = newest.into_iter().collect();
        let mut transaction = self.begin().await?;
        INSERT.rows(&mut transaction, &newest, |row, (client, at)| row.bind((*client).to_owned()).bind(*at)).await?;
        tell(&mut transaction, now).await?;
        commit(transaction).await
    }

    /// Notes which accepted clients have not been heard of since `since`, at most [`SILENT_MAX`] of them; gives how many.
    pub async fn silent_write(&self, since: Timestamp, now: Timestamp) -> Result<usize> {
        // Looking is done outside of the transaction, so that nobody waits for a scan.
        let rows = sqlx::query(
            "SELECT s.client_id FROM client_seen s JOIN clients c ON c.id = s.client_id
             WHERE s.silent_at IS NULL AND s.seen_at < $1 AND c.state = 'accepted' ORDER BY s.client_id LIMIT $2",
        )
        .bind(since.0)
        .bind(SILENT_MAX as i64)
        .fetch_all(&self.read)
        .await
        .during("look for silent clients")?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin().await?;
        let mut silent = Vec::new();
        for row in &rows {
            let client = Columns::of("client_seen", row).text("client_id")?;
            // Asked again: it may have been heard of since, or found by another server.
            let row = sqlx::query(
                "UPDATE client_seen SET silent_at = $3 WHERE client_id = $1 AND silent_at IS NULL AND seen_at < $2
                 RETURNING seen_at",
            )
            .bind(&client)
            .bind(since.0)
            .bind(now.0)
            .fetch_optional(&mut *transaction)
            .await
            .during("note a silent client")?;
            if let Some(row) = row {
                let seen = Columns::of("client_seen", &row).time("seen_at")?;
                let message = format!("client `{client}` is silent: last heard of at {seen}");
                silent.push(NewEvent::new("client.silent", about(client), message));
            }
        }
        events::append(&mut transaction, silent, now).await?;
        commit(transaction).await?;
        Ok(rows.len())
    }
}

/// A client that has just been heard of; gives what there is to tell of it when nothing was written of it before. Told by whoever
/// writes it: what a batch tells is only what it wrote itself.
pub(crate) async fn first(
    connection: &mut AnyConnection,
    client: &ClientId,
    at: Timestamp,
) -> Result<Option<NewEvent>> {
    let written = sqlx::query(
        "INSERT INTO client_seen (client_id, seen_at, news) VALUES ($1, $2, NULL) ON CONFLICT (client_id) DO NOTHING",
    )
    .bind(client.as_str())
    .bind(at.0)
    .execute(connection)
    .await
    .during("write when a client was first seen")?;
    let (kind, verb) = FIRST;
    let told = || NewEvent::new(kind, about(client.to_string()), format!("client `{client}` {verb}"));
    Ok((written.rows_affected() == 1).then(told))
}

const FIRST: (&str, &str) = ("client.heard", "was heard of for the first time");

/// Tells what the rows just written have to tell, which in a fleet at rest is nothing.
async fn tell(transaction: &mut Writing, now: Timestamp) -> Result<()> {
    let rows = sqlx::query("SELECT client_id, news FROM client_seen WHERE news IS NOT NULL ORDER BY client_id")
        .fetch_all(&mut **transaction)
        .await
        .during("look for clients that are new or back")?;
    if rows.is_empty() {
        return Ok(());
    }
    let mut told = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Columns::of("client_seen", row);
        let client = row.text("client_id")?;
        let (kind, verb) = match row.text("news")?.as_str() {
            "back" => ("client.back", "is heard of again"),
            _ => FIRST,
        };
        let message = format!("client `{client}` {verb}");
        told.push(NewEvent::new(kind, about(client), message));
    }
    sqlx::query("UPDATE client_seen SET news = NULL WHERE news IS NOT NULL")
        .execute(&mut **transaction)
        .await
        .during("note that clients were told of")?;
    events::append(transaction, told, now).await
}

fn about(client: String) -> About {
    About { client: Some(client), ..About::default() }
}

/// A new row is `first` by default.
const INSERT: Insert = Insert {
    into: "client_seen (client_id, seen_at)",
    columns: 2,
    on_conflict: "ON CONFLICT (client_id) DO UPDATE SET seen_at = excluded.seen_at,
                      news = CASE WHEN client_seen.silent_at IS NULL THEN client_seen.news ELSE 'back' END, silent_at = NULL
                  WHERE excluded.seen_at > client_seen.seen_at",
    attempt: "write when clients were seen",
};

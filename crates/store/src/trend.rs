//! Events over time, counted in slots.

use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margrave_core::time::Timestamp;
use std::time::Duration;

/// Events of one kind in one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub kind: String,
    /// 0 is the oldest.
    pub slot: usize,
    pub count: u64,
}

impl Store {
    /// Events about deployments and clients since an instant, per kind and slot. Slots without events are omitted.
    pub async fn event_trend(&self, since: Timestamp, slot: Duration) -> Result<Vec<Slot>> {
        let first = self.first_event_at(since).await?;
        let width = i64::try_from(slot.as_micros()).unwrap_or(i64::MAX).max(1);
        let rows = sqlx::query(
            "SELECT kind, (at - $2) / $3 AS slot, COUNT(*) AS events FROM events WHERE id >= $1 AND at >= $2
             AND (SUBSTR(kind, 1, 11) = 'deployment.' OR SUBSTR(kind, 1, 7) = 'client.') GROUP BY kind, (at - $2) / $3",
        )
        .bind(first)
        .bind(since.0)
        .bind(width)
        .fetch_all(&self.read)
        .await
        .during("count events over time")?;
        let read = |row| {
            let row = Columns::of("events", row);
            let slot = usize::try_from(row.unsigned("slot")?).unwrap_or(usize::MAX);
            Ok(Slot { kind: row.text("kind")?, slot, count: row.unsigned("events")? })
        };
        rows.iter().map(read).collect()
    }

    /// The first id at or after an instant. Ids increase with time, so a binary search finds it without an index.
    async fn first_event_at(&self, since: Timestamp) -> Result<i64> {
        let bounds = self.event_bounds().await?;
        let (mut low, mut high) = (bounds.oldest, bounds.newest + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = sqlx::query("SELECT at FROM events WHERE id = $1").bind(middle).fetch_optional(&self.read).await;
            let at = match row.during("find the first event of a time")? {
                Some(row) => Columns::of("events", &row).time("at")?,
                // Pruned a moment ago, so old.
                None => Timestamp(i64::MIN),
            };
            if at < since {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

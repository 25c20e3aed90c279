//! One event stream: reads a page when there are new events and sends it; a slow reader costs one page of memory.

use super::streams::{SlotsTaken, StreamSlot};
use super::{EventsFilter, to_wire};
use crate::app::error::{AppError, AppResult, Code};
use crate::state::ServerState;
use bytes::Bytes;
use margrave_api::events::EventGap;
use margrave_store::{EventBounds, EventFilter, EventOrder, EventRange};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use uuid::Uuid;

/// Events sent at once: the memory cost of a slow reader.
const PAGE_ROWS: u32 = 200;
/// Keep-alive interval, so that both sides notice a dead connection, and the server an expired token.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Minimum interval between database queries per stream, whatever the event rate.
const PACE: Duration = Duration::from_millis(100);
/// A reader that takes nothing for this long is gone; its slot is freed.
const STALL_MAX: Duration = Duration::from_mins(1);
/// How long a browser waits before it reconnects.
const RETRY_MS: u32 = 1000;

/// The token that opened the stream; checked again and again.
#[derive(Clone)]
pub struct StreamToken {
    pub token: Uuid,
    pub secret_hash: String,
}

struct Reader {
    state: ServerState,
    filter: EventFilter,
    opener: StreamToken,
    /// The id of the last event sent.
    position: i64,
    news: watch::Receiver<i64>,
    _place: StreamSlot,
}

/// Opens a stream after `after`; without it, after the newest event. 0 means all kept events.
pub async fn open(
    state: &ServerState,
    opener: StreamToken,
    filter: EventsFilter,
    after: Option<i64>,
) -> AppResult<mpsc::Receiver<Bytes>> {
    let filter = filter.read()?;
    if after.is_some_and(|after| after < 0) {
        return Err(AppError::invalid("after", "write the id of an event, or 0 for all kept events"));
    }
    let place = state.streams.take(opener.token).map_err(|taken| {
        let detail = match taken {
            SlotsTaken::All(max) => format!("{max} streams are open already, which is the limit; try again later"),
            SlotsTaken::OfToken(max) => {
                format!("this token has {max} streams open already, which is the limit; close one of them")
            }
        };
        AppError::refused(Code::Busy, detail)
    })?;
    let news = state.store.events_newest();
    // Another server may have written a moment ago.
    state.store.events_refresh().await?;
    let EventBounds { oldest, newest } = state.store.event_bounds().await?;
    let position = match after {
        None => newest,
        Some(0) => oldest - 1,
        Some(after) => after,
    };
    let (sender, receiver) = mpsc::channel(1);
    let reader = Reader { state: state.clone(), filter, opener, position, news, _place: place };
    tokio::spawn(reader.run(sender));
    Ok(receiver)
}

impl Reader {
    /// Runs until the server stops, the token ends, the reader disconnects, or the maximum connection age is reached.
    async fn run(mut self, sender: mpsc::Sender<Bytes>) {
        let stopping = self.state.stopping.clone();
        let ends = Instant::now() + self.state.config.limits.connection_age_max.0;
        tokio::select! {
            () = stopping.cancelled() => {}
            () = sender.closed() => {}
            () = sleep_until(ends) => {}
            () = self.read_on(&sender) => {}
        }
    }

    async fn read_on(&mut self, sender: &mpsc::Sender<Bytes>) {
        let hello = format!("retry: {RETRY_MS}\n: events of this server\nid: {}\n\n", self.position);
        if !send_page(sender, hello).await {
            return;
        }
        loop {
            let (text, more) = match self.page().await {
                Ok(page) => page,
                Err(error) => {
                    self.state.metrics.store_error();
                    return tracing::warn!(error = &error as &dyn std::error::Error, "cannot read events for a stream");
                }
            };
            // Checked after reading, so that no event after the revocation of the token is sent.
            if !self.is_authorized().await || (!text.is_empty() && !send_page(sender, text).await) {
                return;
            }
            if more {
                continue;
            }
            sleep(PACE).await;
            let position = self.position;
            let news = self.news.wait_for(|newest| *newest > position);
            if timeout(KEEP_ALIVE, news).await.is_err() {
                // With the id, so that a filtered stream without matches does not fall behind the kept events.
                let alive = format!(": nothing new\nid: {}\n\n", self.position);
                if !self.is_authorized().await || !send_page(sender, alive).await {
                    return;
                }
            }
        }
    }

    /// The next events as text, and whether more are available at once.
    async fn page(&mut self) -> margrave_store::Result<(String, bool)> {
        let newest = *self.news.borrow_and_update();
        let range = EventRange { above: self.position, below: newest.saturating_add(1) };
        let store = &self.state.store;
        let events = store.events_page(&self.filter, range, EventOrder::OldestFirst, PAGE_ROWS).await?;
        // Checked after reading: events pruned in between count as missed.
        let bounds = store.event_bounds().await?;
        if let Some(gap) = gap(self.position, bounds) {
            self.position = gap.next - 1;
            let data = serde_json::to_string(&gap).expect("a gap is plain data");
            return Ok((format!("event: gap\nid: {}\ndata: {data}\n\n", self.position), true));
        }
        let more = events.len() == PAGE_ROWS as usize;
        let last = events.last().map(|event| event.id);
        self.position = if more { last.unwrap_or(self.position) } else { newest.max(self.position) };
        let mut text = String::new();
        for event in events {
            let id = event.id;
            let data = serde_json::to_string(&to_wire(event)).expect("an event is plain data");
            let _ = write!(text, "id: {id}\ndata: {data}\n\n");
        }
        Ok((text, more))
    }

    async fn is_authorized(&self) -> bool {
        match self.state.store.token_find(&self.opener.secret_hash, self.state.now()).await {
            Ok(token) => token.is_some(),
            Err(error) => {
                self.state.metrics.store_error();
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot check the token of a stream");
                false
            }
        }
    }
}

/// False when the reader is gone or takes nothing any more.
async fn send_page(sender: &mpsc::Sender<Bytes>, text: String) -> bool {
    timeout(STALL_MAX, sender.send(Bytes::from(text))).await.is_ok_and(|sent| sent.is_ok())
}

/// The events that a reader at `position` has missed.
fn gap(position: i64, bounds: EventBounds) -> Option<EventGap> {
    let EventBounds { oldest, newest } = bounds;
    if position > newest {
        let message = format!(
            "event {position} is ahead of this server, as after a restored backup; continuing after event {newest}"
        );
        return Some(EventGap { after: position, next: newest + 1, message });
    }
    if position + 1 < oldest {
        let message = format!("events {} to {} are no longer kept", position + 1, oldest - 1);
        return Some(EventGap { after: position, next: oldest, message });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::gap;
    use margrave_store::EventBounds;

    #[test]
    fn reports_missed_events_to_a_reader() {
        let bounds = EventBounds { oldest: 11, newest: 20 };
        for (position, next) in [(10, None), (15, None), (20, None), (9, Some(11)), (1, Some(11)), (25, Some(21))] {
            assert_eq!(gap(position, bounds).map(|gap| gap.next), next, "behind {position}");
        }
        let nothing_stored = EventBounds { oldest: 21, newest: 20 };
        assert_eq!(gap(20, nothing_stored), None);
        assert_eq!(gap(19, nothing_stored).map(|gap| gap.next), Some(21));
        assert_eq!(gap(0, EventBounds { oldest: 1, newest: 0 }), None);
    }
}

//! One stream: reads a page when there is something new and hands it on; a slow reader holds one page and nothing else.

use super::streams::{Place, Taken};
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

/// Events handed on at once: what a slow reader holds.
const PAGE_ROWS: u32 = 200;
/// A word at least this often, so that both sides notice a dead connection, and a token that has ended.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The database is asked no more often than this per stream, however much happens.
const PACE: Duration = Duration::from_millis(100);
/// A reader that takes nothing for this long has gone; its place is free again.
const STALL_MAX: Duration = Duration::from_mins(1);
/// How long a browser waits before it connects again.
const RETRY_MS: u32 = 1000;

/// The token a stream was opened with; it is asked about again and again.
#[derive(Clone)]
pub struct Opener {
    pub token: Uuid,
    pub secret_hash: String,
}

struct Reader {
    state: ServerState,
    filter: EventFilter,
    opener: Opener,
    /// The id it goes on behind.
    position: i64,
    news: watch::Receiver<i64>,
    _place: Place,
}

/// Opens a stream behind `after`; without it, behind what there is now. 0 means everything kept.
pub async fn open(
    state: &ServerState,
    opener: Opener,
    filter: EventsFilter,
    after: Option<i64>,
) -> AppResult<mpsc::Receiver<Bytes>> {
    let filter = filter.read()?;
    if after.is_some_and(|after| after < 0) {
        return Err(AppError::invalid("after", "write the id of an event, or 0 for everything that is kept"));
    }
    let place = state.streams.take(opener.token).map_err(|taken| {
        let detail = match taken {
            Taken::All(max) => format!("{max} streams are open already, which is all there may be; try again later"),
            Taken::OfToken(max) => {
                format!("this token has {max} streams open already, which is all it may have; close one of them")
            }
        };
        AppError::refused(Code::Busy, detail)
    })?;
    let news = state.store.events_newest();
    // Another server may have written a moment ago.
    state.store.events_look().await?;
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
    /// Until the server stops, the token ends, the reader goes, or the stream is as old as a connection may be.
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
        if !hand_on(sender, hello).await {
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
            // Asked after reading, so that nothing is shown that happened after the token was revoked.
            if !self.is_let_in().await || (!text.is_empty() && !hand_on(sender, text).await) {
                return;
            }
            if more {
                continue;
            }
            sleep(PACE).await;
            let position = self.position;
            let news = self.news.wait_for(|newest| *newest > position);
            if timeout(KEEP_ALIVE, news).await.is_err() {
                // With the id: whoever filters and hears nothing does not fall behind what is kept.
                let alive = format!(": nothing new\nid: {}\n\n", self.position);
                if !self.is_let_in().await || !hand_on(sender, alive).await {
                    return;
                }
            }
        }
    }

    /// The next events as text, and whether there are more at once.
    async fn page(&mut self) -> margrave_store::Result<(String, bool)> {
        let newest = *self.news.borrow_and_update();
        let range = EventRange { above: self.position, below: newest.saturating_add(1) };
        let store = &self.state.store;
        let events = store.events_page(&self.filter, range, EventOrder::OldestFirst, PAGE_ROWS).await?;
        // Looked at after reading: what was pruned in between counts as missed.
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

    async fn is_let_in(&self) -> bool {
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

/// False when the reader has gone or takes nothing any more.
async fn hand_on(sender: &mpsc::Sender<Bytes>, text: String) -> bool {
    timeout(STALL_MAX, sender.send(Bytes::from(text))).await.is_ok_and(|sent| sent.is_ok())
}

/// What a reader at `position` cannot get any more.
fn gap(position: i64, bounds: EventBounds) -> Option<EventGap> {
    let EventBounds { oldest, newest } = bounds;
    if position > newest {
        let message = format!(
            "event {position} is ahead of this server, as after a restore from a backup; going on behind event {newest}"
        );
        return Some(EventGap { after: position, next: newest + 1, message });
    }
    if position + 1 < oldest {
        let message = format!("events {} to {} are not kept any more", position + 1, oldest - 1);
        return Some(EventGap { after: position, next: oldest, message });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::gap;
    use margrave_store::EventBounds;

    #[test]
    fn a_reader_is_told_what_it_cannot_get() {
        let bounds = EventBounds { oldest: 11, newest: 20 };
        for (position, next) in [(10, None), (15, None), (20, None), (9, Some(11)), (1, Some(11)), (25, Some(21))] {
            assert_eq!(gap(position, bounds).map(|gap| gap.next), next, "behind {position}");
        }
        let nothing_kept = EventBounds { oldest: 21, newest: 20 };
        assert_eq!(gap(20, nothing_kept), None);
        assert_eq!(gap(19, nothing_kept).map(|gap| gap.next), Some(21));
        assert_eq!(gap(0, EventBounds { oldest: 1, newest: 0 }), None);
    }
}

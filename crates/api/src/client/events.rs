//! Events: pages of the history, and a stream that resumes after an interruption.

mod lines;

use super::{ApiClient, ClientError, PageQuery, Result, Terms};
use crate::events::{Event, EventGap};
use crate::page::Page;
use crate::problem::ApiProblem;
use lines::{Frame, Frames};
use reqwest::{Method, Response};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// The server sends something at least every 15 seconds; without data for this long the connection is dead.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// For the head of the response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Between attempts, doubled each time up to the longest.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_LONGEST: Duration = Duration::from_secs(5);
/// reqwest requires a timeout; a stream has none.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// Filter for events; absent fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// A kind or its prefix up to a dot: `deployment` finds `deployment.failed`.
    pub kind: Option<String>,
    pub client: Option<String>,
    pub device: Option<String>,
    pub deployment: Option<String>,
    pub application: Option<String>,
    pub rollout: Option<String>,
    /// RFC 3339; not older than this.
    pub since: Option<String>,
    /// RFC 3339; older than this.
    pub until: Option<String>,
    /// Only events with a greater id. Without it a stream starts with new events; 0 means all kept events.
    pub after: Option<i64>,
}

impl EventQuery {
    fn pairs(&self) -> Vec<(&'static str, Option<String>)> {
        let Self { kind, client, device, deployment, application, rollout, since, until, after: _ } = self.clone();
        vec![
            ("kind", kind),
            ("client", client),
            ("device", device),
            ("deployment", deployment),
            ("application", application),
            ("rollout", rollout),
            ("since", since),
            ("until", until),
        ]
    }
}

/// An item of a stream.
#[derive(Debug)]
pub enum StreamItem {
    Event(Box<Event>),
    /// Some events are no longer available; the stream continues after them.
    Gap(EventGap),
    /// Connected, or connected again; nothing was missed.
    Connected,
    /// The connection is lost and will be re-established; reported once.
    Lost(ClientError),
}

/// A stream of events. It reconnects automatically and continues after the last event: no loss, no duplicates.
#[derive(Debug)]
pub struct EventStream {
    api: ApiClient,
    query: EventQuery,
    last_id: Option<i64>,
    connection: Option<(Response, Frames)>,
    ready: VecDeque<Frame>,
    /// It was connected once: from then on a failure is an interruption.
    connected_once: bool,
    lost: bool,
    pause: Duration,
    retry_at: Option<Instant>,
}

impl ApiClient {
    /// `GET /api/events`: newest first unless requested otherwise.
    pub async fn events(&self, query: &EventQuery, oldest_first: bool, page: &PageQuery) -> Result<Page<Event>> {
        let mut pairs = query.pairs();
        pairs.push(("newerThan", query.after.map(|id| id.to_string())));
        pairs.push(("order", oldest_first.then(|| "oldest".to_owned())));
        pairs.push(("limit", page.limit_text()));
        pairs.push(("after", page.after.clone()));
        self.get(self.url(["events"]), &pairs).await
    }

    /// `GET /api/events/stream`
    pub fn event_stream(&self, query: EventQuery) -> EventStream {
        EventStream {
            api: self.clone(),
            last_id: query.after,
            query,
            connection: None,
            ready: VecDeque::new(),
            connected_once: false,
            lost: false,
            pause: RETRY_FIRST,
            retry_at: None,
        }
    }
}

impl EventStream {
    /// The id of the last event.
    pub fn position(&self) -> Option<i64> {
        self.last_id
    }

    /// Waits for the next item. An error ends the stream: the server rejects the caller, or could not be reached at
    /// all.
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Result<StreamItem> {
        loop {
            while let Some(frame) = self.ready.pop_front() {
                if let Some(streamed) = self.take(frame)? {
                    return Ok(streamed);
                }
            }
            let failed = match &mut self.connection {
                None => match self.connect_in_time().await {
                    Ok(()) => return Ok(StreamItem::Connected),
                    Err(error) => error,
                },
                Some((response, frames)) => {
                    match tokio::time::timeout(SILENCE_MAX, response.chunk()).await {
                        Ok(Ok(Some(chunk))) => {
                            self.ready.extend(frames.push(&chunk).map_err(|()| self.api.odd())?);
                            continue;
                        }
                        // The server ended it, or the connection broke or timed out: handled in the same way.
                        Ok(Ok(None)) | Err(_) => None,
                        Ok(Err(source)) => Some(source),
                    }
                    .map_or(ClientError::StreamEnded, |source| ClientError::BrokenOff {
                        url: self.api.base.clone(),
                        source: source.without_url(),
                    })
                }
            };
            self.connection = None;
            if !self.connected_once || is_final(&failed) {
                return Err(failed);
            }
            if !self.lost {
                self.lost = true;
                return Ok(StreamItem::Lost(failed));
            }
            self.retry_at = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(RETRY_LONGEST);
        }
    }

    async fn connect_in_time(&mut self) -> Result<()> {
        // Kept until it completes, so that a cancelled wait does not start over.
        if let Some(at) = self.retry_at {
            tokio::time::sleep_until(at).await;
            self.retry_at = None;
        }
        self.connect().await
    }

    async fn connect(&mut self) -> Result<()> {
        let url = self.api.url(["events", "stream"]);
        let query: Vec<_> = self.query.pairs().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let mut request = self.api.request(Method::GET, url.clone(), Terms::default()).query(&query).timeout(FOREVER);
        if let Some(id) = self.last_id {
            request = request.header("last-event-id", id.to_string());
        }
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, request.send()).await;
        let response = sent
            .map_err(|_| ClientError::NoAnswer { url: url.clone() })?
            .map_err(|source| ClientError::Unreachable { url: url.clone(), source: source.without_url() })?;
        let status = response.status();
        if !status.is_success() {
            let body = super::read_bounded(response, &url).await?;
            return Err(match serde_json::from_slice::<ApiProblem>(&body) {
                Ok(problem) => ClientError::Problem(Box::new(problem)),
                Err(_) => ClientError::NotMargrave { url, status: status.as_u16() },
            });
        }
        if !super::content_type(&response).starts_with("text/event-stream") {
            return Err(ClientError::NotMargrave { url, status: status.as_u16() });
        }
        self.connection = Some((response, Frames::default()));
        (self.connected_once, self.lost, self.pause) = (true, false, RETRY_FIRST);
        Ok(())
    }

    fn take(&mut self, frame: Frame) -> Result<Option<StreamItem>> {
        let unreadable = |source| ClientError::Unreadable { url: self.api.base.clone(), source };
        let streamed = match (frame.event.as_deref(), frame.data) {
            (Some("gap"), Some(data)) => Some(StreamItem::Gap(serde_json::from_str(&data).map_err(unreadable)?)),
            (None, Some(data)) => Some(StreamItem::Event(Box::new(serde_json::from_str(&data).map_err(unreadable)?))),
            // A newer server may send other kinds.
            (_, None) | (Some(_), Some(_)) => None,
        };
        self.last_id = frame.id.or(self.last_id);
        Ok(streamed)
    }
}

/// Retrying does not help.
fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Problem(problem) => (400..500).contains(&problem.status) && problem.status != 429,
        ClientError::Unreadable { .. } | ClientError::TooLarge { .. } => true,
        _ => false,
    }
}

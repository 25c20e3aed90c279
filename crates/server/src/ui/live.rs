//! `GET /ui/events`: the names of what has changed, as server-sent events; pages then ask for themselves again.
//! `GET /ui/session`: whether somebody is still signed in.

use super::errors::UiError;
use super::visit::Visit;
use crate::app::error::{AppError, Code};
use crate::app::notices::{PACE, Topic, differing};
use crate::app::sessions;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// A word at least this often, so that both sides notice a dead connection, and a session that has ended.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a browser waits before it connects again.
const RETRY_MS: u32 = 1000;

/// Somebody who is not signed in gets no further than the door.
pub(super) async fn session(_visit: Visit) -> StatusCode {
    StatusCode::NO_CONTENT
}

pub(super) async fn events(visit: Visit) -> Result<Response, UiError> {
    let place = visit.state.streams.take(visit.caller().id).map_err(|_| {
        AppError::refused(Code::Busy, "too many pages are open with this token; close some, this one shows no changes")
    })?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _place = place;
        let ends = Instant::now() + visit.state.config.limits.connection_age_max.0;
        let stopping = visit.state.stopping.clone();
        tokio::select! {
            () = stopping.cancelled() => {}
            () = sender.closed() => {}
            () = sleep_until(ends) => {}
            () = tell(&visit, &sender) => {}
        }
    });
    let chunks = futures_util::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Bytes>| {
        let chunk = receiver.recv().await?;
        Some((Ok::<_, Infallible>(chunk), receiver))
    });
    let mut response = Body::from_stream(chunks).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that collect answers would hold notices back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Until the session ends or nobody listens.
async fn tell(visit: &Visit, sender: &mpsc::Sender<Bytes>) {
    let mut notices = visit.state.notices.subscribe();
    let mut before = *notices.borrow_and_update();
    if sender.send(Bytes::from(format!("retry: {RETRY_MS}\nevent: hello\ndata:\n\n"))).await.is_err() {
        return;
    }
    loop {
        let text = match timeout(KEEP_ALIVE, notices.changed()).await {
            Ok(Ok(())) => {
                let now = *notices.borrow_and_update();
                let topics: Vec<&str> = differing(&before, &now).into_iter().map(Topic::as_str).collect();
                before = now;
                format!("event: changed\ndata: {}\n\n", topics.join(" "))
            }
            Ok(Err(_)) => return,
            Err(_) => ": nothing new\n\n".to_owned(),
        };
        let known = sessions::visitor(&visit.state, &visit.secret.0, None).await;
        if !known.is_ok_and(|visitor| visitor.is_some()) || sender.send(Bytes::from(text)).await.is_err() {
            return;
        }
        sleep(PACE).await;
    }
}

//! `GET /ui/events`: the names of changed topics, as server-sent events; pages then reload their live part.
//! `GET /ui/session`: whether the session is still valid.

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

/// Send something at least this often, so that both sides detect a dead connection or an ended session.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a browser waits before it reconnects.
const RETRY_MS: u32 = 1000;

/// Requests without a session are rejected before they get here.
pub(super) async fn session(_visit: Visit) -> StatusCode {
    StatusCode::NO_CONTENT
}

pub(super) async fn events(visit: Visit) -> Result<Response, UiError> {
    let place = visit.state.streams.take(visit.caller().id).map_err(|_| {
        AppError::refused(
            Code::Busy,
            "too many pages are open with this token, so this page does not update automatically; close some of them",
        )
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
            () = send_updates(&visit, &sender) => {}
        }
    });
    let chunks = futures_util::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Bytes>| {
        let chunk = receiver.recv().await?;
        Some((Ok::<_, Infallible>(chunk), receiver))
    });
    let mut response = Body::from_stream(chunks).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that buffer responses would delay notices.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Runs until the session ends or the browser disconnects.
async fn send_updates(visit: &Visit, sender: &mpsc::Sender<Bytes>) {
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

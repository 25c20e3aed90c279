//! A proxy in front of a registry that breaks connections: in the middle of a blob, once or always, or until released.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scheduler turns for the connection to send its data.
const YIELDS: usize = 100;

#[derive(Clone)]
pub(super) struct Front {
    pub(super) host: String,
    upstream: String,
    http: reqwest::Client,
    /// Digest of the blob whose transfer breaks, and how often.
    breaks: Arc<Mutex<Option<(String, usize)>>>,
    pub(super) broken: Arc<AtomicUsize>,
    /// First bytes of range requests.
    pub(super) resumed: Arc<Mutex<Vec<String>>>,
}

impl Front {
    pub(super) async fn start(upstream: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = Self {
            host: listener.local_addr().unwrap().to_string(),
            upstream: upstream.to_owned(),
            http: reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap(),
            breaks: Arc::default(),
            broken: Arc::default(),
            resumed: Arc::default(),
        };
        let router = axum::Router::new().fallback(forward).with_state(front.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        front
    }

    pub(super) fn break_at(&self, digest: &str, times: usize) {
        *self.breaks.lock() = Some((digest.to_owned(), times));
    }
}

async fn forward(State(front): State<Front>, request: Request) -> Response {
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut upstream = front.http.get(format!("http://{}{path}", front.upstream));
    for name in [header::ACCEPT, header::RANGE] {
        if let Some(value) = request.headers().get(&name) {
            upstream = upstream.header(name, value.clone());
        }
    }
    if let Some(range) = request.headers().get(header::RANGE) {
        front.resumed.lock().push(range.to_str().unwrap().to_owned());
    }
    let answer = upstream.send().await.unwrap();
    let mut response = Response::builder().status(answer.status());
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_RANGE] {
        if let Some(value) = answer.headers().get(&name) {
            response = response.header(name, value.clone());
        }
    }
    let bytes = answer.bytes().await.unwrap();
    let breaks = front.breaks.lock().as_mut().is_some_and(|(digest, times)| {
        let now = path.ends_with(digest.as_str()) && *times > 0;
        *times -= usize::from(now);
        now
    });
    if !breaks {
        return response.body(Body::from(bytes)).unwrap();
    }
    front.broken.fetch_add(1, Ordering::SeqCst);
    let half = bytes.slice(..bytes.len() / 2);
    // Data is sent only when nothing more is queued; only then the connection breaks.
    let broken = futures_util::stream::once(async {
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
        Err::<Bytes, _>(std::io::Error::other("the line broke"))
    });
    let parts = futures_util::stream::iter([Ok(half)]);
    response.body(Body::from_stream(futures_util::StreamExt::chain(parts, broken))).unwrap()
}

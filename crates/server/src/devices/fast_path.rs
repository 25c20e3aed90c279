//! Fast path before the routes of the device API: answers unchanged polls and long polls.

use super::long_poll::LongPoll;
use super::manifest::CACHE_CONTROL;
use super::negotiate::{PREFER, accepts, none_match, wait};
use crate::manifest_cache::ClientHandle;
use crate::net::{self, BoxFuture, Connected, Peer};
use crate::state::ServerState;
use crate::telemetry::{REQUEST_ID_HEADER, RequestId, UnchangedPolls, logs_unchanged};
use axum::body::{Body, HttpBody};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use margo::manifest::MANIFEST_MEDIA_TYPE;
use margrave_core::model::ClientState;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub struct FastPath {
    state: ServerState,
    /// The address of the manifest, with its prefix.
    path: String,
    counts: UnchangedPolls,
}

impl FastPath {
    pub fn new(state: &ServerState) -> Self {
        let path = format!("{}/api/v1/deployments", state.config.listeners.devices.path_prefix);
        let counts = state.metrics.unchanged_polls("devices", path.clone());
        Self { state: state.clone(), path, counts }
    }

    /// The answer to an unchanged poll, by far the most frequent request: the same as from the routes, with policy,
    /// counts and last-seen time, but without what only other requests need (invariant 3). `None` leaves the request to
    /// the routes.
    ///
    /// `client` caches the client for the next poll on the same connection.
    pub fn unchanged<B: HttpBody>(
        &self,
        request: &Request<B>,
        peer: Option<&Peer>,
        client: &OnceLock<ClientHandle>,
    ) -> Option<Response<Body>> {
        let Only::One(held) = only(request.headers(), &header::IF_NONE_MATCH) else { return None };
        if !self.is_usual_poll(request) || logs_unchanged() {
            return None;
        }
        let started = Instant::now();
        let client = match client.get() {
            Some(client) => client,
            None => {
                let found = self.state.heads.handle(&peer?.0.client_id)?;
                client.get_or_init(|| found)
            }
        };
        let current = client.current();
        if current.head.state != ClientState::Accepted || *held != current.etag {
            return None;
        }
        let id = HeaderValue::try_from(RequestId::fresh().0).ok()?;
        client.seen(self.state.now());
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        let headers = response.headers_mut();
        headers.insert(header::ETAG, current.etag.clone());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
        headers.insert(REQUEST_ID_HEADER, id);
        self.counts.count(started.elapsed());
        Some(response)
    }

    /// Whether a request is a poll in the usual form. All others go to the routes, which handle every form.
    fn is_usual_poll<B: HttpBody>(&self, request: &Request<B>) -> bool {
        let headers = request.headers();
        let accepts = match only(headers, &header::ACCEPT) {
            Only::None => true,
            Only::One(value) => value == MANIFEST_MEDIA_TYPE || value == "*/*",
            Only::More => false,
        };
        accepts
            && *request.method() == Method::GET
            && request.uri().path() == self.path
            && !headers.contains_key(PREFER)
            && !headers.contains_key(REQUEST_ID_HEADER)
            && request.body().is_end_stream()
    }
}

enum Only<'h> {
    None,
    One(&'h HeaderValue),
    More,
}

fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Only<'h> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (None, _) => Only::None,
        (Some(value), None) => Only::One(value),
        (Some(_), Some(_)) => Only::More,
    }
}

impl net::FastPath for FastPath {
    fn respond(&self, request: &Request<Incoming>, connected: &Connected) -> Option<Response<Body>> {
        self.unchanged(request, connected.peer.as_ref(), &connected.client)
    }

    /// Delays a long poll that would be answered with 304. In the end the routes answer it, like a poll that arrives at
    /// that moment.
    fn long_poll(&self, request: &Request<Incoming>, connected: &Connected) -> Option<BoxFuture<Option<HeaderValue>>> {
        let requested = wait(request.headers())?;
        if *request.method() != Method::GET || request.uri().path() != self.path {
            return None;
        }
        let Self { state, .. } = self;
        let client = &connected.peer.as_ref()?.0.client_id;
        let head = state.heads.get(client).filter(|head| head.state == ClientState::Accepted)?;
        let unchanged = none_match(request.headers(), &head.digest.etag());
        if !unchanged || !accepts(request.headers(), MANIFEST_MEDIA_TYPE) {
            return None;
        }
        let room = state.long_polls.room(requested)?;
        state.heads.seen(client, state.now());
        let lifetime = Arc::clone(&connected.lifetime);
        let long_poll = LongPoll { waiting: state.heads.wait(client)?, unchanged: head, lifetime };
        Some(Box::pin(long_poll.run(room)))
    }
}

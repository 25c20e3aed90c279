//! What stands before the routes of the device API.

use super::hold::Hold;
use super::negotiate::{accepts, none_match, wait};
use crate::net::{self, BoxFuture, Connected};
use crate::state::ServerState;
use http::{HeaderValue, Method, Request};
use hyper::body::Incoming;
use margo::manifest::MANIFEST_MEDIA_TYPE;
use margrave_core::model::ClientState;

pub struct Front {
    state: ServerState,
    /// The address of the manifest, with its prefix.
    path: String,
}

impl Front {
    pub fn new(state: &ServerState) -> Self {
        let path = format!("{}/api/v1/deployments", state.config.listeners.devices.path_prefix);
        Self { state: state.clone(), path }
    }
}

impl net::Front for Front {
    /// Holds a poll that asks for it and would be answered with 304. Whatever happens meanwhile, the routes answer it in the
    /// end, as they would a poll that comes just then.
    fn hold(&self, request: &Request<Incoming>, connected: &Connected) -> Option<BoxFuture<Option<HeaderValue>>> {
        let wanted = wait(request.headers())?;
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
        let room = state.holds.room(wanted)?;
        state.heads.seen(client, state.now());
        let hold = Hold { waiting: state.heads.wait(client)?, unchanged: head, closing: connected.closing.clone() };
        Some(Box::pin(hold.run(room)))
    }
}

//! The service of a listener: routes, and for devices a fast path before them.

use super::{Lifetime, Peer, RemoteAddress};
use crate::manifest_cache::ClientHandle;
use axum::Router;
use axum::body::Body;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Data of a connection, for its lifetime.
#[derive(Debug)]
pub struct Connected {
    pub peer: Option<Peer>,
    pub remote: RemoteAddress,
    /// Signals when the connection has to close: delayed requests should be answered then.
    pub lifetime: Arc<Lifetime>,
    /// The client of the peer, looked up once.
    pub client: OnceLock<ClientHandle>,
}

/// Sees a request before the routes do.
pub trait FastPath: Send + Sync {
    /// A response without the routes: exactly what the routes would return.
    fn respond(&self, request: &Request<Incoming>, connected: &Connected) -> Option<Response<Body>>;

    /// What the routes have to wait for. Returns the `Preference-Applied` of the response, if any (RFC 7240).
    fn long_poll(&self, request: &Request<Incoming>, connected: &Connected) -> Option<BoxFuture<Option<HeaderValue>>>;
}

#[derive(Clone)]
pub struct Site {
    pub router: Router,
    pub fast_path: Option<Arc<dyn FastPath>>,
}

impl From<Router> for Site {
    fn from(router: Router) -> Self {
        Self { router, fast_path: None }
    }
}

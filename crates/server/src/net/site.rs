//! What a listener serves: routes, and for devices something in front of them.

use super::{Lifetime, Peer, RemoteAddress};
use crate::heads::Known;
use axum::Router;
use axum::body::Body;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What is known of a connection, for as long as it lasts.
#[derive(Debug)]
pub struct Connected {
    pub peer: Option<Peer>,
    pub remote: RemoteAddress,
    /// Says when the connection has to close: whoever lets a request wait should let it go then.
    pub lifetime: Arc<Lifetime>,
    /// The peer among the clients known here, found once.
    pub known: OnceLock<Known>,
}

/// Sees a request before the routes do.
pub trait Front: Send + Sync {
    /// An answer that needs no route: exactly what the routes would say.
    fn answer(&self, request: &Request<Incoming>, connected: &Connected) -> Option<Response<Body>>;

    /// What the routes have to wait for. It gives the `Preference-Applied` of the answer, if there is one (RFC 7240).
    fn hold(&self, request: &Request<Incoming>, connected: &Connected) -> Option<BoxFuture<Option<HeaderValue>>>;
}

#[derive(Clone)]
pub struct Site {
    pub router: Router,
    pub front: Option<Arc<dyn Front>>,
}

impl From<Router> for Site {
    fn from(router: Router) -> Self {
        Self { router, front: None }
    }
}

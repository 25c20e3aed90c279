//! What a listener serves: routes, and for devices something in front of them.

use super::{Peer, RemoteAddress};
use axum::Router;
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What is known of a connection, for as long as it lasts.
#[derive(Debug)]
pub struct Connected {
    pub peer: Option<Peer>,
    pub remote: RemoteAddress,
    /// Cancelled when the connection has to close soon: whoever lets a request wait should let it go.
    pub closing: CancellationToken,
}

/// Sees a request before the routes do.
pub trait Front: Send + Sync {
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

//! The accept loop. A handshake never blocks accepting, and everything has a time limit.

use super::tls::Tls;
use super::verify::peer_of;
use super::{BoxFuture, Connected, Peer, RemoteAddress, Site};
use crate::telemetry::Metrics;
use axum::Router;
use axum::body::Body;
use http::{HeaderName, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use margrave_core::time::Clock;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

#[cfg(test)]
mod tests;

/// Pause after `accept` failed, typically because file descriptors ran out: closing connections need a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for the answer under way when a connection has to close whose client proved itself by a certificate: it ends
/// soon after what proved it (TLS-03).
pub const CLOSE_GRACE: Duration = Duration::from_secs(10);
/// The same where requests prove themselves one by one. Nothing is lost by letting one finish that goes on, such as a
/// large image layer over a slow line; what stands still does not stay for ever.
const TRANSFER_GRACE: Duration = Duration::from_hours(24);
/// Enough for every header of the protocol; a request head beyond it gets 431.
const REQUEST_HEAD_BYTES_MAX: usize = 32 * 1024;
const REQUEST_HEADERS_MAX: usize = 64;
/// RFC 7240: which wishes of the request were granted.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// What a listener is and how far it goes.
#[derive(Clone)]
pub struct Options {
    /// `devices`, `trust`, `operators`: in logs and metrics.
    pub name: &'static str,
    /// HTTP/1.1 and nothing else (GEN-03).
    pub http1_only: bool,
    pub connections_max: usize,
    pub handshake_timeout: Duration,
    pub idle_timeout: Duration,
    pub connection_age_max: Duration,
    /// [`CLOSE_GRACE`].
    pub close_grace: Duration,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// A socket that is bound but not yet served, so that every address is known before anybody is answered.
pub struct Bound {
    pub address: SocketAddr,
    listener: TcpListener,
}

impl Bound {
    pub async fn to(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    /// Serves until `stop` is cancelled; connections are then drained by `connections`. `tls` is `None` for plain HTTP.
    pub async fn serve(
        self,
        options: Options,
        tls: Option<Tls>,
        site: impl Into<Site>,
        stop: CancellationToken,
        connections: TaskTracker,
    ) {
        let site = site.into();
        let options = Arc::new(options);
        let permits = Arc::new(Semaphore::new(options.connections_max.min(Semaphore::MAX_PERMITS)));
        loop {
            // At the limit nothing is accepted: the kernel's queue holds newcomers back.
            let permit = tokio::select! {
                () = stop.cancelled() => return,
                permit = Arc::clone(&permits).acquire_owned() => permit.expect("the semaphore is never closed"),
            };
            let (stream, remote) = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(listener = options.name, %error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let connection =
                Connection { options: Arc::clone(&options), remote, site: site.clone(), stop: stop.clone() };
            let tls = tls.clone();
            connections.spawn(async move {
                connection.run(stream, tls).await;
                drop(permit);
            });
        }
    }
}

struct Connection {
    options: Arc<Options>,
    remote: SocketAddr,
    site: Site,
    stop: CancellationToken,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<Tls>) {
        // Answers are small and waited for.
        let _ = stream.set_nodelay(true);
        let Some(mut tls) = tls else {
            let never = watch::Sender::new(());
            return self.speak(stream, None, self.options.connection_age_max, never.subscribe()).await;
        };
        let config = Arc::clone(&tls.borrow_and_update());
        let name = self.options.name;
        let handshake = TlsAcceptor::from(config).accept(stream);
        let stream = match timeout(self.options.handshake_timeout, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.options.metrics.handshake_failed(name);
                return tracing::debug!(listener = name, remote = %self.remote, %error, "handshake failed");
            }
            Err(_) => {
                self.options.metrics.handshake_failed(name);
                return tracing::debug!(listener = name, remote = %self.remote, "handshake took too long");
            }
        };
        let peer = stream.get_ref().1.peer_certificates().and_then(|chain| peer_of(chain.first()?));
        let age_max = peer.as_ref().map_or(self.options.connection_age_max, |(_, ends_at)| {
            // Never beyond the client's certificate (TLS-03).
            self.options.connection_age_max.min(ends_at.since(self.options.clock.now()))
        });
        self.speak(stream, peer.map(|(identity, _)| Peer(identity)), age_max, tls).await;
    }

    /// HTTP until the client leaves, the connection is too old, its trust has changed, or the server stops.
    async fn speak<T>(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: Option<Peer>,
        age_max: Duration,
        mut trust: watch::Receiver<T>,
    ) {
        let grace = if peer.is_some() { self.options.close_grace } else { TRANSFER_GRACE };
        let closing = CancellationToken::new();
        let connected = Connected { peer, remote: RemoteAddress(self.remote), closing: closing.clone() };
        let asked = Arc::new(Notify::new());
        let first_request = Arc::clone(&asked);
        let site = self.site.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            first_request.notify_one();
            answer(&site, &connected, request)
        });
        let builder = self.builder();
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let reason = tokio::select! {
            ended = connection.as_mut() => return self.ended(ended),
            () = self.stop.cancelled() => "the server stops",
            () = sleep(age_max) => "it has reached its age",
            () = self.silent(&asked) => {
                return tracing::debug!(listener = self.options.name, remote = %self.remote, "no request came");
            }
            Ok(()) = trust.changed() => "certificates or trust have changed",
        };
        tracing::debug!(listener = self.options.name, remote = %self.remote, reason, "closing a connection");
        closing.cancel();
        connection.as_mut().graceful_shutdown();
        // When the server stops, the drain timeout of the whole process is the limit.
        tokio::select! {
            ended = connection.as_mut() => self.ended(ended),
            () = sleep(grace) => {}
        }
    }

    /// Ends when the first request has not come in time. HTTP itself looks for silence only later: neither finding out
    /// its version nor the preface of HTTP/2 has a time limit.
    async fn silent(&self, asked: &Notify) {
        if timeout(self.options.idle_timeout, asked.notified()).await.is_ok() {
            pending::<()>().await;
        }
    }

    fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .keep_alive(true)
            .header_read_timeout(self.options.idle_timeout)
            .max_headers(REQUEST_HEADERS_MAX)
            .max_buf_size(REQUEST_HEAD_BYTES_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(self.options.idle_timeout)
            .keep_alive_timeout(self.options.handshake_timeout)
            .max_header_list_size(REQUEST_HEAD_BYTES_MAX as u32);
        if self.options.http1_only { builder.http1_only() } else { builder }
    }

    fn ended(&self, result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
        if let Err(error) = result {
            tracing::debug!(listener = self.options.name, remote = %self.remote, %error, "a connection broke off");
        }
    }
}

/// One request, after what holds it back.
fn answer(
    site: &Site,
    connected: &Connected,
    request: Request<Incoming>,
) -> BoxFuture<Result<Response<Body>, Infallible>> {
    let hold = site.front.as_ref().and_then(|front| front.hold(&request, connected));
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(connected.remote);
    if let Some(peer) = &connected.peer {
        request.extensions_mut().insert(peer.clone());
    }
    let mut router = site.router.clone();
    Box::pin(async move {
        let applied = match hold {
            Some(hold) => hold.await,
            None => None,
        };
        // A router is always ready.
        let Ok(()) =
            poll_fn(|context| <Router as tower::Service<Request<Body>>>::poll_ready(&mut router, context)).await;
        let Ok(mut response) = router.call(request).await;
        if let (Some(applied), StatusCode::OK | StatusCode::NOT_MODIFIED) = (applied, response.status()) {
            response.headers_mut().insert(PREFERENCE_APPLIED, applied);
        }
        Ok(response)
    })
}

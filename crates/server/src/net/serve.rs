//! The accept loop. A handshake never blocks accepting, and everything has a time limit.

use super::idle::{FlushTracker, Readable};
use super::lifetime::{CloseReason, Lifetime, Lifetimes, TrackedBody};
use super::tls::Tls;
use super::verify::peer_of;
use super::{BoxFuture, Connected, Peer, RemoteAddress, Site};
use crate::telemetry::Metrics;
use axum::Router;
use axum::body::{Body, HttpBody as _};
use futures_util::future::Either;
use http::{HeaderName, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use margrave_core::time::Clock;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

#[cfg(test)]
mod tests;

/// Pause after `accept` failed, typically because file descriptors ran out: closing connections need a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for the response in progress when a connection closes whose client is authenticated by a certificate: it ends
/// soon after the certificate (TLS-03).
pub const CLOSE_GRACE: Duration = Duration::from_secs(10);
/// The same where each request is authenticated. A transfer that makes progress may finish, such as a
/// large image layer over a slow link; a stalled one is closed.
const TRANSFER_GRACE: Duration = Duration::from_hours(24);
/// A device connection without requests for this long becomes idle; polls in quick succession are not affected.
pub const REST_AFTER: Duration = Duration::from_millis(250);
/// Time for closing an idle connection.
const SILENCE_GRACE: Duration = Duration::from_secs(1);
/// Enough for every header of the protocol; a larger request head gets 431.
const REQUEST_HEAD_BYTES_MAX: usize = 32 * 1024;
const REQUEST_HEADERS_MAX: usize = 64;
/// RFC 7240: which preferences of the request were applied.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Options and limits of a listener.
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
    /// [`REST_AFTER`].
    pub rest_after: Duration,
    /// [`CLOSE_GRACE`].
    pub close_grace: Duration,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// A socket that is bound but not served yet, so that every address is known before the first response.
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
        let lifetimes = Lifetimes::new(options.idle_timeout, options.connection_age_max, options.rest_after);
        match &tls {
            Some(tls) => tokio::spawn(Arc::clone(&lifetimes).run(stop.clone(), tls.clone())),
            None => tokio::spawn(Arc::clone(&lifetimes).run(stop.clone(), watch::Sender::new(()).subscribe())),
        };
        let permits = Arc::new(Semaphore::new(options.connections_max.min(Semaphore::MAX_PERMITS)));
        loop {
            // At the limit nothing is accepted: new connections wait in the kernel's queue.
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
            let connection = Connection {
                options: Arc::clone(&options),
                lifetimes: Arc::clone(&lifetimes),
                remote,
                site: site.clone(),
                stop: stop.clone(),
            };
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
    lifetimes: Arc<Lifetimes>,
    remote: SocketAddr,
    site: Site,
    stop: CancellationToken,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<Tls>) {
        // Responses are small and latency matters.
        let _ = stream.set_nodelay(true);
        let trust = self.lifetimes.trust();
        let Some(tls) = tls else {
            return self.speak(stream, None, self.options.connection_age_max, trust).await;
        };
        let config = Arc::clone(&tls.borrow());
        drop(tls);
        let Some(stream) = self.tls_handshake(stream, config).await else { return };
        let peer = stream.get_ref().1.peer_certificates().and_then(|chain| peer_of(chain.first()?));
        let age_max = peer.as_ref().map_or(self.options.connection_age_max, |(_, ends_at)| {
            // Never longer than the client's certificate (TLS-03).
            self.options.connection_age_max.min(ends_at.since(self.options.clock.now()))
        });
        self.speak(stream, peer.map(|(identity, _)| Peer(identity)), age_max, trust).await;
    }

    /// Boxed: the memory of a handshake is released before the long life of its connection. So is the stream: its next
    /// owner would otherwise reserve space for another one.
    fn tls_handshake(
        &self,
        stream: TcpStream,
        config: Arc<ServerConfig>,
    ) -> Pin<Box<dyn Future<Output = Option<Secured>> + Send + '_>> {
        Box::pin(async move {
            let name = self.options.name;
            let handshake = TlsAcceptor::from(config).accept(stream);
            match timeout(self.options.handshake_timeout, handshake).await {
                Ok(Ok(stream)) => return Some(Box::new(stream)),
                Ok(Err(error)) => tracing::debug!(listener = name, remote = %self.remote, %error, "handshake failed"),
                Err(_) => tracing::debug!(listener = name, remote = %self.remote, "handshake timed out"),
            }
            self.options.metrics.handshake_failed(name);
            None
        })
    }

    /// HTTP until the client disconnects, the connection is too old, its trust has changed, or the server stops.
    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Readable + Send + Sync + Unpin + 'static,
        peer: Option<Peer>,
        age_max: Duration,
        trust: u64,
    ) {
        let grace = if peer.is_some() { self.options.close_grace } else { TRANSFER_GRACE };
        let lifetime = self.lifetimes.begin(age_max, trust, self.options.http1_only, &self.stop);
        let remote = RemoteAddress(self.remote);
        let connected = Connected { peer, remote, lifetime: Arc::clone(&lifetime), client: OnceLock::new() };
        let site = self.site.clone();
        let service = service_fn(move |request: Request<Incoming>| respond(&site, &connected, request));
        if self.options.http1_only {
            self.drive_http1(FlushTracker::new(stream, Arc::clone(&lifetime)), service, &lifetime, grace).await;
        } else {
            let stream = TokioIo::new(stream);
            let connection = self.builder().serve_connection(stream, service).into_owned();
            self.drive(Box::pin(connection), &lifetime, grace).await;
        }
    }

    /// Like [`Self::drive`], with idle phases.
    async fn drive_http1<S, F>(&self, mut stream: FlushTracker<S>, mut service: F, lifetime: &Lifetime, grace: Duration)
    where
        S: AsyncRead + AsyncWrite + Readable + Send + Unpin + 'static,
        F: Serve,
    {
        loop {
            let mut connection = Box::new(Self::http1().serve_connection(TokioIo::new(stream), service));
            let next = poll_fn(|context| {
                // Checked first: a delayed long poll is answered with `Connection: close`.
                if let Poll::Ready(reason) = lifetime.poll_closing(context) {
                    return Poll::Ready(Next::Close(reason));
                }
                match Pin::new(&mut *connection).poll(context) {
                    Poll::Ready(ended) => Poll::Ready(Next::Ended(ended)),
                    Poll::Pending if lifetime.rests() => Poll::Ready(Next::Rest),
                    Poll::Pending => Poll::Pending,
                }
            });
            match next.await {
                Next::Ended(ended) => return self.ended(ended),
                Next::Close(reason) => return self.close(Pin::new(&mut *connection), reason, grace).await,
                Next::Rest => {}
            }
            let parts = connection.into_parts();
            stream = parts.io.into_inner();
            stream.unread(parts.read_buf);
            service = parts.service;
            let _rest = self.options.metrics.rests();
            let woken = poll_fn(|context| match lifetime.poll_closing(context) {
                Poll::Ready(reason) => Poll::Ready(Err(reason)),
                Poll::Pending => stream.poll_readable(context).map(Ok),
            });
            match woken.await {
                Ok(()) => lifetime.wakes(),
                Err(reason) => {
                    self.closes(reason);
                    // No request is in progress: only the TLS shutdown is left.
                    let _ = timeout(SILENCE_GRACE, stream.shutdown()).await;
                    return;
                }
            }
        }
    }

    #[expect(clippy::manual_async_fn, reason = "the compiler cannot infer that it is `Send`")]
    fn drive<'c, C>(
        &'c self,
        mut connection: Pin<Box<C>>,
        lifetime: &'c Lifetime,
        grace: Duration,
    ) -> impl Future<Output = ()> + Send + 'c
    where
        C: GracefulConnection + Send + 'static,
        C::Error: std::fmt::Display,
    {
        async move {
            let ended = poll_fn(|context| {
                // Checked first: a delayed long poll is answered with `Connection: close`.
                match lifetime.poll_closing(context) {
                    Poll::Ready(reason) => Poll::Ready(Err(reason)),
                    Poll::Pending => connection.as_mut().poll(context).map(Ok),
                }
            });
            let reason = match ended.await {
                Ok(result) => return self.ended(result),
                Err(reason) => reason,
            };
            self.close(connection.as_mut(), reason, grace).await;
        }
    }

    async fn close<C>(&self, mut connection: Pin<&mut C>, reason: CloseReason, grace: Duration)
    where
        C: GracefulConnection,
        C::Error: std::fmt::Display,
    {
        self.closes(reason);
        connection.as_mut().graceful_shutdown();
        // When the server stops, the drain timeout of the whole process is the limit.
        let grace = if reason == CloseReason::Silence { SILENCE_GRACE } else { grace };
        tokio::select! {
            ended = connection => self.ended(ended),
            () = sleep(grace) => {}
        }
    }

    fn closes(&self, reason: CloseReason) {
        let reason = reason.text();
        tracing::debug!(listener = self.options.name, remote = %self.remote, reason, "closing connection");
    }

    /// For devices (GEN-03). [`Lifetimes`] handles idle connections: a timer here would be reset for every request.
    fn http1() -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder.keep_alive(true).max_headers(REQUEST_HEADERS_MAX).max_buf_size(REQUEST_HEAD_BYTES_MAX);
        builder
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
        builder
    }

    fn ended(&self, result: Result<(), impl std::fmt::Display>) {
        if let Err(error) = result {
            tracing::debug!(listener = self.options.name, remote = %self.remote, %error, "connection lost");
        }
    }
}

/// A stream after its handshake.
type Secured = Box<TlsStream<TcpStream>>;

type Answer = Result<Response<TrackedBody>, Infallible>;

/// The next step of a connection.
enum Next {
    Ended(hyper::Result<()>),
    Close(CloseReason),
    Rest,
}

/// The service of a connection.
trait Serve:
    Service<Request<Incoming>, Response = Response<TrackedBody>, Error = Infallible, Future: Send + Unpin> + Send + Unpin
{
}

impl<F> Serve for F where
    F: Service<Request<Incoming>, Response = Response<TrackedBody>, Error = Infallible, Future: Send + Unpin>
        + Send
        + Unpin
{
}

/// One request: answered by the fast path if possible, otherwise by the routes, after any long poll.
fn respond(site: &Site, connected: &Connected, request: Request<Incoming>) -> Either<Ready<Answer>, BoxFuture<Answer>> {
    if let Some(response) = site.fast_path.as_ref().and_then(|fast_path| fast_path.respond(&request, connected)) {
        connected.lifetime.requested();
        return Either::Left(ready(Ok(response.map(|body| TrackedBody::new(body, None)))));
    }
    let in_progress = connected.lifetime.begin_request(request.is_end_stream());
    let long_poll = site.fast_path.as_ref().and_then(|fast_path| fast_path.long_poll(&request, connected));
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(connected.remote);
    if let Some(peer) = &connected.peer {
        request.extensions_mut().insert(peer.clone());
    }
    let mut router = site.router.clone();
    Either::Right(Box::pin(async move {
        let applied = match long_poll {
            Some(long_poll) => long_poll.await,
            None => None,
        };
        // A router is always ready.
        let Ok(()) =
            poll_fn(|context| <Router as tower::Service<Request<Body>>>::poll_ready(&mut router, context)).await;
        let Ok(mut response) = router.call(request).await;
        if let (Some(applied), StatusCode::OK | StatusCode::NOT_MODIFIED) = (applied, response.status()) {
            response.headers_mut().insert(PREFERENCE_APPLIED, applied);
        }
        Ok(response.map(|body| TrackedBody::new(body, Some(in_progress))))
    }))
}

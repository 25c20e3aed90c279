//! One connection of one device: mutual TLS as the agent does it, HTTP/1.1, one request at a time.
//!
//! Not the agent's own HTTP client: a pool for each of ten thousand devices would cost more than the devices, and the
//! limit on open connections needs to know when a connection is really closed.

use super::Shared;
use anyhow::Context as _;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ETAG, HOST, HeaderName, RETRY_AFTER, USER_AGENT};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use margrave_agent::identity::Identity;
use margrave_agent::machine::io::{Answer, Request, Response};
use margrave_agent::{Code, http as agent_http, tls};
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

/// The agent's defaults.
const CONNECT_MAX: Duration = Duration::from_secs(10);
const REQUEST_MAX: Duration = Duration::from_mins(1);

/// The device API of one server.
#[derive(Debug)]
pub(super) struct Target {
    base: String,
    host: String,
    port: u16,
    authority: String,
    name: ServerName<'static>,
}

impl Target {
    pub(super) fn parse(url: &str) -> anyhow::Result<Self> {
        let read = Url::parse(url).with_context(|| format!("read the address of the device API `{url}`"))?;
        let host = read.host_str().context("the address of the device API has no host")?;
        let bare = host.trim_matches(['[', ']']).to_owned();
        let port = read.port_or_known_default().unwrap_or(443);
        Ok(Self {
            base: read.path().trim_end_matches('/').to_owned(),
            authority: format!("{host}:{port}"),
            name: ServerName::try_from(bare.clone()).with_context(|| format!("`{bare}` is not a host name"))?,
            host: bare,
            port,
        })
    }
}

pub(super) struct Link {
    sender: SendRequest<Full<Bytes>>,
}

/// The result of a request.
pub(super) struct RequestResult {
    pub(super) answer: Answer,
    /// From sending the request to the end of the response, without connecting.
    pub(super) took: Duration,
    /// The connection, if it is reusable.
    pub(super) link: Option<Link>,
}

/// Sends one request over an existing or a new connection. Failures are returned like responses.
pub(super) async fn exchange(
    shared: &Shared,
    identity: &Identity,
    link: Option<Link>,
    request: Request,
) -> RequestResult {
    // Skip a connection that the server has closed.
    let mut link = link.filter(|held| !held.sender.is_closed());
    // A reused connection may close while it is used: only then retry once on a new one.
    for fresh in [false, true] {
        let mut held = match link.take() {
            Some(held) => held,
            None => match connect(shared, identity).await {
                Ok(held) => held,
                Err(answer) => return RequestResult { answer, took: Duration::ZERO, link: None },
            },
        };
        let started = Instant::now();
        match tokio::time::timeout(REQUEST_MAX + held_for(&request), send(shared, &mut held, request.clone())).await {
            Err(_) => {
                return RequestResult {
                    answer: unreachable("response timed out"),
                    took: started.elapsed(),
                    link: None,
                };
            }
            Ok(Err(error)) if error.is_canceled() && !fresh => {}
            Ok(Err(error)) => {
                return RequestResult { answer: unreachable(&error.to_string()), took: started.elapsed(), link: None };
            }
            Ok(Ok(answer)) => return RequestResult { answer, took: started.elapsed(), link: Some(held) },
        }
    }
    RequestResult { answer: unreachable("the connection was closed twice"), took: Duration::ZERO, link: None }
}

/// Additional time for the response to a long poll.
fn held_for(request: &Request) -> Duration {
    match request {
        Request::Poll { wait, .. } => Duration::from_secs(wait.unwrap_or(0)),
        _ => Duration::ZERO,
    }
}

fn unreachable(message: &str) -> Answer {
    Answer::Failed { code: Code::ServerUnreachable, message: message.to_owned() }
}

/// Waits for a connection permit, then connects.
async fn connect(shared: &Shared, identity: &Identity) -> Result<Link, Answer> {
    let Ok(permit) = Arc::clone(&shared.permits).acquire_owned().await else {
        return Err(unreachable("the simulator is stopping"));
    };
    let open = shared.tally.connection();
    let started = Instant::now();
    let target = &shared.target;
    let config = tls::wfm_config(identity, Arc::clone(&shared.clock))
        .map_err(|error| Answer::Failed { code: Code::IdentityUnusable, message: error.to_string() })?;
    let secure = async {
        let socket = TcpStream::connect((target.host.as_str(), target.port)).await?;
        socket.set_nodelay(true)?;
        TlsConnector::from(Arc::new(config)).connect(target.name.clone(), socket).await
    };
    let stream = match tokio::time::timeout(CONNECT_MAX, secure).await {
        Err(_) => return Err(unreachable("connection timed out")),
        Ok(Err(error)) => return Err(failed(&error)),
        Ok(Ok(stream)) => stream,
    };
    let (sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error.to_string()))?;
    shared.tally.opened(started.elapsed());
    tokio::spawn(async move {
        // An open request reports why the connection ended.
        let _ = connection.await;
        drop((permit, open));
    });
    Ok(Link { sender })
}

fn failed(error: &std::io::Error) -> Answer {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(tls) => {
            let (code, message) = agent_http::explain_tls(tls);
            Answer::Failed { code, message }
        }
        None => unreachable(&error.to_string()),
    }
}

async fn send(shared: &Shared, link: &mut Link, request: Request) -> Result<Answer, hyper::Error> {
    let target = &shared.target;
    let (method, path, headers, body, limit) = agent_http::parts(request);
    let mut builder = http::Request::builder()
        .method(method)
        .uri(format!("{}{path}", target.base))
        .header(HOST, &target.authority)
        .header(USER_AGENT, concat!("margrave-sim/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT_ENCODING, "identity");
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    let Ok(request) = builder.body(Full::new(Bytes::from(body.unwrap_or_default()))) else {
        return Ok(unreachable("the request cannot be written"));
    };
    link.sender.ready().await?;
    let response = link.sender.send_request(request).await?;
    let status = response.status().as_u16();
    let header = |name: HeaderName| response.headers().get(name)?.to_str().ok().map(str::to_owned);
    let (etag, retry_after) = (header(ETAG), header(RETRY_AFTER));
    let waited = header(agent_http::PREFERENCE_APPLIED).and_then(|applied| agent_http::waited(&applied));
    Ok(match Limited::new(response.into_body(), limit).collect().await {
        Ok(body) => Answer::Response(Response { status, etag, retry_after, waited, body: body.to_bytes().to_vec() }),
        Err(error) => Answer::Failed { code: Code::AnswerTooLarge, message: error.to_string() },
    })
}

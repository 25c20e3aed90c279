//! HTTP to the WFM: one client with mutual TLS, bounded bodies, timeouts everywhere, no redirects.

use crate::codes::Code;
use crate::config::{HttpConfig, ProxyConfig};
use crate::machine::io::{Answer, Request, Response};
use margo::manifest::{BUNDLE_MEDIA_TYPE, MANIFEST_MEDIA_TYPE};
use reqwest::Method;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, RETRY_AFTER};
use std::time::Duration;
use url::Url;

/// Ten thousand deployments with generous entries.
const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// One deployment document: far above any real one.
const YAML_BYTES_MAX: usize = 1 << 20;
/// All documents of a client, compressed.
const BUNDLE_BYTES_MAX: usize = 64 << 20;
/// Acknowledgements and problem documents.
const SMALL_BYTES_MAX: usize = 256 << 10;

/// An idle connection is closed after this: longer than a usual poll period, shorter than most firewall timeouts.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// A long poll uses one connection; reports and fetches use another.
const IDLE_CONNECTIONS_MAX: usize = 2;

/// Keeps firewalls and NAT open during a long poll, and detects a dead connection.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// A long poll without a response this long after its time is lost.
const LONG_POLL_MARGIN: Duration = Duration::from_secs(10);

const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The server's answer to `Prefer`.
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    #[error("read the proxy password file: {0}")]
    ProxyPassword(String),
}

/// A client with `tls` and the configured proxy. The environment is ignored.
pub fn client(
    tls: rustls::ClientConfig,
    http: &HttpConfig,
    proxy: Option<&ProxyConfig>,
) -> Result<reqwest::Client, HttpError> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        // GEN-03
        .http1_only()
        .https_only(true)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(http.connect_timeout)
        .timeout(http.request_timeout)
        .pool_idle_timeout(IDLE_MAX.min(http.connection_age_max))
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .tcp_keepalive(KEEPALIVE)
        .tcp_keepalive_interval(KEEPALIVE)
        .user_agent(concat!("margrave-agent/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = proxy {
        let mut tunnel = reqwest::Proxy::all(proxy.url.clone()).map_err(HttpError::Setup)?;
        if let Some(username) = &proxy.username {
            let password = match &proxy.password_file {
                Some(path) => {
                    std::fs::read_to_string(path).map_err(|error| HttpError::ProxyPassword(error.to_string()))?
                }
                None => String::new(),
            };
            tunnel = tunnel.basic_auth(username, password.trim_end());
        }
        builder = builder.proxy(tunnel);
    }
    builder.build().map_err(HttpError::Setup)
}

/// The device API of one WFM.
#[derive(Debug, Clone)]
pub struct Wfm {
    client: reqwest::Client,
    base: Url,
    request_timeout: Duration,
}

impl Wfm {
    pub fn new(client: reqwest::Client, base: Url, request_timeout: Duration) -> Self {
        Self { client, base, request_timeout }
    }

    /// W-03: the configured base with its prefix, then the path from `/api/v1/` on.
    fn url(&self, path: &str) -> Result<Url, url::ParseError> {
        Url::parse(&format!("{}{path}", self.base.as_str().trim_end_matches('/')))
    }

    /// Sends one request. A failed request returns an `Answer` too.
    pub async fn send(&self, request: Request) -> Answer {
        let wait = match &request {
            Request::Poll { wait, .. } => Duration::from_secs(wait.unwrap_or(0)),
            _ => Duration::ZERO,
        };
        let (method, path, headers, body, limit) = parts(request);
        let url = match self.url(&path) {
            Ok(url) => url,
            Err(error) => return Answer::Failed { code: Code::ServerUnreachable, message: error.to_string() },
        };
        let mut builder = self.client.request(method, url).header(ACCEPT_ENCODING, "identity");
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        if let Some(body) = body {
            builder = builder.body(body);
        }
        if wait.is_zero() {
            return match builder.send().await {
                Ok(response) => receive(response, limit).await,
                Err(error) => failed(&error),
            };
        }
        // The connection may be dead: the response head has its time and a margin, the body the usual time on top.
        let sent = builder.timeout(wait + self.request_timeout).send();
        match tokio::time::timeout(wait + LONG_POLL_MARGIN.min(self.request_timeout), sent).await {
            Ok(Ok(response)) => receive(response, limit).await,
            Ok(Err(error)) => failed(&error),
            Err(_) => Answer::Failed { code: Code::ServerUnreachable, message: "no response in time".to_owned() },
        }
    }
}

/// Method, path, headers, body, and the size limit of the response.
pub type Parts = (Method, String, Vec<(HeaderName, String)>, Option<Vec<u8>>, usize);

/// A request as HTTP.
pub fn parts(request: Request) -> Parts {
    let json = || vec![(CONTENT_TYPE, "application/json".to_owned())];
    match request {
        // W-04: slashes of a child's id are not encoded; its grammar needs no other encoding.
        Request::PutCapabilities { device, json: body } => {
            (Method::PUT, format!("/api/v1/capabilities/{device}"), json(), Some(body), SMALL_BYTES_MAX)
        }
        Request::DeleteDevice { device } => {
            (Method::DELETE, format!("/api/v1/capabilities/{device}"), Vec::new(), None, SMALL_BYTES_MAX)
        }
        Request::Poll { if_none_match, wait } => {
            // DS-12, DS-13
            let mut headers = vec![(ACCEPT, MANIFEST_MEDIA_TYPE.to_owned())];
            headers.extend(if_none_match.map(|etag| (IF_NONE_MATCH, etag)));
            headers.extend(wait.map(|seconds| (PREFER, format!("wait={seconds}"))));
            (Method::GET, "/api/v1/deployments".to_owned(), headers, None, MANIFEST_BYTES_MAX)
        }
        Request::FetchBundle { path } => {
            (Method::GET, path, vec![(ACCEPT, BUNDLE_MEDIA_TYPE.to_owned())], None, BUNDLE_BYTES_MAX)
        }
        Request::FetchYaml { path } => {
            (Method::GET, path, vec![(ACCEPT, "application/yaml".to_owned())], None, YAML_BYTES_MAX)
        }
        Request::PostStatus { deployment, json: body } => {
            (Method::POST, format!("/api/v1/deployments/{deployment}/status"), json(), Some(body), SMALL_BYTES_MAX)
        }
    }
}

async fn receive(mut response: reqwest::Response, limit: usize) -> Answer {
    let status = response.status().as_u16();
    let header = |name: HeaderName| response.headers().get(name)?.to_str().ok().map(str::to_owned);
    let (etag, retry_after) = (header(ETAG), header(RETRY_AFTER));
    let waited = header(PREFERENCE_APPLIED).and_then(|applied| waited(&applied));
    let limit = if status == 200 { limit } else { SMALL_BYTES_MAX };
    match read_body(&mut response, limit).await {
        Ok(body) => Answer::Response(Response { status, etag, retry_after, waited, body }),
        // For an error only the status matters.
        Err(_) if status >= 400 => Answer::Response(Response { status, etag, retry_after, waited, body: Vec::new() }),
        Err(answer) => answer,
    }
}

/// The seconds of `wait=N` in `Preference-Applied` (RFC 7240).
pub fn waited(applied: &str) -> Option<u64> {
    applied.split(',').find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let wait = name.trim().eq_ignore_ascii_case("wait");
        wait.then(|| value.trim().trim_matches('"').parse().ok()).flatten()
    })
}

/// A body of at most `limit` bytes.
pub(crate) async fn read_body(response: &mut reqwest::Response, limit: usize) -> Result<Vec<u8>, Answer> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(body),
            Ok(Some(chunk)) if body.len() + chunk.len() <= limit => body.extend_from_slice(&chunk),
            Ok(Some(_)) => {
                let message = format!("the answer is larger than {limit} bytes");
                return Err(Answer::Failed { code: Code::AnswerTooLarge, message });
            }
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// Why there was no response: TLS errors are distinguished from an unreachable server (W-25, W-26).
pub(crate) fn failed(error: &reqwest::Error) -> Answer {
    let mut message = String::new();
    let mut code = Code::ServerUnreachable;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(tls) = current.downcast_ref::<rustls::Error>() {
            (code, message) = explain_tls(tls);
            break;
        }
        message = current.to_string();
        let io = current.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::UnexpectedEof) {
            let when = if error.is_connect() { "during the handshake" } else { "in the middle of an answer" };
            message = format!("the connection broke off {when}");
            break;
        }
        // An I/O error hides what it wraps: its `source` is already the next one further in.
        let wrapped = io.and_then(std::io::Error::get_ref);
        cause = wrapped.map(|inner| inner as &(dyn std::error::Error + 'static)).or_else(|| current.source());
    }
    if error.is_timeout() {
        message = String::from("no response in time");
    }
    Answer::Failed { code, message }
}

/// Why the certificate of the server is refused.
fn explain_certificate(reason: &rustls::CertificateError) -> String {
    use rustls::CertificateError as Reason;
    let clause = match reason {
        Reason::Other(other) => return other.to_string(),
        Reason::ExpiredContext { time, not_after } => crate::tls::expired(*not_after, *time),
        Reason::NotValidYetContext { time, not_before } => crate::tls::not_valid_yet(*not_before, *time),
        Reason::UnknownIssuer | Reason::BadSignature => crate::tls::UNTRUSTED.to_owned(),
        other => other.to_string(),
    };
    format!("the server's certificate is not trusted: {clause}")
}

/// The error code and message for a failed TLS handshake.
pub fn explain_tls(error: &rustls::Error) -> (Code, String) {
    use rustls::{AlertDescription, Error};
    match error {
        Error::InvalidCertificate(reason) => (Code::ServerNotTrusted, explain_certificate(reason)),
        // The server rejects our certificate: an expired one must be renewed here, the rest is the server's policy.
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            (Code::IdentityUnusable, "the server says that this client's certificate has expired".to_owned())
        }
        // TLS-01: the TLS parameters do not match; accepting this client would not help.
        Error::AlertReceived(
            AlertDescription::ProtocolVersion
            | AlertDescription::HandshakeFailure
            | AlertDescription::InsufficientSecurity,
        ) => (Code::ServerUnreachable, "the server does not speak TLS 1.3 with a cipher known here".to_owned()),
        Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateRequired,
        ) => (
            Code::NotAuthorized,
            "the server ended the handshake: it does not accept this client's certificate".to_owned(),
        ),
        Error::AlertReceived(alert) => {
            (Code::NotAuthorized, format!("the server ended the handshake with TLS alert {}", u8::from(*alert)))
        }
        other => (Code::ServerUnreachable, other.to_string()),
    }
}

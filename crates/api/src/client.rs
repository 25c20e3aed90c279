//! A typed client for the operator API: one method per endpoint.

mod access;
mod applications;
mod rollouts;
mod clients;
mod keys;
mod registries;
mod registry;
mod deployments;
mod devices;
mod events;
mod fault;
mod lookup;

use crate::problem::ApiProblem;
use reqwest::header::{ACCEPT, CONTENT_TYPE, IF_MATCH};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use url::Url;

pub use access::AuditQuery;
pub use deployments::DeploymentQuery;
pub use devices::DeviceQuery;
pub use events::{EventQuery, EventStream, StreamItem};
pub use fault::ConnectionFault;

use keys::Keys;

/// An import pulls from a registry before it responds, so this is longer than any other request needs.
const TIMEOUT_DEFAULT: Duration = Duration::from_mins(2);
/// An unreachable server should be reported soon.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request whose connection broke is repeated after these pauses: at once, then when a server may be back.
const REPEAT_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// The largest response read into memory: a page of a thousand items fits easily.
const ANSWER_BYTES_MAX: usize = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server rejected the request, and says why and what to do.
    #[error("{}", .0.detail)]
    Problem(Box<ApiProblem>),
    #[error("cannot reach the server at {url}; check that it runs and that the address is correct")]
    Unreachable {
        url: Url,
        #[source]
        source: reqwest::Error,
    },
    #[error("the response of {url} is incomplete")]
    BrokenOff {
        url: Url,
        #[source]
        source: reqwest::Error,
    },
    #[error("the response of {url} (status {status}) is not from a Margrave server; check the address")]
    NotMargrave { url: Url, status: u16 },
    #[error("cannot parse the response of {url}; client and server versions may differ")]
    Unreadable {
        url: Url,
        #[source]
        source: serde_json::Error,
    },
    #[error("the response of {url} is larger than {max} bytes; request smaller pages")]
    TooLarge { url: Url, max: usize },
    #[error("{url} accepts the connection but does not respond; try again, or check the server")]
    NoAnswer { url: Url },
    #[error("the server has ended the stream, probably because it is stopping")]
    StreamEnded,
    #[error("`{0}` is not the address of a server; write for example `https://fleet.example:8443`")]
    Address(String),
    #[error("invalid CA certificates; they must be PEM")]
    Ca(#[source] reqwest::Error),
    #[error("the token contains invalid characters; copy it again")]
    Token,
    #[error("an idempotency key has 1 to {} printable characters without spaces", keys::GIVEN_CHARS_MAX)]
    IdempotencyKey,
}

impl ClientError {
    /// The server's problem, if it is one.
    pub fn problem(&self) -> Option<&ApiProblem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }
    /// The stable code of the server's problem, such as `not-found`.
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.code.as_str())
    }
}

pub type Result<T> = std::result::Result<T, ClientError>;

/// The address of the server and the credentials.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Root of the server, such as `https://127.0.0.1:8443`; `/api` is added.
    pub server: String,
    pub token: Option<String>,
    /// PEM of certificate authorities to trust besides the system's.
    pub ca_pem: Option<String>,
    pub timeout: Duration,
    /// Sent with the first request that changes something, and with further ones as `KEY-2`, `KEY-3`: repeating all of
    /// them returns the same responses. Without it every request gets a key of its own.
    pub idempotency_key: Option<String>,
}

impl ClientOptions {
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), token: None, ca_pem: None, timeout: TIMEOUT_DEFAULT, idempotency_key: None }
    }
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }
    #[must_use]
    pub fn with_ca_pem(mut self, ca_pem: impl Into<String>) -> Self {
        self.ca_pem = Some(ca_pem.into());
        self
    }
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }
}

/// Cheap to clone; keeps its connections.
#[derive(Clone)]
pub struct ApiClient {
    http: reqwest::Client,
    base: Url,
    token: Option<reqwest::header::HeaderValue>,
    keys: Keys,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is not shown.
        f.debug_struct("ApiClient").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// Request parameters outside the body.
#[derive(Debug, Clone, Copy, Default)]
struct Terms<'a> {
    if_match: Option<i64>,
    /// Any revision, as long as it exists.
    if_present: bool,
    dry_run: bool,
    reason: Option<&'a str>,
}

impl ApiClient {
    pub fn new(options: &ClientOptions) -> Result<Self> {
        let base = Url::parse(&options.server).map_err(|_| ClientError::Address(options.server.clone()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(ClientError::Address(options.server.clone()));
        }
        let builder = reqwest::Client::builder()
            .timeout(options.timeout)
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect would carry the token elsewhere, and the API has none.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("margrave/", env!("CARGO_PKG_VERSION")));
        let builder = match &options.ca_pem {
            Some(pem) => {
                let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(ClientError::Ca)?;
                builder.tls_certs_merge(certificates)
            }
            // Without TLS the system's certificates are not needed, and loading them takes a while.
            None if base.scheme() == "http" => builder.tls_certs_only([]),
            None => builder,
        };
        let token = options.token.as_deref().map(bearer).transpose()?;
        let keys = Keys::new(options.idempotency_key.as_deref())?;
        Ok(Self { http: builder.build().map_err(ClientError::Ca)?, base, token, keys })
    }

    /// An invalid stream.
    fn odd(&self) -> ClientError {
        ClientError::TooLarge { url: self.base.clone(), max: ANSWER_BYTES_MAX }
    }

    /// The root of the server.
    pub fn server(&self) -> &Url {
        &self.base
    }

    /// `/api/<segments>`; every segment is escaped.
    fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("http and https addresses have a path")
            .pop_if_empty()
            .push("api")
            .extend(segments);
        url
    }

    fn request(&self, method: Method, url: Url, terms: Terms<'_>) -> RequestBuilder {
        let key = (method != Method::GET && !terms.dry_run).then(|| self.keys.next());
        let mut request = self.http.request(method, url).header(ACCEPT, "application/json, application/problem+json");
        if let Some(token) = &self.token {
            request = request.header(reqwest::header::AUTHORIZATION, token.clone());
        }
        if let Some(key) = key {
            request = request.header(keys::HEADER, key);
        }
        if let Some(revision) = terms.if_match {
            request = request.header(IF_MATCH, format!("\"{revision}\""));
        }
        if terms.if_present {
            request = request.header(IF_MATCH, "*");
        }
        if terms.dry_run {
            request = request.query(&[("dryRun", "true")]);
        }
        if let Some(reason) = terms.reason {
            request = request.query(&[("comment", reason)]);
        }
        request
    }

    async fn get<T: DeserializeOwned>(&self, url: Url, query: &[(&str, Option<String>)]) -> Result<T> {
        let given: Vec<(&str, &String)> =
            query.iter().filter_map(|(name, value)| value.as_ref().map(|value| (*name, value))).collect();
        self.json(self.request(Method::GET, url, Terms::default()).query(&given)).await
    }

    async fn send<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        terms: Terms<'_>,
        body: &B,
    ) -> Result<T> {
        self.json(self.request(method, url, terms).json(body)).await
    }

    async fn delete(&self, url: Url, terms: Terms<'_>) -> Result<()> {
        self.bytes(self.request(Method::DELETE, url, terms)).await.map(|_| ())
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let (url, _, bytes) = self.bytes(request).await?;
        serde_json::from_slice(&bytes).map_err(|source| ClientError::Unreadable { url, source })
    }

    /// Sends, and repeats when the connection breaks: reads are harmless, and every change has an idempotency key.
    async fn bytes(&self, request: RequestBuilder) -> Result<(Url, String, Vec<u8>)> {
        let mut broke = false;
        for pause in REPEAT_AFTER {
            let Some(copy) = request.try_clone() else { break };
            match self.bytes_once(copy).await {
                Err(error) if is_loss(&error, broke) => broke = true,
                answered => return answered,
            }
            tokio::time::sleep(pause).await;
        }
        self.bytes_once(request).await
    }

    /// Sends, and turns every response that is not a success into an error.
    async fn bytes_once(&self, request: RequestBuilder) -> Result<(Url, String, Vec<u8>)> {
        let response = request.send().await.map_err(|source| ClientError::Unreachable {
            url: source.url().cloned().unwrap_or_else(|| self.base.clone()),
            source: source.without_url(),
        })?;
        let url = response.url().clone();
        let status = response.status();
        let content_type = content_type(&response);
        let body = read_bounded(response, &url).await?;
        if status.is_success() {
            return Ok((url, content_type, body));
        }
        match serde_json::from_slice::<ApiProblem>(&body) {
            Ok(problem) => Err(ClientError::Problem(Box::new(problem))),
            Err(_) => Err(ClientError::NotMargrave { url, status: status.as_u16() }),
        }
    }
}

/// Whether the connection was lost during the request. A server that was never reached is reported at once; one that
/// was reached before may be restarting.
fn is_loss(error: &ClientError, broke: bool) -> bool {
    match error {
        ClientError::Unreachable { source, .. } => {
            !source.is_timeout() && !source.is_builder() && (broke || !source.is_connect())
        }
        ClientError::BrokenOff { source, .. } => !source.is_timeout(),
        _ => false,
    }
}

fn bearer(token: &str) -> Result<reqwest::header::HeaderValue> {
    let mut value =
        reqwest::header::HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| ClientError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

fn content_type(response: &Response) -> String {
    response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

async fn read_bounded(mut response: Response, url: &Url) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|source| ClientError::BrokenOff { url: url.clone(), source })?
    {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(ClientError::TooLarge { url: url.clone(), max: ANSWER_BYTES_MAX });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Which part of a list: `after` is the `next` of the previous page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    pub limit: Option<u32>,
    pub after: Option<String>,
}

impl PageQuery {
    pub fn after(next: Option<String>) -> Self {
        Self { limit: None, after: next }
    }
    fn limit_text(&self) -> Option<String> {
        self.limit.map(|limit| limit.to_string())
    }
}

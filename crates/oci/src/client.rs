//! An HTTP client for registries: distribution v1.1, with verified digests and bounded sizes (REG-01, REG-09).

mod auth;
mod check;
mod error;
mod pull;
mod push;

pub use auth::Credentials;
pub use check::RegistryAccessResult;
pub use error::{Kind, OciError, Result};
pub use pull::Download;
pub use push::Pushed;

use crate::mirror::DOCKER_HUB;
use crate::reference;
use auth::Challenge;
use bytes::Bytes;
use error::chain;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, RANGE, WWW_AUTHENTICATE};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Method, Response, StatusCode};
use std::collections::HashMap;
use std::time::Duration;
use url::Url;

/// Registries respond within seconds; this is the longest pause without data, however large a blob is.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Registries serve blobs from elsewhere by one redirect, seldom two.
const REDIRECTS_MAX: usize = 5;
/// How much of a registry's own error text is shown.
const WORDS_BYTES_MAX: usize = 4 << 10;
/// The host that serves Docker's own registry.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

/// How to reach a registry.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Use HTTP; for loopback addresses only.
    pub plain_http: bool,
    /// PEM of certificate authorities to trust in addition to the system's.
    pub ca: Option<String>,
    pub credentials: Option<Credentials>,
}

/// A client for one registry; keeps its connections and authorizations.
#[derive(Debug)]
pub struct Registry {
    http: Client,
    /// As references name it.
    host: String,
    plain_http: bool,
    ca: Option<String>,
    credentials: Option<Credentials>,
    /// By repository and whether it is for pushing, after the registry's first challenge.
    authorizations: HashMap<(String, bool), HeaderValue>,
}

/// One request, so that it can be repeated with credentials.
struct PendingRequest<'a> {
    method: Method,
    url: Url,
    repository: &'a str,
    /// Whether it needs a token that may push.
    pushes: bool,
    accept: Option<&'a str>,
    /// The first byte to fetch.
    from: u64,
    content: Option<Content<'a>>,
}

struct Content<'a> {
    bytes: Bytes,
    media_type: &'a str,
    /// First and last byte of a chunk.
    range: Option<(u64, u64)>,
}

impl<'a> PendingRequest<'a> {
    fn new(method: Method, url: Url, repository: &'a str) -> Self {
        Self { method, url, repository, pushes: false, accept: None, from: 0, content: None }
    }
    fn pushing(self) -> Self {
        Self { pushes: true, ..self }
    }
}

impl Registry {
    pub fn new(host: &str, connection: &Connection) -> Result<Self> {
        let Connection { plain_http, ca, credentials } = connection.clone();
        if plain_http && !reference::is_loopback_host(host) {
            let message = "plain HTTP is accepted for loopback addresses only; use HTTPS, with your own CA if needed";
            return Err(OciError::new(Kind::Setup, message));
        }
        let http = http(ca.as_deref(), plain_http)?;
        Ok(Self { http, host: host.to_owned(), plain_http, ca, credentials, authorizations: HashMap::new() })
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    fn url(&self, repository: &str, rest: &str) -> Result<Url> {
        let scheme = if self.plain_http { "http" } else { "https" };
        let host = if self.host == DOCKER_HUB { DOCKER_HUB_HOST } else { &self.host };
        let text = format!("{scheme}://{host}/v2/{repository}/{rest}");
        Url::parse(&text)
            .map_err(|error| OciError::new(Kind::Setup, format!("`{text}` is not a valid address: {error}")))
    }

    /// Sends a request; responds to a challenge once, and once more if the authorization has expired.
    async fn ask(&mut self, ask: &PendingRequest<'_>) -> Result<Response> {
        let response = self.send(ask).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let challenge = Challenge::of(response.headers().get_all(WWW_AUTHENTICATE));
        let authorization = self.answer(challenge, ask).await?;
        let known = self.authorizations.insert((ask.repository.to_owned(), ask.pushes), authorization.clone());
        // The same credentials would be rejected again.
        if known.as_ref() == Some(&authorization) {
            return Ok(response);
        }
        self.send(ask).await
    }

    async fn send(&self, ask: &PendingRequest<'_>) -> Result<Response> {
        let mut request = self.http.request(ask.method.clone(), ask.url.clone());
        if let Some(accept) = ask.accept {
            request = request.header(ACCEPT, accept);
        }
        if ask.from > 0 {
            request = request.header(RANGE, format!("bytes={}-", ask.from));
        }
        if let Some(Content { bytes, media_type, range }) = &ask.content {
            request = request.header(CONTENT_TYPE, *media_type).body(bytes.clone());
            if let Some((first, last)) = range {
                request = request.header(CONTENT_RANGE, format!("{first}-{last}"));
            }
        } else if ask.method == Method::POST || ask.method == Method::PUT {
            // Some registries require a length.
            request = request.body(Bytes::new());
        }
        let authorization = self.authorizations.get(&(ask.repository.to_owned(), ask.pushes));
        // An upload may continue on another host, which must not get our credentials.
        if let Some(authorization) = authorization.filter(|_| self.is_ours(&ask.url)) {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        request.send().await.map_err(|error| self.unreachable(error))
    }

    fn is_ours(&self, url: &Url) -> bool {
        self.url("x", "y").is_ok_and(|own| own.origin() == url.origin())
    }

    /// A success, or the error of the registry.
    async fn check(&self, response: Response, what: &str) -> Result<Response> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let host = &self.host;
        Err(match status.as_u16() {
            401 => OciError::new(Kind::Denied, self.denied(what)),
            403 => {
                let message =
                    words(response).await.map(|message| format!("; it responded: {message}")).unwrap_or_default();
                OciError::new(Kind::Denied, format!("{}{message}", self.denied(what)))
            }
            404 => {
                OciError::new(Kind::NotFound, format!("registry `{host}` has no `{what}`; check the name and the tag"))
            }
            429 => OciError::new(Kind::Busy, format!("registry `{host}` limits the request rate; try again later")),
            500.. => OciError::new(Kind::Unreachable, format!("registry `{host}` responded with status {status}")),
            _ => {
                let message = words(response).await.map(|message| format!(": {message}")).unwrap_or_default();
                OciError::new(Kind::Refused, format!("registry `{host}` responded with status {status}{message}"))
            }
        })
    }

    fn denied(&self, what: &str) -> String {
        let host = &self.host;
        let what = if what.is_empty() { String::new() } else { format!(" for `{what}`") };
        match self.credentials {
            Some(_) => format!("registry `{host}` refused the username and password{what}"),
            None => format!("registry `{host}` requires a username and password{what}"),
        }
    }

    async fn read(&self, mut response: Response, max: usize, what: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            if bytes.len() + chunk.len() > max {
                return Err(OciError::new(Kind::TooLarge, format!("{what} is larger than {max} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

fn http(ca: Option<&str>, plain_http: bool) -> Result<Client> {
    let builder = Client::builder()
        .read_timeout(READ_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("margrave/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(move |attempt| redirect(attempt, plain_http)));
    let builder = match ca {
        Some(pem) => {
            let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes())
                .ok()
                .filter(|certificates| !certificates.is_empty())
                .ok_or_else(|| OciError::new(Kind::Ca, "this is not a PEM file with certificates"))?;
            builder.tls_certs_merge(certificates)
        }
        None if plain_http => builder.tls_certs_only([]),
        None => builder,
    };
    builder
        .build()
        .map_err(|error| OciError::new(Kind::Setup, format!("cannot set up a connection: {}", chain(&error))))
}

/// The client drops credentials if a redirect leads to another host; it never follows a redirect to plain HTTP.
fn redirect(attempt: Attempt<'_>, plain_http: bool) -> reqwest::redirect::Action {
    if attempt.previous().len() > REDIRECTS_MAX {
        return attempt.error("too many redirects");
    }
    let next = attempt.url();
    let allowed = next.scheme() == "https" || (plain_http && reference::is_loopback_url(next));
    if allowed { attempt.follow() } else { attempt.error("redirect to an unencrypted address") }
}

/// The registry's own error messages, in the form of the specification.
async fn words(mut response: Response) -> Option<String> {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > WORDS_BYTES_MAX {
            return None;
        }
    }
    let body: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let messages: Vec<&str> = body["errors"].as_array()?.iter().filter_map(|error| error["message"].as_str()).collect();
    let text: String = messages.join("; ").chars().filter(|character| !character.is_control()).collect();
    (!text.is_empty()).then_some(text)
}

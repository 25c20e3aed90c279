//! Discovery and trust bundle: fetched over an authenticated connection, replaced as a whole, never by an older one
//! (TB-01 to TB-05).

use crate::config::AgentConfig;
use crate::disk::{DiskError, create_private_dir, write_private};
use crate::enroll::Enrollment;
use crate::http::{self, HttpError};
use crate::identity::{fetched_bundle, identity_dir};
use crate::machine::io::Answer;
use crate::tls::{self, TlsError, TrustAnchor};
use margo::spiffe::TrustDomain;
use margo::trust_bundle::{Discovery, TrustBundle};
use margrave_core::time::Clock;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// A discovery document is two lines, a bundle a few certificates.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Lower bound of the refresh hint: a fleet must not flood the endpoint.
const REFRESH_MIN: Duration = Duration::from_secs(5);

/// Upper bound of the refresh hint: anchors are rotated within weeks.
const REFRESH_MAX: Duration = Duration::from_hours(24);

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(
        "set a CA file or a pin for the trust endpoint: without one its identity cannot be verified, and nothing is trusted on first use"
    )]
    NoAnchor,
    #[error("read the CA file `{path}`")]
    CaFile {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("request `{url}`: {message}")]
    Unreachable { url: String, message: String },
    #[error("request `{url}`: the server answered {status}{detail}")]
    Status { url: String, status: u16, detail: String },
    #[error("the response of `{url}` cannot be used: {message}")]
    Answer { url: String, message: String },
    #[error("the trust bundle was refused: {0}")]
    Refused(String),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The configured trust anchor; an error without one (TLS-05). A pin takes precedence over a CA.
pub fn anchor(config: &AgentConfig) -> Result<TrustAnchor, TrustError> {
    if let Some(pin) = &config.trust.pin {
        return Ok(TrustAnchor::parse_pin(pin)?);
    }
    let path = config.trust.ca_file.as_ref().ok_or(TrustError::NoAnchor)?;
    let pem = std::fs::read(path).map_err(|source| TrustError::CaFile { path: path.display().to_string(), source })?;
    Ok(TrustAnchor::Ca(pem))
}

/// The configured endpoint, else the one this client enrolled at, with its anchor.
pub fn endpoint(config: &AgentConfig) -> Result<Option<(Url, TrustAnchor)>, TrustError> {
    let enrolled = Enrollment::load(&config.state_dir);
    match (&config.trust.url, enrolled) {
        (Some(url), enrolled) => {
            let anchor = anchor(config).or_else(|error| match enrolled {
                Some(enrolled) if enrolled.trust_url == *url => enrolled.anchor(),
                _ => Err(error),
            })?;
            Ok(Some((url.clone(), anchor)))
        }
        (None, Some(enrolled)) => Ok(Some((enrolled.trust_url.clone(), enrolled.anchor()?))),
        (None, None) => Ok(None),
    }
}

pub fn client(
    config: &AgentConfig,
    anchor: &TrustAnchor,
    clock: Arc<dyn Clock>,
) -> Result<reqwest::Client, TrustError> {
    let tls = tls::trust_config(anchor, clock)?;
    Ok(http::client(tls, &config.http, config.proxy.as_ref())?)
}

/// Fetches the bundle and, if it is valid, puts it in use. Returns when to refresh again.
pub async fn refresh(
    config: &AgentConfig,
    own: &TrustDomain,
    clock: Arc<dyn Clock>,
) -> Result<Option<Duration>, TrustError> {
    let Some((url, anchor)) = endpoint(config)? else { return Ok(None) };
    let client = client(config, &anchor, clock)?;
    let discovery_url = format!("{}/.well-known/margo", url.as_str().trim_end_matches('/'));
    let body = get(&client, &discovery_url).await?;
    let unusable = |url: &str, message: String| TrustError::Answer { url: url.to_owned(), message };
    let discovery = Discovery::read(&body).map_err(|findings| unusable(&discovery_url, findings.to_string()))?.document;
    // TB-01: a document about another trust domain is not for this client.
    if discovery.trust_domain != *own {
        let message = format!("it is for trust domain `{}`, this client is in `{own}`", discovery.trust_domain);
        return Err(unusable(&discovery_url, message));
    }
    // TB-02: the reader rejects everything but https, and the same anchor must cover another origin.
    let body = get(&client, &discovery.trust_bundle_uri).await?;
    let offered = TrustBundle::read(&body).map_err(|findings| TrustError::Refused(findings.to_string()))?.document;
    let next = offered.refresh_hint_seconds.map_or(config.trust.refresh, Duration::from_secs);
    take(&config.state_dir, &body, &offered)?;
    Ok(Some(next.clamp(REFRESH_MIN, REFRESH_MAX)))
}

/// TB-04, TB-05: replaces the current bundle, unless the new one is older.
pub(crate) fn take(state_dir: &Path, body: &[u8], offered: &TrustBundle) -> Result<(), TrustError> {
    let path = fetched_bundle(state_dir);
    let held = std::fs::read(&path).ok();
    if held.as_deref() == Some(body) {
        return Ok(());
    }
    let held = held.and_then(|bytes| TrustBundle::read(&bytes).ok()).map(|read| read.document);
    if let (Some(held), Some(offered)) = (held.and_then(|held| held.sequence), offered.sequence)
        && offered < held
    {
        return Err(TrustError::Refused(format!("its sequence {offered} is older than the current sequence {held}")));
    }
    let folder = identity_dir(state_dir);
    create_private_dir(&folder).map_err(|source| DiskError::Io { path: folder, source })?;
    write_private(&path, body)?;
    Ok(())
}

async fn get(client: &reqwest::Client, url: &str) -> Result<Vec<u8>, TrustError> {
    let unreachable = |answer: Answer| TrustError::Unreachable { url: url.to_owned(), message: message_of(answer) };
    Url::parse(url).map_err(|error| TrustError::Unreachable { url: url.to_owned(), message: error.to_string() })?;
    let mut response = client.get(url).send().await.map_err(|error| unreachable(http::failed(&error)))?;
    let status = response.status().as_u16();
    let body = http::read_body(&mut response, BODY_BYTES_MAX).await.map_err(unreachable)?;
    if status == 200 {
        Ok(body)
    } else {
        Err(TrustError::Status { url: url.to_owned(), status, detail: problem_detail(&body) })
    }
}

pub(crate) fn message_of(answer: Answer) -> String {
    match answer {
        Answer::Failed { message, .. } => message,
        Answer::Response(response) => format!("status {}", response.status),
    }
}

pub(crate) fn problem_detail(body: &[u8]) -> String {
    let problem = margo::problem::Problem::read(body).ok().map(|read| read.document);
    problem.map(|problem| format!(" ({})", problem.detail.unwrap_or(problem.title))).unwrap_or_default()
}

#[cfg(test)]
mod tests;

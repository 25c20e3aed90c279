//! Pulling a package from an OCI registry: distribution v1.1, with digests verified and every size bounded (REG-01, REG-09).

mod auth;
mod reference;

use super::layout::tag_warning;
use super::{Found, texts};
use crate::app::error::{AppError, AppResult, Code};
use auth::{Challenge, Credentials};
use margo::digest::Digest;
use margo::package::{
    self, DESCRIPTION_BYTES_MAX, DESCRIPTION_MEDIA_TYPE, FILES_MAX, Layer, OCI_MANIFEST_MEDIA_TYPE, OciManifest,
    RESOURCE_BYTES_MAX,
};
use margrave_api::applications::ImportApplication;
use reference::{Reference, Tag};
use reqwest::header::{ACCEPT, AUTHORIZATION, WWW_AUTHENTICATE};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response, StatusCode};
use std::time::Duration;
use url::Url;

/// Registries answer within seconds; a blob of a few megabytes over a slow line takes longer.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Registries send blobs from elsewhere by one redirect, seldom two.
const REDIRECTS_MAX: usize = 5;
/// A manifest lists a few layers; registries themselves refuse more than this.
const MANIFEST_BYTES_MAX: usize = 4 << 20;

/// Pulls the package; returns the reference as it will be shown, which never holds credentials.
pub(super) async fn pull(body: ImportApplication) -> AppResult<(String, Found)> {
    let ImportApplication { source, username, password, plain_http, ca, reason: _ } = body;
    let reference = Reference::parse(&source).map_err(|problem| AppError::invalid("source", problem))?;
    if plain_http && !reference.is_loopback() {
        let message = "plain HTTP is accepted for loopback addresses only; use HTTPS, with `ca` for a CA of your own";
        return Err(AppError::invalid("plainHttp", message));
    }
    let credentials = Credentials::new(username, password)?;
    let http = client(ca.as_deref(), plain_http)?;
    let mut session = Session { http, reference, plain_http, credentials, authorization: None };
    let found = session.package().await?;
    Ok((session.reference.to_string(), found))
}

fn client(ca: Option<&str>, plain_http: bool) -> AppResult<Client> {
    let builder = Client::builder()
        .timeout(REQUEST_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("margrave/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(move |attempt| redirect(attempt, plain_http)));
    let builder = match ca {
        Some(pem) => {
            let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes())
                .ok()
                .filter(|certificates| !certificates.is_empty())
                .ok_or_else(|| AppError::invalid("ca", "this is not a PEM file with certificates"))?;
            builder.tls_certs_merge(certificates)
        }
        None if plain_http => builder.tls_certs_only([]),
        None => builder,
    };
    builder.build().map_err(|error| failed(format!("cannot set up a connection: {}", chain(&error))))
}

/// The client drops credentials when a redirect leads to another host; a redirect to plain HTTP is not followed at all.
fn redirect(attempt: Attempt<'_>, plain_http: bool) -> reqwest::redirect::Action {
    if attempt.previous().len() > REDIRECTS_MAX {
        return attempt.error("too many redirects");
    }
    let next = attempt.url();
    let allowed = next.scheme() == "https" || (plain_http && reference::is_loopback_url(next));
    if allowed { attempt.follow() } else { attempt.error("redirect to a place without encryption") }
}

struct Session {
    http: Client,
    reference: Reference,
    plain_http: bool,
    credentials: Option<Credentials>,
    /// Once the registry has said how it wants to be asked.
    authorization: Option<reqwest::header::HeaderValue>,
}

impl Session {
    async fn package(&mut self) -> AppResult<Found> {
        let (digest, bytes) = self.manifest().await?;
        let manifest = OciManifest::read(&bytes).map_err(|findings| AppError::broken_package(&findings))?;
        if manifest.document.layers.len() > FILES_MAX {
            return Err(AppError::refused(
                Code::BrokenPackage,
                format!("the package has more than {FILES_MAX} layers"),
            ));
        }
        let mut layers: Vec<(Layer, Vec<u8>)> = Vec::with_capacity(manifest.document.layers.len());
        for layer in manifest.document.layers {
            let bytes = self.blob(&layer).await?;
            layers.push((layer, bytes));
        }
        let read = package::read_layers(&layers).map_err(|findings| AppError::broken_package(&findings))?;
        let mut warnings: Vec<String> = texts(&manifest.warnings).chain(texts(&read.warnings)).collect();
        let tag = match &self.reference.tag {
            Tag::Name(tag) => Some(tag.as_str()),
            Tag::Digest(_) => None,
        };
        warnings.extend(tag_warning(tag, &read.document.description.metadata.version));
        Ok(Found { package: read.document, digest, warnings })
    }

    async fn manifest(&mut self) -> AppResult<(Digest, Vec<u8>)> {
        let url = self.url(&format!("manifests/{}", self.reference.tag))?;
        let response = self.get(url, Some(OCI_MANIFEST_MEDIA_TYPE)).await?;
        let announced = response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        let announced = announced.and_then(|text| text.parse::<Digest>().ok());
        let bytes = self.read(response, MANIFEST_BYTES_MAX, "the manifest").await?;
        let digest = Digest::of(&bytes);
        let expected = match &self.reference.tag {
            Tag::Digest(expected) => Some(expected),
            Tag::Name(_) => announced.as_ref(),
        };
        match expected.filter(|expected| **expected != digest) {
            Some(expected) => Err(failed(format!(
                "the manifest has digest {digest}, {expected} was expected; it may be tampered with"
            ))),
            None => Ok((digest, bytes)),
        }
    }

    async fn blob(&mut self, layer: &Layer) -> AppResult<Vec<u8>> {
        let max = if layer.media_type == DESCRIPTION_MEDIA_TYPE { DESCRIPTION_BYTES_MAX } else { RESOURCE_BYTES_MAX };
        let what = format!("layer {}", layer.digest);
        if layer.size > max as u64 {
            return Err(AppError::refused(Code::BrokenPackage, format!("{what} is larger than {max} bytes")));
        }
        let url = self.url(&format!("blobs/{}", layer.digest))?;
        let response = self.get(url, None).await?;
        let bytes = self.read(response, max, &what).await?;
        let digest = Digest::of(&bytes);
        if digest == layer.digest {
            Ok(bytes)
        } else {
            Err(failed(format!("{what} arrived with digest {digest}; it is damaged or tampered with")))
        }
    }

    fn url(&self, rest: &str) -> AppResult<Url> {
        let scheme = if self.plain_http { "http" } else { "https" };
        let text = format!("{scheme}://{}/v2/{}/{rest}", self.reference.host, self.reference.repository);
        Url::parse(&text).map_err(|error| AppError::invalid("source", format!("makes no address: {error}")))
    }

    /// Asks; answers a challenge once.
    async fn get(&mut self, url: Url, accept: Option<&str>) -> AppResult<Response> {
        let response = self.send(url.clone(), accept).await?;
        if response.status() != StatusCode::UNAUTHORIZED || self.authorization.is_some() {
            return self.check(response);
        }
        let challenge = Challenge::of(response.headers().get_all(WWW_AUTHENTICATE));
        self.authorization = Some(self.answer(challenge).await?);
        let response = self.send(url, accept).await?;
        self.check(response)
    }

    async fn send(&self, url: Url, accept: Option<&str>) -> AppResult<Response> {
        let mut request = self.http.get(url);
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        request.send().await.map_err(|error| self.unreachable(error))
    }

    fn check(&self, response: Response) -> AppResult<Response> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(failed(match status.as_u16() {
            401 | 403 => self.denied(),
            404 => {
                format!("registry `{}` has no `{}`; check the name and the tag", self.reference.host, self.reference)
            }
            429 => format!("registry `{}` is asked too often; try again later", self.reference.host),
            other => format!("registry `{}` answered with status {other}", self.reference.host),
        }))
    }

    fn denied(&self) -> String {
        let host = &self.reference.host;
        match self.credentials {
            Some(_) => {
                format!("registry `{host}` refused the username and password for `{}`", self.reference.repository)
            }
            None => format!("registry `{host}` wants a username and password for `{}`", self.reference.repository),
        }
    }

    async fn read(&self, mut response: Response, max: usize, what: &str) -> AppResult<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            if bytes.len() + chunk.len() > max {
                return Err(failed(format!("{what} is larger than {max} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn unreachable(&self, error: reqwest::Error) -> AppError {
        failed(format!("registry `{}` cannot be reached: {}", self.reference.host, chain(&error.without_url())))
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn failed(detail: String) -> AppError {
    AppError::refused(Code::Registry, detail)
}

//! Pulls manifests and blobs from a registry.

use super::error::{Kind, OciError, Result};
use super::{PendingRequest, Registry};
use crate::manifest::{DOCKER_LIST, DOCKER_MANIFEST, MANIFEST_BYTES_MAX, OCI_INDEX, OCI_MANIFEST};
use crate::reference::{Reference, Tag};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use margo::Digest;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};

/// A manifest as sent, with verified digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub digest: Digest,
    pub media_type: Option<String>,
    pub bytes: Vec<u8>,
}

/// A blob being downloaded. Nothing is verified yet: the caller that stores it must verify it.
pub struct Download {
    /// Where in the blob the stream begins: as requested, or 0 if the registry cannot start in the middle.
    pub from: u64,
    pub stream: std::pin::Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>,
}

impl Download {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<std::io::Result<Bytes>> {
        self.stream.next().await
    }
}

impl Registry {
    /// The manifest of a tag or a digest.
    pub async fn manifest(&mut self, reference: &Reference) -> Result<Fetched> {
        let accept = format!("{OCI_MANIFEST}, {OCI_INDEX}, {DOCKER_MANIFEST}, {DOCKER_LIST}");
        let url = self.url(&reference.repository, &format!("manifests/{}", reference.tag))?;
        let mut ask = PendingRequest::new(Method::GET, url, &reference.repository);
        ask.accept = Some(&accept);
        let response = self.ask(&ask).await?;
        let response = self.check(response, &reference.to_string()).await?;
        let announced = response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        let announced = announced.and_then(|text| text.parse::<Digest>().ok());
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bytes = self.read(response, MANIFEST_BYTES_MAX, "the manifest").await?;
        let digest = Digest::of(&bytes);
        let expected = match &reference.tag {
            Tag::Digest(expected) => Some(expected),
            Tag::Name(_) => announced.as_ref(),
        };
        match expected.filter(|expected| **expected != digest) {
            Some(expected) => Err(OciError::new(
                Kind::Damaged,
                format!("the manifest has digest {digest}, {expected} was expected; it may be tampered with"),
            )),
            None => Ok(Fetched { digest, media_type, bytes }),
        }
    }

    /// Whether such a manifest exists, without fetching it.
    pub async fn has(&mut self, reference: &Reference) -> Result<bool> {
        let accept = format!("{OCI_MANIFEST}, {OCI_INDEX}, {DOCKER_MANIFEST}, {DOCKER_LIST}");
        let url = self.url(&reference.repository, &format!("manifests/{}", reference.tag))?;
        let mut ask = PendingRequest::new(Method::HEAD, url, &reference.repository);
        ask.accept = Some(&accept);
        let response = self.ask(&ask).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            _ => self.check(response, &reference.to_string()).await.map(|_| true),
        }
    }

    /// A small blob, complete and verified.
    pub async fn blob(&mut self, repository: &str, digest: &Digest, max: usize) -> Result<Vec<u8>> {
        let what = format!("layer {digest}");
        let url = self.url(repository, &format!("blobs/{digest}"))?;
        let response = self.ask(&PendingRequest::new(Method::GET, url, repository)).await?;
        let response = self.check(response, &format!("{repository}@{digest}")).await?;
        let bytes = self.read(response, max, &what).await?;
        let actual = Digest::of(&bytes);
        if actual == *digest {
            Ok(bytes)
        } else {
            let message = format!("{what} arrived with digest {actual}; it is damaged or tampered with");
            Err(OciError::new(Kind::Damaged, message))
        }
    }

    /// A blob of any size, from a given byte on: resumes an interrupted download.
    pub async fn download(&mut self, repository: &str, digest: &Digest, from: u64) -> Result<Download> {
        let url = self.url(repository, &format!("blobs/{digest}"))?;
        let mut ask = PendingRequest::new(Method::GET, url, repository);
        ask.from = from;
        let response = self.ask(&ask).await?;
        let response = self.check(response, &format!("{repository}@{digest}")).await?;
        let from = if response.status() == StatusCode::PARTIAL_CONTENT { from } else { 0 };
        let stream =
            response.bytes_stream().map(|part| part.map_err(|error| std::io::Error::other(error.without_url())));
        Ok(Download { from, stream: Box::pin(stream) })
    }
}

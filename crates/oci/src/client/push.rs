//! Pushes blobs and manifests to a registry: skips existing content and resumes interrupted uploads.

use super::error::{Kind, OciError, Result};
use super::{Content, PendingRequest, Registry};
use crate::manifest::{DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST};
use bytes::Bytes;
use margo::Digest;
use reqwest::header::{LOCATION, RANGE};
use reqwest::{Method, Response};
use std::time::Duration;
use url::Url;

/// Larger blobs are sent in pieces, so that an interruption costs one piece.
const CHUNK_BYTES: usize = 16 << 20;
/// How often an interrupted upload is resumed.
const RESUMES_MAX: u32 = 5;
/// Delay before an upload is resumed; doubled each time, since the registry may still handle the interrupted request.
const RESUME_PAUSE: Duration = Duration::from_millis(200);
const OCTETS: &str = "application/octet-stream";

/// The result for a blob or manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    Sent,
    /// It already existed.
    Present,
}

impl Registry {
    async fn has_blob(&mut self, repository: &str, digest: &Digest) -> Result<bool> {
        let url = self.url(repository, &format!("blobs/{digest}"))?;
        let response = self.ask(&PendingRequest::new(Method::HEAD, url, repository).pushing()).await?;
        match response.status().as_u16() {
            404 => Ok(false),
            _ => self.check(response, repository).await.map(|_| true),
        }
    }

    /// Sends a blob unless the repository has it; `on_progress` gets the number of bytes that have arrived.
    pub async fn push_blob(
        &mut self,
        repository: &str,
        digest: &Digest,
        bytes: &Bytes,
        mut on_progress: impl FnMut(u64),
    ) -> Result<Pushed> {
        if self.has_blob(repository, digest).await? {
            on_progress(bytes.len() as u64);
            return Ok(Pushed::Present);
        }
        let mut location = self.begin(repository).await?;
        let mut sent = 0;
        let mut resumes = 0_u32;
        // The last piece is sent with the digest.
        while bytes.len() - sent > CHUNK_BYTES {
            match self.chunk(repository, &location, bytes, sent).await {
                Ok(next) => {
                    location = next;
                    sent += CHUNK_BYTES;
                }
                Err(error) if error.is_transient() && resumes < RESUMES_MAX => {
                    tokio::time::sleep(RESUME_PAUSE * 2_u32.pow(resumes)).await;
                    resumes += 1;
                    (location, sent) = self.resume(repository, location).await?;
                }
                Err(error) => return Err(error),
            }
            on_progress(sent as u64);
        }
        self.finish(repository, location, digest, bytes, sent).await?;
        on_progress(bytes.len() as u64);
        Ok(Pushed::Sent)
    }

    async fn begin(&mut self, repository: &str) -> Result<Url> {
        let url = self.url(repository, "blobs/uploads/")?;
        let response = self.ask(&PendingRequest::new(Method::POST, url, repository).pushing()).await?;
        let response = self.check(response, repository).await?;
        self.location(&response)
    }

    async fn chunk(&mut self, repository: &str, location: &Url, bytes: &Bytes, from: usize) -> Result<Url> {
        let to = (from + CHUNK_BYTES).min(bytes.len());
        let mut ask = PendingRequest::new(Method::PATCH, location.clone(), repository).pushing();
        let range = Some((from as u64, to as u64 - 1));
        ask.content = Some(Content { bytes: bytes.slice(from..to), media_type: OCTETS, range });
        let response = self.ask(&ask).await?;
        // The offset differs from ours, or an interrupted request still holds the upload.
        if matches!(response.status().as_u16(), 409 | 416) {
            return Err(OciError::new(Kind::Busy, format!("registry `{}` reports an inconsistent upload", self.host)));
        }
        let response = self.check(response, repository).await?;
        self.location(&response)
    }

    /// The offset of an upload and where to continue; starts again if the registry has dropped it.
    async fn resume(&mut self, repository: &str, location: Url) -> Result<(Url, usize)> {
        let response = self.ask(&PendingRequest::new(Method::GET, location.clone(), repository).pushing()).await?;
        if response.status().as_u16() == 404 {
            return Ok((self.begin(repository).await?, 0));
        }
        let response = self.check(response, repository).await?;
        let range = response.headers().get(RANGE).and_then(|value| value.to_str().ok());
        let last = range.and_then(|text| text.rsplit('-').next()).and_then(|text| text.parse::<usize>().ok());
        let next = self.location(&response).unwrap_or(location);
        // `0-0` can mean nothing or one byte; starting at 0 is right for both.
        Ok((next, last.filter(|last| *last > 0).map_or(0, |last| last + 1)))
    }

    async fn finish(
        &mut self,
        repository: &str,
        location: Url,
        digest: &Digest,
        bytes: &Bytes,
        from: usize,
    ) -> Result<()> {
        let mut url = location;
        url.query_pairs_mut().append_pair("digest", digest.as_str());
        let mut ask = PendingRequest::new(Method::PUT, url, repository).pushing();
        let range = (from > 0).then(|| (from as u64, bytes.len() as u64 - 1));
        ask.content = Some(Content { bytes: bytes.slice(from..), media_type: OCTETS, range });
        let response = self.ask(&ask).await?;
        self.check(response, repository).await.map(drop)
    }

    fn location(&self, response: &Response) -> Result<Url> {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let url = location.and_then(|text| response.url().join(text).ok());
        let safe =
            url.filter(|url| url.scheme() == "https" || (self.plain_http && crate::reference::is_loopback_url(url)));
        safe.ok_or_else(|| {
            OciError::new(Kind::Refused, format!("registry `{}` does not say where to continue an upload", self.host))
        })
    }

    /// The digest of a tag, or a digest itself if it exists.
    pub async fn stat(&mut self, repository: &str, reference: &str) -> Result<Option<Digest>> {
        let accept = format!("{OCI_MANIFEST}, {OCI_INDEX}, {DOCKER_MANIFEST}, {DOCKER_LIST}");
        let url = self.url(repository, &format!("manifests/{reference}"))?;
        let mut ask = PendingRequest::new(Method::HEAD, url, repository).pushing();
        ask.accept = Some(&accept);
        let response = self.ask(&ask).await?;
        if response.status().as_u16() == 404 {
            return Ok(None);
        }
        let response = self.check(response, repository).await?;
        let digest = response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        Ok(digest.and_then(|text| text.parse().ok()))
    }

    /// Pushes a manifest under a tag, unless the tag already has it.
    pub async fn push_manifest(
        &mut self,
        repository: &str,
        tag: &str,
        media_type: &str,
        bytes: &Bytes,
    ) -> Result<Pushed> {
        if self.stat(repository, tag).await? == Some(Digest::of(bytes)) {
            return Ok(Pushed::Present);
        }
        let url = self.url(repository, &format!("manifests/{tag}"))?;
        let mut ask = PendingRequest::new(Method::PUT, url, repository).pushing();
        ask.content = Some(Content { bytes: bytes.clone(), media_type, range: None });
        let response = self.ask(&ask).await?;
        self.check(response, repository).await?;
        Ok(Pushed::Sent)
    }
}

//! Downloads: resumable, rate-limited, verified at the end.

use super::ArtifactError;
use crate::disk::DiskError;
use futures_util::StreamExt as _;
use margo::Digest;
use margrave_oci::{Kind, OciError, Registry};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use url::Url;

/// How often one download resumes after an interruption; the next retry of the work resumes from there as well.
const RESUMES_MAX: u32 = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time without data.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// A limit in bytes per second over all downloads of an agent.
#[derive(Debug)]
pub(super) struct RateLimit {
    bytes_per_second: u64,
    /// When the bytes taken so far fit the limit.
    paid: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// 0: no limit.
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, paid: Mutex::new(None) }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.bytes_per_second > 0
    }

    /// Waits until the limit allows this many more bytes.
    async fn take(&self, bytes: usize) {
        if self.bytes_per_second == 0 {
            return;
        }
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let now = Instant::now();
        let until = {
            let mut paid = self.paid.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let until = paid.map_or(now, |paid| paid.max(now)) + cost;
            *paid = Some(until);
            until
        };
        tokio::time::sleep_until(until).await;
    }
}

/// Fetches a blob to `path` through `path.part`, which stays after an interruption.
pub(super) async fn blob(
    registry: &mut Registry,
    repository: &str,
    digest: &Digest,
    size: u64,
    path: &Path,
    rate_limit: &RateLimit,
) -> Result<(), ArtifactError> {
    let part = path.with_extension("part");
    let mut resumes = 0;
    loop {
        match attempt(registry, repository, digest, size, &part, rate_limit).await {
            Ok(()) => break,
            Err(ArtifactError::Download { .. }) if resumes < RESUMES_MAX => resumes += 1,
            Err(error) => return Err(error),
        }
    }
    let hashed = part.clone();
    let hash = move || std::fs::File::open(&hashed).and_then(|mut file| Digest::of_reader(&mut file));
    let actual = tokio::task::spawn_blocking(hash).await.map_err(|error| broken(repository, &error.to_string()))?;
    let actual = actual.map_err(|error| disk(&part, error))?;
    if actual != *digest {
        // A wrong partial download cannot become right.
        let _ = tokio::fs::remove_file(&part).await;
        let message = format!("layer {digest} arrived with digest {actual}; it is damaged or tampered with");
        return Err(OciError::new(Kind::Damaged, message).into());
    }
    tokio::fs::rename(&part, path).await.map_err(|error| disk(path, error))
}

async fn attempt(
    registry: &mut Registry,
    repository: &str,
    digest: &Digest,
    size: u64,
    part: &Path,
    rate_limit: &RateLimit,
) -> Result<(), ArtifactError> {
    let there = tokio::fs::metadata(part).await.map_or(0, |metadata| metadata.len());
    let there = if there > size { 0 } else { there };
    if there == size && size > 0 {
        return Ok(());
    }
    let mut download = registry.download(repository, digest, there).await?;
    let mut options = tokio::fs::File::options();
    let mut file =
        options.create(true).write(true).truncate(false).open(part).await.map_err(|error| disk(part, error))?;
    // Written at the offset the registry sends: at the start if it cannot resume.
    file.set_len(download.from).await.map_err(|error| disk(part, error))?;
    tokio::io::AsyncSeekExt::seek(&mut file, std::io::SeekFrom::End(0)).await.map_err(|error| disk(part, error))?;
    let mut arrived = download.from;
    while let Some(chunk) = download.stream.next().await {
        let chunk = chunk.map_err(|error| broken(repository, &error.to_string()))?;
        arrived += chunk.len() as u64;
        if arrived > size {
            let message = format!("layer {digest} is larger than the {size} bytes in its manifest");
            return Err(OciError::new(Kind::Damaged, message).into());
        }
        rate_limit.take(chunk.len()).await;
        let written = file.write_all(&chunk).await;
        written.map_err(|error| full(part, error))?;
    }
    file.sync_all().await.map_err(|error| full(part, error))?;
    if arrived == size { Ok(()) } else { Err(broken(repository, "the connection was interrupted")) }
}

/// A small file from an HTTPS URL.
pub(super) async fn url(
    url: &Url,
    ca: Option<&str>,
    max: u64,
    rate_limit: &RateLimit,
) -> Result<Vec<u8>, ArtifactError> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let failed = |error: reqwest::Error| broken(&host, &error.without_url().to_string());
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .https_only(url.scheme() == "https");
    if let Some(pem) = ca {
        let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(failed)?;
        builder = builder.tls_certs_merge(certificates);
    }
    let client = builder.build().map_err(failed)?;
    let mut response = client.get(url.clone()).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(ArtifactError::Unusable(format!("`{host}` answered with status {}", response.status())));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if bytes.len() as u64 + chunk.len() as u64 > max {
            return Err(ArtifactError::Unusable(format!("the response of `{host}` is larger than {max} bytes")));
        }
        rate_limit.take(chunk.len()).await;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn broken(place: &str, reason: &str) -> ArtifactError {
    ArtifactError::Download { place: place.to_owned(), reason: reason.to_owned() }
}

fn disk(path: &Path, source: std::io::Error) -> ArtifactError {
    DiskError::at(path, source).into()
}

/// A partial file must not use the space that the next retry needs.
fn full(part: &Path, source: std::io::Error) -> ArtifactError {
    let error = DiskError::at(part, source);
    if error.is_disk_full() {
        let _ = std::fs::remove_file(part);
    }
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_downloads_share_the_rate_limit() {
        let rate_limit = RateLimit::new(1000);
        let start = Instant::now();
        tokio::join!(rate_limit.take(1000), rate_limit.take(500), rate_limit.take(500));
        assert_eq!(start.elapsed().as_secs(), 2);
        RateLimit::new(0).take(usize::MAX).await;
        assert_eq!(start.elapsed().as_secs(), 2);
    }
}

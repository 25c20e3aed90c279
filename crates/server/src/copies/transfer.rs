//! Copies one blob from an external registry: only if missing, verified, and resumed after an interruption.

use super::job::Job;
use crate::registry::{Chunk, Digest, RegistryError, RepositoryName};
use axum::body::Body;
use futures_util::StreamExt as _;
use margrave_oci::client::Download;
use margrave_oci::{Descriptor, Kind, OciError, Registry};
use std::sync::Arc;
use std::time::Duration;

/// How often a download is resumed before its registry counts as unreachable.
const ATTEMPTS_MAX: u32 = 5;
/// Doubled with every attempt.
const PAUSE: Duration = Duration::from_millis(250);

/// Why an artifact is not copied.
#[derive(Debug, Clone)]
pub(super) enum CopyError {
    /// The external registry does not have it.
    NotFound(String),
    /// The external registry does not deliver it, or delivers invalid content.
    Source(String),
    /// The external registry is unreachable.
    Gone(String),
    /// The embedded registry cannot store it, so nothing else can be stored either.
    Ours(String),
}

impl From<OciError> for CopyError {
    fn from(error: OciError) -> Self {
        match error.kind {
            Kind::NotFound => Self::NotFound(error.message),
            Kind::Unreachable | Kind::NameUnknown | Kind::Untrusted | Kind::Busy => Self::Gone(error.message),
            _ => Self::Source(error.message),
        }
    }
}

impl From<RegistryError> for CopyError {
    fn from(error: RegistryError) -> Self {
        match &error {
            RegistryError::DigestMismatch { .. } | RegistryError::SizeInvalid(_) => {
                Self::Source(format!("{error}; it is damaged or was tampered with"))
            }
            RegistryError::ManifestInvalid(_) | RegistryError::BlobTooLarge { .. } => Self::Source(error.to_string()),
            RegistryError::Storage { source, .. } => {
                tracing::error!(%error, %source, "registry error during a copy");
                Self::Ours(format!("{error}: {source}"))
            }
            _ => Self::Ours(error.to_string()),
        }
    }
}

/// Deletes an upload that does not continue, because it counts against the quota; it may have ended already.
pub(super) async fn clear(ours: &crate::registry::Registry, job: &Job) {
    if let Some((repository, upload)) = job.uploaded() {
        let _ = ours.cancel_upload(&repository, &upload).await;
    }
}

/// Destination of blobs, and the record to update.
pub(super) struct Transfer<'a> {
    pub(super) ours: &'a crate::registry::Registry,
    pub(super) repository: &'a RepositoryName,
    pub(super) job: &'a Arc<Job>,
    /// Which artifact of the copy.
    pub(super) index: usize,
}

impl Transfer<'_> {
    /// Copies a blob unless it is present.
    pub(super) async fn blob(&self, theirs: &mut Registry, from: &str, blob: &Descriptor) -> Result<(), CopyError> {
        let digest: Digest =
            blob.digest.as_str().parse().map_err(|_| CopyError::Source("an invalid digest".to_owned()))?;
        if self.ours.blob_size(self.repository, &digest).is_ok() {
            self.job.present(self.index, blob.size);
            return Ok(());
        }
        if let Some(holder) = self.ours.holder(&digest)
            && self.ours.mount(self.repository, &digest, &holder).await?
        {
            self.job.present(self.index, blob.size);
            return Ok(());
        }
        let mut upload = self.begin().await?;
        let done = self.receive(theirs, from, blob, &digest, &mut upload).await;
        if done.is_err() {
            clear(self.ours, self.job).await;
        }
        self.job.uploaded();
        done
    }

    async fn begin(&self) -> Result<String, CopyError> {
        let upload = self.ours.begin_upload(self.repository).await?.to_string();
        self.job.uploading(self.repository, &upload);
        Ok(upload)
    }

    async fn receive(
        &self,
        theirs: &mut Registry,
        from: &str,
        blob: &Descriptor,
        digest: &Digest,
        upload: &mut String,
    ) -> Result<(), CopyError> {
        let mut failed = 0;
        loop {
            let (_, received) = self.ours.upload_received(self.repository, upload)?;
            let trouble = match theirs.download(from, &blob.digest, received).await {
                Ok(download) if download.from == received => {
                    match self.append(upload, download, blob, received).await {
                        Ok(()) => {
                            let nothing = Chunk::whole(Body::empty());
                            return Ok(self.ours.finish(self.repository, upload, nothing, digest).await?);
                        }
                        Err(trouble) => trouble,
                    }
                }
                Ok(_) => {
                    // It does not support ranges, so the download starts over.
                    self.ours.cancel_upload(self.repository, upload).await?;
                    *upload = self.begin().await?;
                    CopyError::Gone(format!(
                        "registry `{}` closed the connection in the middle of {digest}",
                        theirs.host()
                    ))
                }
                Err(error) => error.into(),
            };
            failed += 1;
            match trouble {
                CopyError::Gone(_) if failed < ATTEMPTS_MAX => tokio::time::sleep(PAUSE * 2_u32.pow(failed - 1)).await,
                trouble => return Err(trouble),
            }
        }
    }

    async fn append(
        &self,
        upload: &str,
        download: Download,
        blob: &Descriptor,
        received: u64,
    ) -> Result<(), CopyError> {
        let (job, index) = (Arc::clone(self.job), self.index);
        // The registry reads a body to its end, even if the request was cancelled.
        let stopped = self.job.stop.clone().cancelled_owned();
        let counted = download.stream.take_until(Box::pin(stopped)).inspect(move |part| {
            if let Ok(bytes) = part {
                job.copied(index, bytes.len() as u64);
            }
        });
        // The size is announced, so that a quota that is too small is known before the transfer.
        let length = Some(blob.size.saturating_sub(received));
        let chunk = Chunk { body: Body::from_stream(counted), range: None, length };
        match self.ours.append(self.repository, upload, chunk).await {
            Ok(_) => Ok(()),
            Err(error @ (RegistryError::UploadInvalid(_) | RegistryError::Stalled(_) | RegistryError::TooMany(_))) => {
                Err(CopyError::Gone(format!(
                    "the registry closed the connection in the middle of {}: {error}",
                    blob.digest
                )))
            }
            Err(error) => Err(error.into()),
        }
    }
}

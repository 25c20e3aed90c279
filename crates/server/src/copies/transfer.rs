//! One blob from another registry into ours: only if it is missing, verified, and resumed where a line broke.

use super::job::Job;
use crate::registry::{Chunk, Digest, RegistryError, RepositoryName};
use axum::body::Body;
use futures_util::StreamExt as _;
use margrave_oci::client::Download;
use margrave_oci::{Descriptor, Kind, OciError, Registry};
use std::sync::Arc;
use std::time::Duration;

/// How often a download is taken up again before its registry counts as gone.
const ATTEMPTS_MAX: u32 = 5;
/// Doubled with every attempt.
const PAUSE: Duration = Duration::from_millis(250);

/// Why something is not copied.
#[derive(Debug, Clone)]
pub(super) enum Trouble {
    /// The other registry does not have it.
    NotFound(String),
    /// The other registry does not give it, or not as it should be.
    Source(String),
    /// The other registry has gone.
    Gone(String),
    /// We cannot take it: nothing else can be taken either.
    Ours(String),
}

impl From<OciError> for Trouble {
    fn from(error: OciError) -> Self {
        match error.kind {
            Kind::NotFound => Self::NotFound(error.message),
            Kind::Unreachable | Kind::NameUnknown | Kind::Untrusted | Kind::Busy => Self::Gone(error.message),
            _ => Self::Source(error.message),
        }
    }
}

impl From<RegistryError> for Trouble {
    fn from(error: RegistryError) -> Self {
        match &error {
            RegistryError::DigestMismatch { .. } | RegistryError::SizeInvalid(_) => {
                Self::Source(format!("{error}; it is damaged or tampered with"))
            }
            RegistryError::ManifestInvalid(_) | RegistryError::BlobTooLarge { .. } => Self::Source(error.to_string()),
            RegistryError::Storage { source, .. } => {
                tracing::error!(%error, %source, "the registry failed in a copy");
                Self::Ours(format!("{error}: {source}"))
            }
            _ => Self::Ours(error.to_string()),
        }
    }
}

/// What came of an upload that does not go on counts against the quota, so it goes; it may have ended by itself.
pub(super) async fn clear(ours: &crate::registry::Registry, job: &Job) {
    if let Some((repository, upload)) = job.uploaded() {
        let _ = ours.cancel_upload(&repository, &upload).await;
    }
}

/// Where blobs go, and who is told.
pub(super) struct Transfer<'a> {
    pub(super) ours: &'a crate::registry::Registry,
    pub(super) repository: &'a RepositoryName,
    pub(super) job: &'a Arc<Job>,
    /// Which artifact of the copy.
    pub(super) index: usize,
}

impl Transfer<'_> {
    /// Brings a blob in unless it is here.
    pub(super) async fn blob(&self, theirs: &mut Registry, from: &str, blob: &Descriptor) -> Result<(), Trouble> {
        let digest: Digest = blob.digest.as_str().parse().map_err(|_| Trouble::Source("an odd digest".to_owned()))?;
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

    async fn begin(&self) -> Result<String, Trouble> {
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
    ) -> Result<(), Trouble> {
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
                    // It cannot begin in the middle, so we begin at the beginning.
                    self.ours.cancel_upload(self.repository, upload).await?;
                    *upload = self.begin().await?;
                    Trouble::Gone(format!("registry `{}` broke off in the middle of {digest}", theirs.host()))
                }
                Err(error) => error.into(),
            };
            failed += 1;
            match trouble {
                Trouble::Gone(_) if failed < ATTEMPTS_MAX => tokio::time::sleep(PAUSE * 2_u32.pow(failed - 1)).await,
                trouble => return Err(trouble),
            }
        }
    }

    async fn append(&self, upload: &str, download: Download, blob: &Descriptor, received: u64) -> Result<(), Trouble> {
        let (job, index) = (Arc::clone(self.job), self.index);
        // The registry takes a body to its end, whoever asked for it has gone or not.
        let stopped = self.job.stop.clone().cancelled_owned();
        let counted = download.stream.take_until(Box::pin(stopped)).inspect(move |part| {
            if let Ok(bytes) = part {
                job.copied(index, bytes.len() as u64);
            }
        });
        // The size is announced, so that a quota is known to be too small before the line is used.
        let length = Some(blob.size.saturating_sub(received));
        let chunk = Chunk { body: Body::from_stream(counted), range: None, length };
        match self.ours.append(self.repository, upload, chunk).await {
            Ok(_) => Ok(()),
            Err(error @ (RegistryError::UploadInvalid(_) | RegistryError::Stalled(_) | RegistryError::TooMany(_))) => {
                Err(Trouble::Gone(format!("the registry broke off in the middle of {}: {error}", blob.digest)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

//! Uploads: started, received in chunks that are never in memory as a whole, resumed, completed, cancelled.
//!
//! The length of the file is what an upload has received. A kill leaves what the kernel wrote, which may be more than
//! was acknowledged; the digest at the end covers all of it.

use super::disk;
use super::error::{Attempt as _, RegistryError, Result};
use super::names::{Algorithm, Digest, RepositoryName};
use super::{Inner, Registry};
use aws_lc_rs::digest::Context;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use margrave_core::time::Timestamp;
use std::fs::File;
use std::io::{self, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _, BufWriter};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use uuid::Uuid;

/// Buffered before a write, so that small frames do not each cost a disk access.
const WRITE_BUFFER_BYTES: usize = 256 * 1024;
/// How long a request waits for another one that writes to the same upload, typically one whose client is gone.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);
/// A rejected body is read this far, because a client that is still sending does not see the response.
const DRAIN_BYTES_MAX: u64 = 32 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Part of a blob, or all of it.
pub struct Chunk {
    pub body: Body,
    /// First and last byte, if the client states them.
    pub range: Option<(u64, u64)>,
    pub length: Option<u64>,
}

impl Chunk {
    pub fn whole(body: Body) -> Self {
        Self { body, range: None, length: None }
    }
}

pub(super) struct Session {
    id: Uuid,
    repository: RepositoryName,
    received: AtomicU64,
    touched: AtomicI64,
    upload: Mutex<Upload>,
}

struct Upload {
    /// The running hash of everything received; `None` after a restart, when the file has to be read again.
    hash: Option<Context>,
    over: bool,
}

impl Session {
    fn started(id: Uuid, repository: RepositoryName, now: Timestamp) -> Self {
        let hash = Some(Algorithm::Sha256.context());
        let upload = Mutex::new(Upload { hash, over: false });
        Self { id, repository, received: AtomicU64::new(0), touched: AtomicI64::new(now.0), upload }
    }
    pub(super) fn resumed(id: Uuid, repository: RepositoryName, received: u64, now: Timestamp) -> Self {
        let session = Self::started(id, repository, now);
        session.received.store(received, Ordering::Relaxed);
        Self { upload: Mutex::new(Upload { hash: None, over: false }), ..session }
    }
    pub(super) fn size(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
    pub(super) fn location(&self) -> String {
        location(&self.repository, self.id)
    }
    async fn lock_upload(&self) -> Result<MutexGuard<'_, Upload>> {
        let upload = timeout(TURN_TIMEOUT, self.upload.lock()).await.map_err(|_| RegistryError::UploadBusy)?;
        if upload.over { Err(RegistryError::UploadUnknown(self.id.to_string())) } else { Ok(upload) }
    }
}

/// Where a client continues an upload.
pub(super) fn location(repository: &RepositoryName, id: Uuid) -> String {
    format!("/v2/{repository}/blobs/uploads/{id}")
}

impl Registry {
    pub async fn begin_upload(&self, repository: &RepositoryName) -> Result<Uuid> {
        let repository = repository.clone();
        self.blocking(move |inner| {
            if inner.sessions.lock().len() >= inner.options.uploads_open_max {
                return Err(RegistryError::TooMany("too many uploads are open"));
            }
            inner.admit(&repository, 0, 0)?;
            let id = Uuid::new_v4();
            disk::make_folder(&inner.layout.upload(id)).attempt("begin an upload")?;
            File::create_new(inner.layout.upload_data(id)).attempt("begin an upload")?;
            let owner = repository.as_str().as_bytes();
            inner.layout.write(&inner.layout.upload_owner(id), &[owner]).attempt("begin an upload")?;
            let session = Session::started(id, repository, inner.clock.now());
            inner.sessions.lock().insert(id, Arc::new(session));
            Ok(id)
        })
        .await
    }

    /// Number of bytes received.
    pub fn upload_received(&self, repository: &RepositoryName, id: &str) -> Result<(Uuid, u64)> {
        let session = self.session(repository, id)?;
        session.touched.store(self.inner.clock.now().0, Ordering::Relaxed);
        Ok((session.id, session.size()))
    }

    /// Appends a chunk; returns the number of bytes received.
    pub async fn append(&self, repository: &RepositoryName, id: &str, chunk: Chunk) -> Result<u64> {
        let session = self.session(repository, id)?;
        self.run_to_completion(async move |registry| {
            let mut upload = session.lock_upload().await?;
            registry.receive(&session, &mut upload, chunk).await?;
            Ok(session.size())
        })
        .await
    }

    /// Appends the last chunk, verifies the digest and adds the blob.
    pub async fn finish(&self, repository: &RepositoryName, id: &str, chunk: Chunk, digest: &Digest) -> Result<()> {
        let session = self.session(repository, id)?;
        let digest = digest.clone();
        self.run_to_completion(async move |registry| {
            let mut upload = session.lock_upload().await?;
            registry.receive(&session, &mut upload, chunk).await?;
            let done = registry.enter(&session, &mut upload, &digest).await;
            match &done {
                // The client may retry when the disk was at fault.
                Err(RegistryError::Storage { .. }) => {}
                _ => registry.end(&session, &mut upload).await?,
            }
            done
        })
        .await
    }

    pub async fn cancel_upload(&self, repository: &RepositoryName, id: &str) -> Result<()> {
        let session = self.session(repository, id)?;
        let mut upload = session.lock_upload().await?;
        self.end(&session, &mut upload).await
    }

    fn session(&self, repository: &RepositoryName, id: &str) -> Result<Arc<Session>> {
        let sessions = self.inner.sessions.lock();
        let session = id.parse::<Uuid>().ok().and_then(|id| sessions.get(&id));
        // An upload of another repository is hidden.
        let session = session.filter(|session| session.repository == *repository);
        session.cloned().ok_or_else(|| RegistryError::UploadUnknown(id.chars().take(40).collect()))
    }

    /// Runs in its own task, so that a disconnecting client leaves no partial write.
    async fn run_to_completion<T, F>(&self, work: impl FnOnce(Registry) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let permit = Arc::clone(&self.inner.bodies).try_acquire_owned();
        let permit = permit.map_err(|_| RegistryError::TooMany("too many uploads at once"))?;
        let work = work(self.clone());
        let done = tokio::spawn(async move {
            let done = work.await;
            drop(permit);
            done
        });
        done.await.unwrap_or_else(|error| {
            Err(RegistryError::Storage { attempt: "receive an upload", source: io::Error::other(error) })
        })
    }

    async fn receive(&self, session: &Session, upload: &mut Upload, chunk: Chunk) -> Result<()> {
        let inner = &self.inner;
        let start = session.size();
        let Chunk { body, range, length } = chunk;
        let mut body = body.into_data_stream();
        let expected = match check(session, range, length) {
            Ok(expected) => expected,
            Err(error) => {
                drain(&mut body).await;
                return Err(error);
            }
        };
        if let Err(error) = inner.admit(&session.repository, start, expected.unwrap_or(0)) {
            drain(&mut body).await;
            return Err(error);
        }
        let hash_before = upload.hash.clone();
        let mut writing = ChunkWriter { inner, session, hash: &mut upload.hash, start, written: 0 };
        let received = writing.receive(&mut body, expected).await;
        let keep = matches!(received, Ok(()) | Err(RegistryError::UploadInvalid(_) | RegistryError::Stalled(_)));
        let written = writing.written;
        if keep {
            session.received.store(start + written, Ordering::Relaxed);
        } else {
            // Nothing of a rejected chunk stays; the file is truncated before the next write.
            inner.uploading.fetch_sub(written, Ordering::Relaxed);
            upload.hash = hash_before;
            drain(&mut body).await;
        }
        session.touched.store(inner.clock.now().0, Ordering::Relaxed);
        received
    }

    async fn enter(&self, session: &Session, upload: &mut Upload, digest: &Digest) -> Result<()> {
        let running = match digest.algorithm() {
            Algorithm::Sha256 => upload.hash.take(),
            Algorithm::Sha512 => None,
        };
        let (id, repository, size) = (session.id, session.repository.clone(), session.size());
        let digest = digest.clone();
        self.blocking(move |inner| {
            let data = inner.layout.upload_data(id);
            let algorithm = digest.algorithm();
            let actual = match running {
                Some(context) => algorithm.finish(context),
                None => disk::hash(&data, algorithm).attempt("read an upload")?,
            };
            if actual != digest {
                return Err(RegistryError::DigestMismatch { expected: digest, actual });
            }
            inner.commit_blob(&repository, &digest, size, &data)
        })
        .await
    }

    async fn end(&self, session: &Session, upload: &mut Upload) -> Result<()> {
        upload.over = true;
        let id = session.id;
        self.inner.sessions.lock().remove(&id);
        self.inner.uploading.fetch_sub(session.size(), Ordering::Relaxed);
        self.blocking(move |inner| disk::remove_folder(&inner.layout.upload(id)).attempt("end an upload")).await
    }

    /// Deletes uploads without activity for too long; returns their number.
    pub(super) async fn expire_uploads(&self) -> Result<usize> {
        let now = self.inner.clock.now();
        let limit = now.minus(self.inner.options.upload_expiry);
        let old: Vec<Arc<Session>> = {
            let sessions = self.inner.sessions.lock();
            let stale = |session: &&Arc<Session>| session.touched.load(Ordering::Relaxed) < limit.0;
            sessions.values().filter(stale).cloned().collect()
        };
        let mut expired = 0;
        for session in old {
            // An upload that is being written to is active.
            if let Ok(mut upload) = session.upload.try_lock()
                && !upload.over
            {
                self.end(&session, &mut upload).await?;
                expired += 1;
            }
        }
        Ok(expired)
    }
}

/// The announced bytes of a chunk; fails for a contradictory one or one that does not follow the current end.
fn check(session: &Session, range: Option<(u64, u64)>, length: Option<u64>) -> Result<Option<u64>> {
    let Some((first, last)) = range else { return Ok(length) };
    let offset = session.size();
    if first != offset {
        return Err(RegistryError::ChunkOutOfOrder { offset, location: session.location() });
    }
    let announced = (last - first).checked_add(1);
    let announced =
        announced.ok_or_else(|| RegistryError::SizeInvalid("Content-Range names too many bytes".to_owned()))?;
    match length {
        Some(length) if length != announced => {
            let message = format!("Content-Range names {announced} bytes and Content-Length {length}");
            Err(RegistryError::SizeInvalid(message))
        }
        _ => Ok(Some(announced)),
    }
}

struct ChunkWriter<'a> {
    inner: &'a Inner,
    session: &'a Session,
    hash: &'a mut Option<Context>,
    start: u64,
    written: u64,
}

impl ChunkWriter<'_> {
    async fn receive(&mut self, body: &mut BodyDataStream, expected: Option<u64>) -> Result<()> {
        let path = self.inner.layout.upload_data(self.session.id);
        let mut file = tokio::fs::OpenOptions::new().write(true).open(path).await.attempt("open an upload")?;
        file.set_len(self.start).await.attempt("cut an upload")?;
        file.seek(SeekFrom::Start(self.start)).await.attempt("seek in an upload")?;
        let mut file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
        let mut failed = None;
        while failed.is_none() {
            failed = match timeout(self.inner.options.body_idle_timeout, body.next()).await {
                Ok(Some(Ok(bytes))) => match self.take(&bytes, expected) {
                    Ok(()) => file.write_all(&bytes).await.attempt("write an upload").err(),
                    Err(refused) => Some(refused),
                },
                Ok(None) => break,
                Ok(Some(Err(_))) => Some(RegistryError::UploadInvalid("the body is incomplete".to_owned())),
                Err(_) => Some(RegistryError::Stalled(self.inner.options.body_idle_timeout.as_secs())),
            };
        }
        // Also after an error: a pending write would otherwise race with the next request.
        file.flush().await.attempt("write an upload")?;
        file.get_ref().sync_data().await.attempt("bring an upload to the disk")?;
        match (failed, expected) {
            (Some(error), _) => Err(error),
            (None, Some(expected)) if expected != self.written => {
                let written = self.written;
                Err(RegistryError::SizeInvalid(format!("{expected} bytes were announced and {written} received")))
            }
            (None, _) => Ok(()),
        }
    }

    fn take(&mut self, bytes: &Bytes, expected: Option<u64>) -> Result<()> {
        let length = bytes.len() as u64;
        if expected.is_some_and(|expected| self.written + length > expected) {
            return Err(RegistryError::SizeInvalid("more bytes received than announced".to_owned()));
        }
        // Counted first, then checked, so that several uploads cannot each take the last free byte.
        self.inner.uploading.fetch_add(length, Ordering::Relaxed);
        self.written += length;
        self.inner.admit(&self.session.repository, self.start + self.written, 0)?;
        if let Some(hash) = self.hash {
            hash.update(bytes);
        }
        Ok(())
    }
}

async fn drain(body: &mut BodyDataStream) {
    let read = async {
        let mut left = DRAIN_BYTES_MAX;
        while let Some(Ok(bytes)) = body.next().await {
            left = left.saturating_sub(bytes.len() as u64);
            if left == 0 {
                break;
            }
        }
    };
    // Whether all of it arrived no longer matters.
    let _ = timeout(DRAIN_TIMEOUT, read).await;
}

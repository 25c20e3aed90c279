//! The record of one copy, and the bounded list of records.

use crate::app::error::{AppError, AppResult, Code};
use crate::registry::RepositoryName;
use indexmap::IndexMap;
use margrave_api::applications::ApplicationVersion;
use margrave_api::copies::{CopiedArtifact, CopiedKind, CopiedState, Copy, CopyState};
use margrave_api::registries::RegistryUse;
use margrave_core::time::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Copies that run concurrently; each can saturate a network link.
const RUNNING_MAX: usize = 2;
/// Copies that run or wait.
const OPEN_MAX: usize = 32;
/// Finished copies that are kept.
const CACHED_MAX: usize = 100;

/// All copies of this process, oldest first.
#[derive(Debug)]
pub struct Copies {
    jobs: Mutex<IndexMap<Uuid, Arc<Job>>>,
    pub(super) permits: Semaphore,
}

impl Default for Copies {
    fn default() -> Self {
        Self { jobs: Mutex::default(), permits: Semaphore::new(RUNNING_MAX) }
    }
}

impl Copies {
    pub(super) fn admit(&self, job: &Arc<Job>) -> AppResult<()> {
        let mut jobs = self.jobs.lock();
        let open = jobs.values().filter(|job| !job.copy.lock().state.is_over()).count();
        if open >= OPEN_MAX {
            return Err(AppError::refused(Code::Unavailable, format!("{open} copies are open; try again later")));
        }
        while jobs.len() >= CACHED_MAX
            && let Some(oldest) = jobs.values().position(|job| job.copy.lock().state.is_over())
        {
            jobs.shift_remove_index(oldest);
        }
        jobs.insert(job.id, Arc::clone(job));
        Ok(())
    }

    pub(super) fn forget(&self, id: Uuid) {
        self.jobs.lock().shift_remove(&id);
    }

    pub(super) fn get(&self, id: Uuid) -> Option<Arc<Job>> {
        self.jobs.lock().get(&id).cloned()
    }

    /// Newest first.
    pub(super) fn list(&self) -> Vec<Copy> {
        self.jobs.lock().values().rev().map(|job| job.show()).collect()
    }
}

#[derive(Debug)]
pub(super) struct Job {
    id: Uuid,
    copy: Mutex<Copy>,
    /// The current upload, to be deleted when the copy ends in the middle of it.
    upload: Mutex<Option<(RepositoryName, String)>>,
    /// Cancelled by an operator, or with the server.
    pub(super) stop: CancellationToken,
}

impl Job {
    pub(super) fn new(id: Uuid, source: String, actor: String, now: Timestamp, stop: CancellationToken) -> Arc<Self> {
        let copy = Copy {
            id: id.to_string(),
            source,
            state: CopyState::Waiting,
            created_at: now.to_string(),
            ended_at: None,
            actor,
            bytes_copied: 0,
            bytes_present: 0,
            artifacts: Vec::new(),
            registries: Vec::new(),
            unknown: Vec::new(),
            error: None,
            application: None,
        };
        Arc::new(Self { id, copy: Mutex::new(copy), upload: Mutex::new(None), stop })
    }

    pub(super) fn uploading(&self, repository: &RepositoryName, upload: &str) {
        *self.upload.lock() = Some((repository.clone(), upload.to_owned()));
    }
    pub(super) fn uploaded(&self) -> Option<(RepositoryName, String)> {
        self.upload.lock().take()
    }

    pub(super) fn id(&self) -> Uuid {
        self.id
    }
    pub(super) fn source(&self) -> String {
        self.copy.lock().source.clone()
    }
    pub(super) fn show(&self) -> Copy {
        self.copy.lock().clone()
    }
    pub(super) fn cancel(&self) {
        self.stop.cancel();
    }

    pub(super) fn begin(&self) {
        self.copy.lock().state = CopyState::Running;
    }

    /// Adds an artifact; returns its position in the list.
    pub(super) fn add(&self, kind: CopiedKind, reference: String, repository: Option<String>) -> usize {
        let mut copy = self.copy.lock();
        copy.artifacts.push(CopiedArtifact {
            kind,
            reference,
            repository,
            digest: None,
            state: CopiedState::Waiting,
            bytes_copied: 0,
            bytes_present: 0,
            platforms: Vec::new(),
            message: None,
        });
        copy.artifacts.len() - 1
    }

    pub(super) fn update(&self, index: usize, change: impl FnOnce(&mut CopiedArtifact)) {
        if let Some(artifact) = self.copy.lock().artifacts.get_mut(index) {
            change(artifact);
        }
    }

    pub(super) fn copied(&self, index: usize, bytes: u64) {
        let mut copy = self.copy.lock();
        copy.bytes_copied += bytes;
        if let Some(artifact) = copy.artifacts.get_mut(index) {
            artifact.bytes_copied += bytes;
        }
    }

    pub(super) fn present(&self, index: usize, bytes: u64) {
        let mut copy = self.copy.lock();
        copy.bytes_present += bytes;
        if let Some(artifact) = copy.artifacts.get_mut(index) {
            artifact.bytes_present += bytes;
        }
    }

    pub(super) fn unknown(&self, texts: impl IntoIterator<Item = String>) {
        self.copy.lock().unknown.extend(texts);
    }

    pub(super) fn used(&self, registry: RegistryUse) {
        self.copy.lock().registries.push(registry);
    }

    pub(super) fn imported(&self, application: ApplicationVersion) {
        self.copy.lock().application = Some(application);
    }

    /// All requested artifacts are present.
    pub(super) fn is_complete(&self) -> bool {
        let here = |artifact: &CopiedArtifact| matches!(artifact.state, CopiedState::Copied | CopiedState::Present);
        self.copy.lock().artifacts.iter().all(here)
    }

    pub(super) fn end(&self, state: CopyState, error: Option<String>, now: Timestamp) {
        let mut copy = self.copy.lock();
        copy.state = state;
        copy.error = error;
        copy.ended_at = Some(now.to_string());
    }
}

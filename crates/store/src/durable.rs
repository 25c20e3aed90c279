//! Commits that are not known to be on disk yet.
//!
//! On SQLite a commit normally waits for a sync of the write-ahead log. The batches of a large rollout do not: each
//! would make all other writers wait for one more sync. Everything that is read in order to be served to a device, or
//! to a caller who may return with one of our numbers, is settled first, so a power cut never revokes what was served.

use crate::error::StoreError;
use crate::{Result, Store};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long to wait for an ongoing commit: it only has to be written into the system's cache.
const COMING: Duration = Duration::from_micros(200);

/// The write-ahead log of SQLite. All writes go through one connection, so commits are ordered.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// Commits that do not wait for the disk: started, ended either way, and those of them that are on disk.
    started: AtomicU64,
    ended: AtomicU64,
    kept: AtomicU64,
    /// One sync at a time: a caller that waited for one often needs no other.
    syncing: Mutex<()>,
}

impl Log {
    /// Nothing counts as synced at start: a killed process may have left commits that did not wait.
    pub(crate) fn temporary(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let found = || AtomicU64::new(1);
        Self { path: path.into(), started: found(), ended: found(), kept: AtomicU64::new(0), syncing: Mutex::default() }
    }

    /// Call before a commit that does not wait for the disk, so that no reader sees it and assumes that it is on disk.
    pub(crate) fn begin(self: &Arc<Self>) -> OngoingCommit {
        self.started.fetch_add(1, Ordering::AcqRel);
        OngoingCommit(Arc::clone(self))
    }

    /// All commits so far, for the holder of the write connection.
    pub(crate) fn commits_so_far(&self) -> u64 {
        self.started.load(Ordering::Acquire)
    }

    /// A later commit waited for the disk, which includes these.
    pub(crate) fn keep(&self, commits: u64) {
        self.kept.fetch_max(commits, Ordering::AcqRel);
    }

    fn is_synced(&self, commits: u64) -> bool {
        self.kept.load(Ordering::Acquire) >= commits
    }

    async fn settle(self: &Arc<Self>) -> Result<()> {
        let wanted = self.commits_so_far();
        while !self.is_synced(wanted) {
            let _one_at_a_time = self.syncing.lock().await;
            let ended = self.ended.load(Ordering::Acquire);
            if self.is_synced(wanted) {
                break;
            }
            if ended < wanted {
                tokio::time::sleep(COMING).await;
                continue;
            }
            let log = Arc::clone(self);
            let sync = tokio::task::spawn_blocking(move || sync(&log.path));
            sync.await.unwrap_or_else(|died| Err(io::Error::other(died))).map_err(StoreError::Sync)?;
            self.keep(ended);
        }
        Ok(())
    }
}

/// Closing this file releases no lock of SQLite: those are on other files. Without a log there is nothing to sync.
fn sync(path: &Path) -> io::Result<()> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened?.sync_data(),
    }
}

/// An ongoing commit; ends when dropped.
#[derive(Debug)]
pub(crate) struct OngoingCommit(Arc<Log>);

impl Drop for OngoingCommit {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

impl Store {
    /// Waits until everything committed so far is on disk; usually it already is.
    pub async fn settle(&self) -> Result<()> {
        match &self.log {
            Some(log) => log.settle().await,
            None => Ok(()),
        }
    }

    /// Whether everything committed so far is on disk.
    pub fn is_settled(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.is_synced(log.commits_so_far()))
    }
}

#[cfg(test)]
mod tests {
    use super::Log;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    fn log() -> (tempfile::TempDir, Arc<Log>) {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::temporary(&folder.path().join("margrave.db"));
        std::fs::write(folder.path().join("margrave.db-wal"), "frames").unwrap();
        (folder, Arc::new(log))
    }

    /// A folder in place of the log, which cannot be synced.
    fn spoil(folder: &tempfile::TempDir) {
        let path = folder.path().join("margrave.db-wal");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(path).unwrap();
    }

    #[tokio::test]
    async fn syncs_commits_of_a_killed_process_first() {
        let (_folder, log) = log();
        assert!(!log.is_synced(log.commits_so_far()));
        log.settle().await.unwrap();
        assert!(log.is_synced(log.commits_so_far()));
    }

    #[tokio::test]
    async fn settling_syncs_earlier_commits() {
        let (_folder, log) = log();
        log.settle().await.unwrap();
        drop(log.begin());
        assert!(!log.is_synced(log.commits_so_far()));
        log.settle().await.unwrap();
        assert!(log.is_synced(log.commits_so_far()));
    }

    #[tokio::test]
    async fn settling_waits_for_an_ongoing_commit() {
        let (_folder, log) = log();
        let commit = log.begin();
        let settling = tokio::spawn({
            let log = Arc::clone(&log);
            async move { log.settle().await }
        });
        while log.syncing.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(log.kept.load(Ordering::Acquire), 0, "an unwritten commit cannot be on disk");
        drop(commit);
        settling.await.unwrap().unwrap();
        assert!(log.is_synced(2));
    }

    #[tokio::test]
    async fn a_later_synced_commit_saves_a_sync() {
        let (folder, log) = log();
        drop(log.begin());
        log.keep(log.commits_so_far());
        spoil(&folder);
        log.settle().await.unwrap();
    }

    #[tokio::test]
    async fn a_failed_sync_is_an_error_and_counts_nothing_as_synced() {
        let (folder, log) = log();
        spoil(&folder);
        assert!(log.settle().await.unwrap_err().to_string().contains("to disk"));
        assert!(!log.is_synced(1));
    }
}

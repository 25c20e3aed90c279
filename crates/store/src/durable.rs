//! What is committed and not yet known to be on disk.
//!
//! On SQLite a commit normally waits for a sync of the write-ahead log. The batches of a large change do not: they would make
//! everybody else who commits wait for one more sync each. Whatever is read to be told to a device, or to somebody who comes back
//! with a number of ours, is settled first, so a power cut never takes back what was told.

use crate::error::StoreError;
use crate::{Result, Store};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long to wait for a commit that is being made: it only has to be written into the cache of the system.
const COMING: Duration = Duration::from_micros(200);

/// The write-ahead log of SQLite. All writing goes through one connection, so commits have an order.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// Commits that do not wait for the disk: begun, ended either way, and those of them that are on disk.
    begun: AtomicU64,
    ended: AtomicU64,
    kept: AtomicU64,
    /// One sync at a time: whoever waited for it often needs none.
    syncing: Mutex<()>,
}

impl Log {
    /// Nothing of it counts as kept to begin with: a process that was killed may have left commits that did not wait.
    pub(crate) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let found = || AtomicU64::new(1);
        Self { path: path.into(), begun: found(), ended: found(), kept: AtomicU64::new(0), syncing: Mutex::default() }
    }

    /// Before a commit that does not wait for the disk, so that no reader sees it and thinks that it is there.
    pub(crate) fn begin(self: &Arc<Self>) -> Unkept {
        self.begun.fetch_add(1, Ordering::AcqRel);
        Unkept(Arc::clone(self))
    }

    /// All commits so far, for somebody who holds the connection that writes.
    pub(crate) fn so_far(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// A later commit waited for the disk, and so for these as well.
    pub(crate) fn keep(&self, commits: u64) {
        self.kept.fetch_max(commits, Ordering::AcqRel);
    }

    fn is_kept(&self, commits: u64) -> bool {
        self.kept.load(Ordering::Acquire) >= commits
    }

    async fn settle(self: &Arc<Self>) -> Result<()> {
        let wanted = self.so_far();
        while !self.is_kept(wanted) {
            let _one_at_a_time = self.syncing.lock().await;
            let ended = self.ended.load(Ordering::Acquire);
            if self.is_kept(wanted) {
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

/// Closing this file gives up no lock of SQLite's: those are on other files. Without a log there is nothing to keep.
fn sync(path: &Path) -> io::Result<()> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened?.sync_data(),
    }
}

/// A commit that is being made; over when dropped.
#[derive(Debug)]
pub(crate) struct Unkept(Arc<Log>);

impl Drop for Unkept {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

impl Store {
    /// Waits until everything committed so far is on disk; most of the time it is.
    pub async fn settle(&self) -> Result<()> {
        match &self.log {
            Some(log) => log.settle().await,
            None => Ok(()),
        }
    }

    /// Whether everything committed so far is on disk.
    pub fn is_settled(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.is_kept(log.so_far()))
    }
}

#[cfg(test)]
mod tests {
    use super::Log;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    fn log() -> (tempfile::TempDir, Arc<Log>) {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::beside(&folder.path().join("margrave.db"));
        std::fs::write(folder.path().join("margrave.db-wal"), "frames").unwrap();
        (folder, Arc::new(log))
    }

    /// A folder in place of the log: nobody can write it to disk.
    fn spoil(folder: &tempfile::TempDir) {
        let path = folder.path().join("margrave.db-wal");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(path).unwrap();
    }

    #[tokio::test]
    async fn what_a_killed_process_left_is_kept_first() {
        let (_folder, log) = log();
        assert!(!log.is_kept(log.so_far()));
        log.settle().await.unwrap();
        assert!(log.is_kept(log.so_far()));
    }

    #[tokio::test]
    async fn settling_keeps_what_was_committed_before() {
        let (_folder, log) = log();
        log.settle().await.unwrap();
        drop(log.begin());
        assert!(!log.is_kept(log.so_far()));
        log.settle().await.unwrap();
        assert!(log.is_kept(log.so_far()));
    }

    #[tokio::test]
    async fn a_commit_that_is_being_made_is_waited_for() {
        let (_folder, log) = log();
        let commit = log.begin();
        let settling = tokio::spawn({
            let log = Arc::clone(&log);
            async move { log.settle().await }
        });
        while log.syncing.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(log.kept.load(Ordering::Acquire), 0, "what is not written cannot be on disk");
        drop(commit);
        settling.await.unwrap().unwrap();
        assert!(log.is_kept(2));
    }

    #[tokio::test]
    async fn a_later_commit_that_waited_for_the_disk_needs_no_other_sync() {
        let (folder, log) = log();
        drop(log.begin());
        log.keep(log.so_far());
        spoil(&folder);
        log.settle().await.unwrap();
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_synced_is_an_error_and_nothing_counts_as_kept() {
        let (folder, log) = log();
        spoil(&folder);
        assert!(log.settle().await.unwrap_err().to_string().contains("on disk"));
        assert!(!log.is_kept(1));
    }
}

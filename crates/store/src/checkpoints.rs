//! Checkpoints of SQLite's write-ahead log, in the background and at low priority.

use crate::error::During;
use crate::open::cannot_open;
use crate::{Result, Store};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{ConnectOptions as _, Executor as _, Row as _};
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages in the write-ahead log at which it is restarted: 120 MiB. A lower limit would delay device reports more often,
/// and overwriting a log is cheaper than growing it.
const RESTART_PAGES: i64 = 30_000;

/// FULL: moved pages are on disk before the log is overwritten.
const PRAGMAS: &str = "PRAGMA synchronous = FULL; PRAGMA busy_timeout = 0; PRAGMA cache_size = -256";

const MOVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// The name of the connection's thread; Linux keeps fifteen characters.
const THREAD: &str = "margrave-moves";

/// The lowest thread priority.
const NICEST: i32 = 19;

/// A separate connection, so that no writer has to run checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    pool: SqlitePool,
    /// The number of commits at the last checkpoint.
    moved: AtomicU64,
}

impl Checkpoints {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let failed = |source| cannot_open(url, source);
        let options = SqliteConnectOptions::from_str(url).map_err(failed)?.thread_name(|_| THREAD.to_owned());
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    connection.execute(PRAGMAS).await?;
                    lower_priority();
                    Ok(())
                })
            })
            .connect_with(options.disable_statement_logging())
            .await
            .map_err(failed)?;
        Ok(Self { pool, moved: AtomicU64::new(0) })
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Returns the number of pages in the log, moved or not.
    async fn move_log(&self) -> Result<i64> {
        let row = sqlx::query(MOVE).fetch_one(&self.pool).await.during("move the write-ahead log into the database")?;
        row.try_get("log").during("read the result of a checkpoint")
    }
}

impl Store {
    /// Moves committed pages from the write-ahead log into the database while other connections read and write.
    ///
    /// If left to SQLite, the next commit does it and all later writers wait.
    pub async fn checkpoint(&self) -> Result<()> {
        self.checkpoint_and_restart(RESTART_PAGES).await
    }

    pub(crate) async fn checkpoint_and_restart(&self, restart_pages: i64) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let commits = self.commits();
        if checkpoints.moved.swap(commits, Ordering::AcqRel) == commits {
            return Ok(());
        }
        if checkpoints.move_log().await? >= restart_pages {
            // The log restarts when all of it is moved; under constant writes only the writer can do that. Pages
            // committed in the meantime are moved first, so that little is left and the writer is blocked only briefly.
            checkpoints.move_log().await?;
            sqlx::query(MOVE).execute(&self.write).await.during("restart the write-ahead log")?;
        }
        Ok(())
    }
}

/// A checkpoint takes tens of milliseconds under load, mostly in the system. At the lowest priority the thread does not
/// delay requests of devices. Where threads have no priority of their own, nothing changes.
fn lower_priority() {
    for thread in threads(THREAD) {
        let _stays_as_it_is = rustix::process::setpriority_process(Some(thread), NICEST);
    }
}

/// Threads of this process with this name.
fn threads(name: &str) -> Vec<rustix::process::Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let called =
        |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|found| found.trim_end() == name);
    tasks
        .filter(|task| called(&task.path()))
        .filter_map(|task| rustix::process::Pid::from_raw(task.file_name().to_str()?.parse().ok()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{NICEST, THREAD, threads};
    use crate::open::commit;
    use crate::{Store, StoreOptions, blobs};
    use margo::digest::Digest;
    use margrave_core::time::Timestamp;

    async fn store(folder: &tempfile::TempDir) -> Store {
        let url = format!("sqlite://{}", folder.path().join("test.db").display());
        Store::open(&StoreOptions { url, readers: 1 }).await.unwrap()
    }

    #[tokio::test]
    async fn checkpoints_run_at_the_lowest_priority() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        let threads = threads(THREAD);
        assert!(!threads.is_empty());
        for thread in threads {
            assert_eq!(rustix::process::getpriority_process(Some(thread)).unwrap(), NICEST);
        }
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), 0, "other threads keep their priority");
        store.close().await;
    }

    #[tokio::test]
    async fn restarts_the_log_when_it_is_long() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        let mut lengths = Vec::new();
        for round in 0..5 {
            let body = vec![round; 1 << 20];
            let mut writing = store.begin().await.unwrap();
            let blobs = [(Digest::of(&body), body.as_slice())].into();
            blobs::put(&mut writing, &blobs, Timestamp(1)).await.unwrap();
            commit(writing).await.unwrap();
            store.checkpoint_and_restart(100).await.unwrap();
            lengths.push(std::fs::metadata(folder.path().join("test.db-wal")).unwrap().len());
        }
        // What opening wrote may lie before the first megabyte.
        assert!(lengths.last() <= lengths.first(), "{lengths:?}");
        assert!(store.blob_get(&Digest::of(&vec![3; 1 << 20])).await.unwrap().is_some());
    }
}

//! Moving the write-ahead log of SQLite into the database, beside those who write and behind them.

use crate::error::During;
use crate::open::cannot_open;
use crate::{Result, Store};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{ConnectOptions as _, Executor as _, Row as _};
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages in the write-ahead log with which it is made to begin anew: 120 MiB. Sooner would make those who report wait more
/// often, and writing over what is there is cheaper than growing.
const RESTART_PAGES: i64 = 30_000;

/// FULL: what is moved is on disk before the log is written over.
const PRAGMAS: &str = "PRAGMA synchronous = FULL; PRAGMA busy_timeout = 0; PRAGMA cache_size = -256";

const MOVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// What the thread of the connection is called; Linux keeps fifteen letters.
const THREAD: &str = "margrave-moves";

/// The lowest priority there is for a thread.
const NICEST: i32 = 19;

/// A connection of its own, so that nobody who writes has to do it.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    pool: SqlitePool,
    /// How many commits there were when the log was moved last.
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
                    stand_back();
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

    /// Gives how many pages the log has, moved or not.
    async fn move_log(&self) -> Result<i64> {
        let row = sqlx::query(MOVE).fetch_one(&self.pool).await.during("move the write-ahead log into the database")?;
        row.try_get("log").during("read what a checkpoint did")
    }
}

impl Store {
    /// Moves what was committed from the write-ahead log into the database while others go on reading and writing.
    ///
    /// Left to SQLite, whoever commits next does it and everybody behind waits.
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
            // The log begins anew when all of it is moved, and while somebody always writes only who writes can do that. What
            // came meanwhile is moved before, so that little is left and nobody waits long.
            checkpoints.move_log().await?;
            sqlx::query(MOVE).execute(&self.write).await.during("let the write-ahead log begin anew")?;
        }
        Ok(())
    }
}

/// Moving takes tens of milliseconds while much is written, mostly in the system. As nice as can be, the thread does not keep a
/// processor from those whom devices wait for. Where threads have no priority of their own it stays as it is.
fn stand_back() {
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
    async fn checkpoints_stand_back_for_everybody_else() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        let threads = threads(THREAD);
        assert!(!threads.is_empty());
        for thread in threads {
            assert_eq!(rustix::process::getpriority_process(Some(thread)).unwrap(), NICEST);
        }
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), 0, "nobody else is slowed down");
        store.close().await;
    }

    #[tokio::test]
    async fn the_log_begins_anew_when_it_is_long() {
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

//! Opens the database: one of the two places that depend on the engine.

use crate::Result;
use crate::checkpoints::Checkpoints;
use crate::durable::Log;
use crate::error::{During, StoreError, is_full, is_missing_table};
use crate::idempotency::{self, KeyWrite};
use crate::rows::Columns;
use crate::seal::Sealing;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    Any, AnyConnection, AnyPool, ConnectOptions as _, Connection as _, Executor as _, SqlSafeStr as _, Transaction,
};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// How long a call waits for a connection before it fails: longer than any batch takes, shorter than people wait.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);

/// PostgreSQL needs one connection for a batch and one for callers that must not wait for it.
const POSTGRES_CONNECTIONS_MIN: u32 = 4;

/// The format of the database that this server reads and writes, as in the table `format`.
pub(crate) const FORMAT: i64 = 1;

#[derive(Clone)]
pub struct StoreOptions {
    /// `sqlite:///path/to/file.db`, `sqlite::memory:` or `postgres://...`.
    pub url: String,
    /// Connections for reading; SQLite always writes through exactly one.
    pub readers: u32,
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let url = without_password(&self.url);
        f.debug_struct("StoreOptions").field("url", &url).field("readers", &self.readers).finish()
    }
}

/// A handle to the database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) read: AnyPool,
    pub(crate) write: AnyPool,
    begin: &'static str,
    shared: bool,
    /// For commits that do not wait for the disk.
    pub(crate) log: Option<Arc<Log>>,
    /// A separate connection for checkpoints of the write-ahead log; `None` on PostgreSQL and in memory.
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    /// Transactions committed by this process.
    commits: Arc<AtomicU64>,
    /// The idempotency record that the next write transaction stores.
    pub(crate) key: Option<Arc<KeyWrite>>,
    /// The newest committed event, as far as this server knows.
    pub(crate) events: Arc<watch::Sender<i64>>,
    /// Seals values that are marked sensitive.
    pub(crate) sealing: Sealing,
}

/// A writing transaction; publishes the ids of its events after the commit.
pub(crate) struct WriteTransaction {
    transaction: Transaction<'static, Any>,
    events: Arc<watch::Sender<i64>>,
    newest: Option<i64>,
    commits: Arc<AtomicU64>,
    keep: Durability,
    shared: bool,
    sealing: Sealing,
}

/// When a commit reaches the disk.
enum Durability {
    /// The commit waits for the disk. It also flushes this many earlier commits that did not wait.
    Now(Option<(Arc<Log>, u64)>),
    /// With a later commit that waits, or on request.
    Soon(Arc<Log>),
}

impl WriteTransaction {
    /// Whether others may write at the same time, so that rows which are read to be written must be locked.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Seals values that are marked sensitive.
    pub(crate) fn sealing(&self) -> Sealing {
        self.sealing.clone()
    }

    /// Events up to this id are written and wait for the commit.
    pub(crate) fn announce(&mut self, newest: i64) {
        self.newest = Some(newest);
    }
}

impl Deref for WriteTransaction {
    type Target = AnyConnection;
    fn deref(&self) -> &AnyConnection {
        &self.transaction
    }
}

impl DerefMut for WriteTransaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }
}

impl Store {
    /// Opens (and on SQLite creates) the database and runs the migrations.
    pub async fn open(options: &StoreOptions) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let store = if is_memory(&options.url) {
            Self::open_memory(&options.url).await
        } else if options.url.starts_with("sqlite:") {
            Self::open_sqlite(options).await
        } else {
            Self::open_postgres(options).await
        }?;
        migrator().run(&store.write).await.map_err(|error| match error {
            sqlx::migrate::MigrateError::Execute(source) if is_full(&source) => StoreError::Full(source),
            other => StoreError::Migrate(other),
        })?;
        store.settle().await?;
        store.announce_events(store.event_bounds().await?.newest);
        Ok(store)
    }

    /// Every connection to `:memory:` is a separate database, so all calls share one that is never closed.
    async fn open_memory(url: &str) -> Result<Self> {
        let pool = connect(url, sqlite_pool(1, WRITER_PRAGMAS)).await?;
        Ok(Self::new(pool.clone(), pool, BEGIN_KEPT, false))
    }

    async fn open_sqlite(options: &StoreOptions) -> Result<Self> {
        let separator = if options.url.contains('?') { '&' } else { '?' };
        let url = if options.url.contains("mode=") {
            options.url.clone()
        } else {
            format!("{}{separator}mode=rwc", options.url)
        };
        check_sqlite_format(&url).await?;
        // The writer first: it creates the file and switches it to the write-ahead log.
        let write = connect(&url, sqlite_pool(1, WRITER_PRAGMAS)).await?;
        let read = connect(&url, sqlite_pool(options.readers.max(1), READER_PRAGMAS)).await?;
        let checkpoints = Arc::new(Checkpoints::connect(&url).await?);
        let log = Some(Arc::new(Log::temporary(&database_file(&url)?)));
        Ok(Self { checkpoints: Some(checkpoints), log, ..Self::new(read, write, BEGIN_KEPT, false) })
    }

    async fn open_postgres(options: &StoreOptions) -> Result<Self> {
        let pool = AnyPoolOptions::new()
            .max_connections(options.readers.max(POSTGRES_CONNECTIONS_MIN))
            .acquire_timeout(ACQUIRE_TIMEOUT);
        let pool = connect(&options.url, pool).await?;
        let mut connection = pool.acquire().await.map_err(|source| cannot_open(&options.url, source))?;
        check_format(&mut connection, &options.url).await?;
        drop(connection);
        Ok(Self::new(pool.clone(), pool, "BEGIN", true))
    }

    fn new(read: AnyPool, write: AnyPool, begin: &'static str, shared: bool) -> Self {
        let (events, commits) = (Arc::new(watch::Sender::new(0)), Arc::default());
        let (log, checkpoints, key, sealing) = (None, None, None, Sealing::default());
        Self { read, write, begin, shared, log, checkpoints, commits, key, events, sealing }
    }

    /// Wakes readers that wait for events newer than the last announced one.
    pub(crate) fn announce_events(&self, newest: i64) {
        announce(&self.events, newest);
    }

    /// Whether other servers may write to this database at the same time.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// A statement that writes nothing, for readiness checks.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT seq FROM audit_head WHERE id = 1")
            .execute(&self.read)
            .await
            .during("query the database")?;
        Ok(())
    }

    /// Releases memory that large reads have left in the caches of SQLite; the next read is slightly slower.
    pub async fn trim(&self) -> Result<()> {
        if self.shared {
            return Ok(());
        }
        // All idle connections, held together so that each is trimmed once.
        let free = |pool: &AnyPool| std::iter::from_fn(|| pool.try_acquire()).collect::<Vec<_>>();
        let mut held = free(&self.read);
        held.extend(free(&self.write));
        for connection in &mut held {
            connection.execute("PRAGMA shrink_memory").await.during("release memory")?;
        }
        Ok(())
    }

    /// The number of transactions committed by this server; shows whether others write as well.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    pub async fn close(&self) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.close().await;
        }
        self.read.close().await;
        self.write.close().await;
    }

    /// Begins a writing transaction, with the idempotency key of the call if it has one.
    pub(crate) async fn begin(&self) -> Result<WriteTransaction> {
        let transaction = self.begin_plain(self.begin).await?;
        // After the begin: now no other transaction commits.
        let keep = Durability::Now(self.log.as_ref().map(|log| (Arc::clone(log), log.commits_so_far())));
        self.writing(transaction, keep).await
    }

    /// The same with a commit that does not wait for the disk, where that makes a difference.
    pub(crate) async fn begin_soon(&self) -> Result<WriteTransaction> {
        let Some(log) = &self.log else { return self.begin().await };
        let transaction = self.begin_plain(BEGIN_SOON).await?;
        self.writing(transaction, Durability::Soon(Arc::clone(log))).await
    }

    async fn writing(&self, mut transaction: Transaction<'static, Any>, keep: Durability) -> Result<WriteTransaction> {
        if let Some(key) = &self.key {
            idempotency::claim(&mut transaction, key).await?;
        }
        let (events, commits) = (Arc::clone(&self.events), Arc::clone(&self.commits));
        let (shared, sealing) = (self.shared, self.sealing.clone());
        Ok(WriteTransaction { transaction, events, newest: None, commits, keep, shared, sealing })
    }

    async fn begin_plain(&self, begin: &'static str) -> Result<Transaction<'static, Any>> {
        match self.write.begin_with(begin).await {
            // On a full disk SQLite rolls back without the driver, which still counts the transaction as open: every
            // later one on that connection would be rejected. A new connection starts clean.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                let confused = self.write.acquire().await.during("close a connection")?;
                confused.close().await.during("close a connection")?;
                self.write.begin_with(begin).await.during("begin a transaction")
            }
            outcome => outcome.during("begin a transaction"),
        }
    }
}

pub(crate) async fn commit(writing: WriteTransaction) -> Result<()> {
    let WriteTransaction { transaction, events, newest, commits, keep, shared: _, sealing: _ } = writing;
    let unkept = match &keep {
        Durability::Soon(log) => Some(log.begin()),
        Durability::Now(_) => None,
    };
    transaction.commit().await.during("commit a transaction")?;
    drop(unkept);
    if let Durability::Now(Some((log, before))) = keep {
        log.keep(before);
    }
    commits.fetch_add(1, Ordering::AcqRel);
    if let Some(newest) = newest {
        announce(&events, newest);
    }
    Ok(())
}

fn announce(events: &watch::Sender<i64>, newest: i64) {
    events.send_if_modified(|known| {
        let news = newest > *known;
        *known = newest.max(*known);
        news
    });
}

/// IMMEDIATE takes the write lock at once: a transaction that began by reading could otherwise fail on its first write
/// if another process wrote in between. Each transaction sets whether its commit waits for the disk, so none depends on
/// how the previous one ended. FULL: acknowledged commits survive a power cut.
const BEGIN_KEPT: &str = "PRAGMA synchronous = FULL; BEGIN IMMEDIATE";
/// NORMAL: the database stays consistent after a power cut, without the last commits.
const BEGIN_SOON: &str = "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE";

/// The timeout is for other processes, such as a backup.
/// The next commit moves a log of 60,000 pages (240 MiB), if all else failed.
/// Small caches: repeated reads hit the system's cache, and a hundred megabytes for a fleet would be mostly pages.
const WRITER_PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
                              PRAGMA busy_timeout = 10000; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096; \
                              PRAGMA wal_autocheckpoint = 60000; PRAGMA journal_size_limit = 134217728";
const READER_PRAGMAS: &str = "PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 10000; PRAGMA query_only = ON; \
                              PRAGMA temp_store = MEMORY; PRAGMA cache_size = -512";

fn sqlite_pool(connections: u32, pragmas: &'static str) -> AnyPoolOptions {
    AnyPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .after_connect(move |connection: &mut AnyConnection, _| {
            Box::pin(async move {
                connection.execute(pragmas).await?;
                Ok(())
            })
        })
}

async fn connect(url: &str, pool: AnyPoolOptions) -> Result<AnyPool> {
    let failed = |source| cannot_open(url, source);
    // Callers trace statements; sqlx would log every single one.
    let options = AnyConnectOptions::from_str(url).map_err(failed)?.disable_statement_logging();
    pool.connect_with(options).await.map_err(failed)
}

/// With a connection of its own: the first one of the store already changes the file to use a write-ahead log.
async fn check_sqlite_format(url: &str) -> Result<()> {
    let failed = |source| cannot_open(url, source);
    if !SqliteConnectOptions::from_str(url).map_err(failed)?.get_filename().exists() {
        return Ok(());
    }
    let options = AnyConnectOptions::from_str(url).map_err(failed)?.disable_statement_logging();
    let mut connection = AnyConnection::connect_with(&options).await.map_err(failed)?;
    let checked = check_format(&mut connection, url).await;
    // Also removes the files of the log, so that a refused database is left as it was.
    connection.close().await.map_err(failed)?;
    checked
}

/// Refuses a database whose format this server does not know, before anything is written to it.
async fn check_format(connection: &mut AnyConnection, url: &str) -> Result<()> {
    let failed = |source| cannot_open(url, source);
    let refused = |found| StoreError::UnknownFormat { url: without_password(url), found };
    if let Some(row) = first_row(connection, "SELECT version FROM format WHERE id = 1").await.map_err(failed)? {
        let found = Columns::of("format", &row).number("version")?;
        return if found == FORMAT { Ok(()) } else { Err(refused(Some(found))) };
    }
    // A first start that was interrupted leaves this table without rows.
    match first_row(connection, "SELECT version FROM _sqlx_migrations").await.map_err(failed)? {
        Some(_) => Err(refused(None)),
        None => Ok(()),
    }
}

/// `None` also if the table does not exist. Any other error is passed on: it says nothing about the format.
async fn first_row(connection: &mut AnyConnection, select: &'static str) -> sqlx::Result<Option<AnyRow>> {
    match sqlx::query(select).fetch_optional(connection).await {
        Err(error) if is_missing_table(&error) => Ok(None),
        outcome => outcome,
    }
}

pub(crate) fn cannot_open(url: &str, source: sqlx::Error) -> StoreError {
    if is_full(&source) { StoreError::Full(source) } else { StoreError::Open { url: without_password(url), source } }
}

/// With symbolic links resolved, as SQLite does before it names its log.
fn database_file(url: &str) -> Result<PathBuf> {
    let failed = |source| StoreError::Open { url: without_password(url), source };
    let options = SqliteConnectOptions::from_str(url).map_err(failed)?;
    std::fs::canonicalize(options.get_filename()).map_err(|error| failed(error.into()))
}

fn is_memory(url: &str) -> bool {
    url.starts_with("sqlite:") && (url.contains(":memory:") || url.contains("mode=memory"))
}

/// URLs end up in messages; passwords must not, neither before the host nor among the options.
pub fn without_password(url: &str) -> String {
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let Some((scheme, rest)) = place.split_once("://") else { return place.to_owned() };
    match rest.rsplit_once('@') {
        Some((user, place)) => format!("{scheme}://{}@{place}", user.split(':').next().unwrap_or_default()),
        // The question mark may be part of a password: show nothing more.
        None if options.contains('@') => format!("{scheme}://"),
        None => place.to_owned(),
    }
}

fn migrator() -> Migrator {
    let step = |version, description: &'static str, sql: &'static str| {
        Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(vec![step(1, "initial", include_str!("../migrations/0001_initial.sql"))])
}

#[cfg(test)]
mod tests {
    use super::{StoreOptions, is_memory, without_password};
    use crate::Store;

    #[test]
    fn keeps_passwords_out_of_messages() {
        assert_eq!(without_password("postgres://me:secret@host/db"), "postgres://me@host/db");
        assert_eq!(without_password("postgres://host/db"), "postgres://host/db");
        assert_eq!(without_password("sqlite::memory:"), "sqlite::memory:");
        assert_eq!(without_password("postgres://me:se@cret@host/db"), "postgres://me@host/db");
        assert_eq!(without_password("postgres://host/db?user=me&password=secret"), "postgres://host/db");
        assert_eq!(without_password("postgres://me:se?cret@host/db"), "postgres://");
        assert_eq!(without_password("postgres://host/db?password=se@cret"), "postgres://");
        let options = StoreOptions { url: "postgres://me:secret@host/db".to_owned(), readers: 1 };
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn distinguishes_a_database_in_memory_from_a_file() {
        assert!(is_memory("sqlite::memory:"));
        assert!(!is_memory("sqlite:///var/lib/margrave/margrave.db"));
    }

    // ADR 45: with it all connections would share one cache, and a query over a large fleet takes seven times as long.
    #[tokio::test]
    async fn each_connection_has_its_own_page_cache() {
        let store = Store::open(&StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 }).await.unwrap();
        let rows = sqlx::query("PRAGMA compile_options").fetch_all(&store.read).await.unwrap();
        let built: Vec<String> = rows.iter().map(|row| sqlx::Row::get(row, 0)).collect();
        assert!(!built.is_empty() && !built.iter().any(|option| option == "ENABLE_MEMORY_MANAGEMENT"), "{built:?}");
    }
}

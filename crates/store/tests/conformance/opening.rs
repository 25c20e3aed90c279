//! Opening, migrating, reopening.

use crate::fixtures::{T0, accept, actor, deploy};
use crate::harness::Database;
use margrave_store::{Store, StoreError, StoreOptions};
use sqlx::{Connection as _, Executor as _, Row as _};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) async fn keeps_everything_after_reopening(mut db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let manifest = db.store.manifest(&client).await.unwrap();
    // Migrations that ran once do not run again.
    for _ in 0..2 {
        db.reopen().await;
        assert_eq!(db.store.manifest(&client).await.unwrap(), manifest);
        assert!(db.store.deployment_get(id).await.unwrap().is_some());
    }
    assert!(db.store.audit_verify().await.unwrap().is_ok());
}

pub(crate) async fn responds_to_a_ping(db: Database) {
    db.store.ping().await.unwrap();
    db.store.audit_append(&actor(), "server.start", "server", None, T0).await.unwrap();
    db.store.close().await;
    assert!(db.store.ping().await.is_err(), "a closed store is not ready");
}

pub(crate) async fn rejects_a_database_it_cannot_open(db: Database) {
    let url = if db.url.starts_with("sqlite:") {
        "sqlite:///nowhere/at/all/margrave.db".to_owned()
    } else {
        db.url.replace("/margrave_", "/someone:secret_")
    };
    let error = Store::open(&StoreOptions { url, readers: 1 }).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().starts_with("open the database `"), "{error}");
}

pub(crate) async fn checkpoints_the_log_while_others_use_the_database(db: Database) {
    db.store.checkpoint().await.unwrap();
    let client = accept(&db.store, 1).await;
    deploy(&db.store, &client, 1, "hello").await;
    db.store.checkpoint().await.unwrap();
    let manifest = db.store.manifest(&client).await.unwrap();
    let Some(file) = db.url.strip_prefix("sqlite://") else { return };
    // The file alone, without its log, has everything.
    let copy = format!("{file}.copy");
    std::fs::copy(file, &copy).unwrap();
    let store = Store::open(&StoreOptions { url: format!("sqlite://{copy}"), readers: 1 }).await.unwrap();
    assert_eq!(store.manifest(&client).await.unwrap(), manifest);
}

pub(crate) async fn opens_twice_with_the_same_format(mut db: Database) {
    for _ in 0..2 {
        db.reopen().await;
        assert_eq!(rows(&db).await, [("format".to_owned(), 1), ("_sqlx_migrations".to_owned(), 1)]);
    }
}

pub(crate) async fn refuses_a_database_without_a_format(db: Database) {
    db.store.close().await;
    change(&db, "DROP TABLE format").await;
    let message = refusal(&db, None).await;
    assert!(message.contains("has no format version and this server uses format 1"), "{message}");
}

pub(crate) async fn refuses_a_database_with_another_format(db: Database) {
    db.store.close().await;
    change(&db, "UPDATE format SET version = 2").await;
    let message = refusal(&db, Some(2)).await;
    assert!(message.contains("has format 2 and this server uses format 1"), "{message}");
}

/// A power cut after the first statement of the first start.
pub(crate) async fn completes_an_interrupted_first_start(mut db: Database) {
    db.store.close().await;
    match db.url.strip_prefix("sqlite://") {
        Some(file) => std::fs::write(file, "").unwrap(),
        None => change(&db, "DROP SCHEMA public CASCADE; CREATE SCHEMA public").await,
    }
    // As the migrations create it, without a row.
    change(
        &db,
        "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
         installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, \
         checksum BYTEA NOT NULL, execution_time BIGINT NOT NULL)",
    )
    .await;
    db.reopen().await;
    assert_eq!(rows(&db).await, [("format".to_owned(), 1), ("_sqlx_migrations".to_owned(), 1)]);
}

/// Changes the database and waits until the connection is closed, so that its files do not change any more.
async fn change(db: &Database, statement: &'static str) {
    let mut connection = db.connection().await;
    connection.execute(statement).await.unwrap();
    connection.close().await.unwrap();
}

/// The message, after checking that the database is as before.
async fn refusal(db: &Database, expected: Option<i64>) -> String {
    let before = (rows(db).await, files(&db.url));
    let error = Store::open(&StoreOptions { url: db.url.clone(), readers: 1 }).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownFormat { found, .. } if found == expected), "{error:?}");
    assert_eq!((rows(db).await, files(&db.url)), before, "nothing is changed");
    let message = error.to_string();
    assert!(message.contains("Nothing was changed"), "{message}");
    let next = if db.url.starts_with("sqlite:") { "Move the data folder away" } else { "Use an empty database" };
    assert!(message.contains(next), "{message}");
    message
}

/// How many rows these tables have; without those that do not exist.
async fn rows(db: &Database) -> Vec<(String, i64)> {
    let mut connection = db.connection().await;
    let mut counted = Vec::new();
    for (table, count) in [
        ("format", "SELECT COUNT(*) FROM format"),
        ("_sqlx_migrations", "SELECT COUNT(*) FROM _sqlx_migrations"),
    ] {
        if let Ok(row) = sqlx::query(count).fetch_one(&mut connection).await {
            counted.push((table.to_owned(), row.get(0)));
        }
    }
    connection.close().await.unwrap();
    counted
}

/// The files in the folder of an SQLite database with their bytes.
fn files(url: &str) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let Some(folder) = url.strip_prefix("sqlite://").and_then(|file| Path::new(file).parent()) else {
        return BTreeMap::new();
    };
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

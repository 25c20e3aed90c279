//! Opening, migrating, opening again.

use crate::fixtures::{T0, accept, actor, deploy};
use crate::harness::Database;
use margrave_store::{Store, StoreError, StoreOptions};

pub(crate) async fn finds_everything_again_after_reopening(mut db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let manifest = db.store.manifest(&client).await.unwrap();
    // Migrations that ran once are not run again.
    for _ in 0..2 {
        db.reopen().await;
        assert_eq!(db.store.manifest(&client).await.unwrap(), manifest);
        assert!(db.store.deployment_get(id).await.unwrap().is_some());
    }
    assert!(db.store.audit_verify().await.unwrap().is_ok());
}

pub(crate) async fn answers_a_ping(db: Database) {
    db.store.ping().await.unwrap();
    db.store.audit_append(&actor(), "server.start", "server", None, T0).await.unwrap();
    db.store.close().await;
    assert!(db.store.ping().await.is_err(), "a closed store is not ready");
}

pub(crate) async fn refuses_what_it_cannot_open(db: Database) {
    let url = if db.url.starts_with("sqlite:") {
        "sqlite:///nowhere/at/all/margrave.db".to_owned()
    } else {
        db.url.replace("/margrave_", "/someone:secret_")
    };
    let error = Store::open(&StoreOptions { url, readers: 1 }).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().starts_with("open the database `"), "{error}");
}

pub(crate) async fn moves_the_log_into_the_database_beside_others(db: Database) {
    db.store.checkpoint().await.unwrap();
    let client = accept(&db.store, 1).await;
    deploy(&db.store, &client, 1, "hello").await;
    db.store.checkpoint().await.unwrap();
    let manifest = db.store.manifest(&client).await.unwrap();
    let Some(file) = db.url.strip_prefix("sqlite://") else { return };
    // The file alone, without the log beside it, has everything.
    let copy = format!("{file}.copy");
    std::fs::copy(file, &copy).unwrap();
    let store = Store::open(&StoreOptions { url: format!("sqlite://{copy}"), readers: 1 }).await.unwrap();
    assert_eq!(store.manifest(&client).await.unwrap(), manifest);
}

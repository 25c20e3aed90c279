//! Idempotency keys: stored exactly when the effect is.

use crate::fixtures::{T0, actor, at, client};
use crate::harness::Database;
use margrave_core::model::ClientState;
use margrave_core::time::Timestamp;
use margrave_store::{KEYS_PER_TOKEN_MAX, KeyEntry, KeyOwner, KeyWrite, Store, StoreError};
use sqlx::Row as _;
use uuid::Uuid;

fn key(text: &str, now: Timestamp) -> KeyWrite {
    KeyWrite {
        owner: KeyOwner { token: Uuid::from_u128(1), key_hash: text.to_owned() },
        request_hash: "request".to_owned(),
        answer: b"sealed".to_vec(),
        at: now,
        expired_before: Timestamp(now.0 - 60_000_000),
    }
}

async fn found(store: &Store, key: &KeyWrite) -> Option<KeyEntry> {
    store.key_find(&key.owner, key.expired_before).await.unwrap()
}

async fn create(store: &Store, number: usize, key: &KeyWrite) -> margrave_store::Result<()> {
    let store = store.with_key(key.clone());
    store.client_create(&actor(), &client(number), ClientState::Accepted, None, key.at).await.map(|_| ())
}

pub(crate) async fn stores_a_key_with_its_effect(db: Database) {
    let store = &db.store;
    let key = key("k", T0);
    assert_eq!(found(store, &key).await, None);
    create(store, 1, &key).await.unwrap();
    let kept = KeyEntry { request_hash: "request".to_owned(), answer: b"sealed".to_vec() };
    assert_eq!(found(store, &key).await, Some(kept));
    let failing = self::key("other", T0);
    let error = create(store, 1, &failing).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    assert_eq!(found(store, &failing).await, None, "a failed call may be repeated with its key");
}

pub(crate) async fn writes_nothing_for_a_used_key(db: Database) {
    let store = &db.store;
    let key = key("k", T0);
    create(store, 1, &key).await.unwrap();
    let records = store.audit_page(None, None, 10).await.unwrap().len();
    let error = create(store, 2, &key).await.unwrap_err();
    assert!(matches!(error, StoreError::Repeated), "{error:?}");
    assert!(matches!(store.key_put(key).await.unwrap_err(), StoreError::Repeated));
    assert!(store.client_get(&client(2)).await.unwrap().is_none());
    assert_eq!(store.audit_page(None, None, 10).await.unwrap().len(), records);
}

pub(crate) async fn only_one_of_two_equal_calls_gets_the_key(db: Database) {
    let key = key("k", T0);
    let calls = (1..=8).map(|number| {
        let (store, key) = (db.store.clone(), key.clone());
        tokio::spawn(async move { create(&store, number, &key).await })
    });
    let mut done = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            Ok(()) => done += 1,
            Err(StoreError::Repeated) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(done, 1);
    assert_eq!(db.store.clients_page(None, 100).await.unwrap().len(), 1);
}

pub(crate) async fn separates_keys_of_two_tokens(db: Database) {
    let one = key("k", T0);
    let mut other = one.clone();
    other.owner.token = Uuid::from_u128(2);
    db.store.key_put(one.clone()).await.unwrap();
    assert_eq!(found(&db.store, &other).await, None);
    db.store.key_put(other.clone()).await.unwrap();
    assert!(found(&db.store, &one).await.is_some() && found(&db.store, &other).await.is_some());
}

pub(crate) async fn deletes_expired_keys(db: Database) {
    db.store.key_put(key("k", T0)).await.unwrap();
    assert!(found(&db.store, &key("k", at(59))).await.is_some());
    let late = KeyWrite { request_hash: "another".to_owned(), ..key("k", at(60)) };
    assert_eq!(found(&db.store, &late).await, None);
    db.store.key_put(late.clone()).await.unwrap();
    assert_eq!(found(&db.store, &late).await.unwrap().request_hash, "another");
}

pub(crate) async fn bounds_the_keys_of_a_token(db: Database) {
    let stranger =
        KeyWrite { owner: KeyOwner { token: Uuid::from_u128(2), key_hash: "mine".to_owned() }, ..key("mine", T0) };
    db.store.key_put(stranger.clone()).await.unwrap();
    for text in ["first", "second"] {
        db.store.key_put(key(text, T0)).await.unwrap();
    }
    let owner = Uuid::from_u128(1).to_string();
    sqlx::query("UPDATE idempotency_keys SET seq = $2 WHERE token_id = $1 AND key_hash = 'second'")
        .bind(&owner)
        .bind(KEYS_PER_TOKEN_MAX)
        .execute(&mut db.connection().await)
        .await
        .unwrap();
    db.store.key_put(key("third", T0)).await.unwrap();
    let rows = sqlx::query("SELECT key_hash FROM idempotency_keys WHERE token_id = $1 ORDER BY seq")
        .bind(&owner)
        .fetch_all(&mut db.connection().await)
        .await
        .unwrap();
    let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, ["second", "third"]);
    assert!(found(&db.store, &stranger).await.is_some());
}

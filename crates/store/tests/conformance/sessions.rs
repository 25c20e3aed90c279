//! Web sessions: found while they are active, seen, listed, ended.

use crate::fixtures::{T0, actor, at};
use crate::harness::Database;
use margrave_core::model::ApiToken;
use margrave_store::{Retention, SessionOwner, SignedIn, Store};
use std::time::Duration;
use uuid::Uuid;

async fn token(store: &Store, number: u128) -> Uuid {
    let id = Uuid::from_u128(number);
    let token = ApiToken { id, name: format!("ci-{number}"), created_at: T0, expires_at: None, revoked_at: None };
    store.token_create(&actor(), &token, &format!("token-{number}")).await.unwrap();
    id
}

async fn sign_in(store: &Store, number: u128, token: Uuid, until: u64) -> Uuid {
    sign_in_as(store, number, SessionOwner::Token(token), until).await
}

pub(crate) async fn sign_in_as(store: &Store, number: u128, owner: SessionOwner, until: u64) -> Uuid {
    let id = Uuid::from_u128(number);
    let hash = format!("session-{number}");
    let (address, browser) = ("127.0.0.1", "a browser");
    let session = SignedIn { id, secret_hash: &hash, owner, address, browser, expires_at: at(until) };
    store.session_create(&actor(), session, at(number as u64)).await.unwrap();
    id
}

pub(crate) async fn finds_only_active_sessions(db: Database) {
    let store = &db.store;
    let token = token(store, 1).await;
    let id = sign_in(store, 11, token, 100).await;
    let found = store.session_find("session-11", at(50)).await.unwrap().unwrap();
    assert_eq!((found.id, found.owner), (id, SessionOwner::Token(token)));
    assert_eq!((found.name.as_str(), found.address.as_str()), ("ci-1", "127.0.0.1"));
    assert_eq!(store.session_find("session-11", at(100)).await.unwrap(), None, "expired");
    assert_eq!(store.session_find("session-12", at(50)).await.unwrap(), None, "unknown");
    store.session_seen(id, at(60)).await.unwrap();
    store.session_seen(id, at(55)).await.unwrap();
    assert_eq!(store.session_find("session-11", at(61)).await.unwrap().unwrap().seen_at, at(60));
    store.token_revoke(&actor(), token, at(62)).await.unwrap();
    assert_eq!(store.session_find("session-11", at(63)).await.unwrap(), None, "it ends with its token");
    assert!(store.sessions(at(63), 10).await.unwrap().is_empty());
}

pub(crate) async fn lists_and_ends_sessions(db: Database) {
    let store = &db.store;
    let token = token(store, 1).await;
    let (one, two) = (sign_in(store, 11, token, 100).await, sign_in(store, 12, token, 100).await);
    sign_in(store, 13, token, 20).await;
    let ids: Vec<Uuid> = store.sessions(at(30), 10).await.unwrap().into_iter().map(|session| session.id).collect();
    assert_eq!(ids, [two, one], "most recently used first, without expired ones");
    assert!(store.session_end(&actor(), one, at(31)).await.unwrap());
    assert!(!store.session_end(&actor(), one, at(32)).await.unwrap());
    assert_eq!(store.session_find("session-11", at(33)).await.unwrap(), None);
    let text = format!("{:?}", store.audit_page(None, None, 20).await.unwrap());
    assert!(text.contains("session.create") && text.contains("session.end") && !text.contains("session-11"), "{text}");
}

pub(crate) async fn deletes_old_sessions_and_drafts(db: Database) {
    let store = &db.store;
    let token = token(store, 1).await;
    sign_in(store, 11, token, 100).await;
    store.draft_create(Uuid::from_u128(5), token, "{}", false, T0).await.unwrap();
    let retention = Retention {
        revisions_per_deployment: 1,
        statuses_per_deployment: 1,
        replaced_artifacts: Duration::from_hours(1),
        finished_rollouts: Duration::from_hours(1),
        removed_deployments: Duration::from_hours(1),
        idempotency_keys: Duration::from_hours(1),
        events: 100,
    };
    store.prune(&retention, at(200)).await.unwrap();
    assert!(store.draft_get(Uuid::from_u128(5), token).await.unwrap().is_some(), "still young");
    let later = at(30 * 24 * 3600);
    assert!(store.prune(&retention, later).await.unwrap() >= 2);
    assert!(store.draft_get(Uuid::from_u128(5), token).await.unwrap().is_none());
}

pub(crate) async fn separates_drafts_of_two_tokens(db: Database) {
    let store = &db.store;
    let (one, two, id) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(7));
    store.draft_create(id, one, "first", false, T0).await.unwrap();
    assert_eq!(store.draft_get(id, two).await.unwrap(), None, "of another token");
    assert_eq!(store.draft_put(id, one, "second", false, Some(1), at(1)).await.unwrap(), 2);
    let error = store.draft_put(id, one, "third", false, Some(1), at(2)).await.unwrap_err();
    assert!(matches!(error, margrave_store::StoreError::Conflict { expected: 1, current: 2, .. }), "{error:?}");
    let kept = store.draft_get(id, one).await.unwrap().unwrap();
    assert_eq!((kept.body.as_str(), kept.revision, kept.updated_at), ("second", 2, at(1)));
    assert!(store.draft_put(id, two, "x", false, None, at(3)).await.is_err());
    assert_eq!(store.drafts(one, 10).await.unwrap().len(), 1);
    store.draft_delete(id, two).await.unwrap();
    assert!(store.draft_get(id, one).await.unwrap().is_some());
    store.draft_delete(id, one).await.unwrap();
    assert!(store.draft_get(id, one).await.unwrap().is_none());
}

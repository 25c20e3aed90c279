//! API tokens: found, expired, revoked.

use crate::fixtures::{T0, actor, at};
use crate::harness::Database;
use margrave_core::model::ApiToken;
use margrave_core::time::Timestamp;
use margrave_store::StoreError;
use uuid::Uuid;

fn token(number: u128, expires_at: Option<Timestamp>) -> ApiToken {
    ApiToken {
        id: Uuid::from_u128(number),
        name: format!("ci-{number}"),
        created_at: at(number as u64),
        expires_at,
        revoked_at: None,
    }
}

pub(crate) async fn finds_valid_tokens_only(db: Database) {
    let store = &db.store;
    let (lasting, short) = (token(1, None), token(2, Some(at(60))));
    store.token_create(&actor(), &lasting, "hash-1").await.unwrap();
    store.token_create(&actor(), &short, "hash-2").await.unwrap();
    assert_eq!(store.token_find("hash-1", at(10_000)).await.unwrap().as_ref(), Some(&lasting));
    assert_eq!(store.token_find("hash-2", at(59)).await.unwrap().as_ref(), Some(&short));
    assert_eq!(store.token_find("hash-2", at(60)).await.unwrap(), None);
    assert_eq!(store.token_find("hash-3", T0).await.unwrap(), None);
    assert_eq!(store.tokens().await.unwrap(), [lasting, short]);
    let error = store.token_create(&actor(), &token(3, None), "hash-1").await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
}

pub(crate) async fn revokes_a_token_once(db: Database) {
    let store = &db.store;
    store.token_create(&actor(), &token(1, None), "hash-1").await.unwrap();
    assert!(store.token_revoke(&actor(), Uuid::from_u128(1), at(5)).await.unwrap());
    assert!(!store.token_revoke(&actor(), Uuid::from_u128(1), at(6)).await.unwrap());
    assert!(!store.token_revoke(&actor(), Uuid::from_u128(2), at(6)).await.unwrap());
    assert_eq!(store.token_find("hash-1", at(7)).await.unwrap(), None);
    assert_eq!(store.tokens().await.unwrap()[0].revoked_at, Some(at(5)));
    let records = store.audit_page(None, None, 10).await.unwrap();
    let text = format!("{records:?}");
    assert!(text.contains("token.revoke") && !text.contains("hash-1"), "{text}");
}

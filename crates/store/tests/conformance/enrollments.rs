//! One-time tokens: one key, once, before they expire.

use crate::fixtures::{T0, actor, at, client};
use crate::harness::Database;
use margrave_core::model::ClientState;
use margrave_store::{EnrollmentUse, StoreError};
use std::time::Duration;

const WINDOW: Duration = Duration::from_mins(1);

pub(crate) async fn a_token_enrolls_one_key(db: Database) {
    let (store, id) = (&db.store, client(1));
    store.enrollment_create(&actor(), "secret", &id, at(100), T0).await.unwrap();
    let error = store.enrollment_create(&actor(), "secret", &client(2), at(100), T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    assert_eq!(store.client_get(&id).await.unwrap(), None);
    assert_eq!(
        store.enrollment_use("secret", "key-a", WINDOW, at(90)).await.unwrap(),
        EnrollmentUse::Granted(id.clone())
    );
    assert_eq!(store.client_get(&id).await.unwrap().unwrap().state, ClientState::Accepted);
    assert_eq!(store.manifest(&id).await.unwrap().unwrap().0, 1);
    // The response got lost: the same key comes again, even after the token expired. Another key never may.
    assert_eq!(
        store.enrollment_use("secret", "key-a", WINDOW, at(150)).await.unwrap(),
        EnrollmentUse::Granted(id.clone())
    );
    assert_eq!(store.enrollment_use("secret", "key-b", WINDOW, at(91)).await.unwrap(), EnrollmentUse::Used);
    assert_eq!(store.enrollment_use("secret", "key-a", WINDOW, at(151)).await.unwrap(), EnrollmentUse::Used);
    let actions: Vec<_> =
        store.audit_page(Some("client/client-00001"), None, 10).await.unwrap().into_iter().map(|r| r.action).collect();
    assert_eq!(actions, ["client.enroll", "enrollment-token.create"]);
}

pub(crate) async fn rejects_unknown_and_expired_tokens(db: Database) {
    let store = &db.store;
    store.enrollment_create(&actor(), "secret", &client(1), at(100), T0).await.unwrap();
    assert_eq!(store.enrollment_use("other", "key", WINDOW, at(1)).await.unwrap(), EnrollmentUse::Unknown);
    assert_eq!(store.enrollment_use("secret", "key", WINDOW, at(100)).await.unwrap(), EnrollmentUse::Expired);
    assert_eq!(store.client_get(&client(1)).await.unwrap(), None);
}

pub(crate) async fn revokes_tokens_of_a_decommissioned_client(db: Database) {
    let (store, id) = (&db.store, client(1));
    store.client_create(&actor(), &id, ClientState::Pending, None, T0).await.unwrap();
    store.enrollment_create(&actor(), "early", &id, at(100), T0).await.unwrap();
    store.client_set_state(&actor(), &id, ClientState::Decommissioned, None, at(1)).await.unwrap();
    assert_eq!(store.enrollment_use("early", "key", WINDOW, at(2)).await.unwrap(), EnrollmentUse::Unknown);
    // A token created afterwards is a decision to have it back.
    store.enrollment_create(&actor(), "late", &id, at(100), at(3)).await.unwrap();
    assert_eq!(store.enrollment_use("late", "key", WINDOW, at(4)).await.unwrap(), EnrollmentUse::Granted(id.clone()));
    assert_eq!(store.client_get(&id).await.unwrap().unwrap().state, ClientState::Accepted);
}

pub(crate) async fn a_token_enrolls_one_of_two_concurrent_keys(db: Database) {
    let store = &db.store;
    store.enrollment_create(&actor(), "secret", &client(1), at(100), T0).await.unwrap();
    let (one, two) = tokio::join!(
        store.enrollment_use("secret", "key-a", WINDOW, at(1)),
        store.enrollment_use("secret", "key-b", WINDOW, at(1)),
    );
    let outcomes = [one.unwrap(), two.unwrap()];
    let granted = outcomes.iter().filter(|outcome| matches!(outcome, EnrollmentUse::Granted(_))).count();
    assert_eq!(granted, 1, "{outcomes:?}");
    assert!(outcomes.contains(&EnrollmentUse::Used), "{outcomes:?}");
}

pub(crate) async fn lists_and_revokes_tokens(db: Database) {
    let (store, one, two) = (&db.store, client(1), client(2));
    store.enrollment_create(&actor(), "a", &one, at(100), at(1)).await.unwrap();
    store.enrollment_create(&actor(), "b", &one, at(100), at(2)).await.unwrap();
    store.enrollment_create(&actor(), "c", &two, at(100), at(3)).await.unwrap();
    store.enrollment_use("a", "key", WINDOW, at(4)).await.unwrap();
    let listed = store.enrollments(at(5), 10).await.unwrap();
    let short: Vec<_> = listed.iter().map(|one| (one.client.clone(), one.created_at, one.used_at)).collect();
    assert_eq!(short, [(two.clone(), at(3), None), (one.clone(), at(2), None), (one.clone(), at(1), Some(at(4)))]);
    store.enrollment_create(&actor(), "d", &two, at(6), at(5)).await.unwrap();
    let ended = store.enrollments(at(7), 10).await.unwrap();
    let made: Vec<_> = ended.iter().map(|one| one.created_at).collect();
    assert_eq!(made, [at(3), at(2), at(5), at(1)], "usable tokens first, then the newest");
    assert_eq!(store.enrollments_unused(&one).await.unwrap(), 1);
    assert_eq!(store.enrollments_revoke(&actor(), &one, at(5)).await.unwrap(), 1, "a used one stays for its history");
    assert_eq!(store.enrollments_revoke(&actor(), &one, at(6)).await.unwrap(), 0);
    assert_eq!(store.enrollment_use("b", "key", WINDOW, at(7)).await.unwrap(), EnrollmentUse::Unknown);
    assert_eq!(store.enrollments(at(5), 1).await.unwrap().len(), 1);
}

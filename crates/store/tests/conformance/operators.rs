//! Operators: found by name, with a changeable password, and sessions that end when it changes.

use crate::fixtures::{T0, actor, at};
use crate::harness::Database;
use crate::sessions::sign_in_as;
use margrave_store::{Operator, SessionOwner, Store, StoreError};
use uuid::Uuid;

async fn operator(store: &Store, number: u128, name: &str) -> Operator {
    let operator = Operator { id: Uuid::from_u128(number), name: name.to_owned(), created_at: T0, password_at: T0 };
    store.operator_create(&actor(), &operator, "$first").await.unwrap();
    operator
}

pub(crate) async fn finds_operators_by_name(db: Database) {
    let store = &db.store;
    assert!(store.operators().await.unwrap().is_empty());
    let (zoe, admin) = (operator(store, 1, "zoe").await, operator(store, 2, "admin").await);
    assert_eq!(store.operators().await.unwrap(), [admin.clone(), zoe]);
    let found = store.operator_find("admin").await.unwrap().unwrap();
    assert_eq!((&found.operator, found.password_hash.as_str()), (&admin, "$first"));
    assert!(!format!("{found:?}").contains("$first"), "{found:?}");
    assert!(store.operator_find("Admin").await.unwrap().is_none(), "names are case-sensitive");
    let again = Operator { id: Uuid::from_u128(3), ..admin };
    let error = store.operator_create(&actor(), &again, "$other").await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    assert_eq!(store.operator_find("admin").await.unwrap().unwrap().password_hash, "$first");
}

pub(crate) async fn sets_a_password_and_ends_the_other_sessions(db: Database) {
    let store = &db.store;
    let (admin, zoe) = (operator(store, 1, "admin").await, operator(store, 2, "zoe").await);
    let own = SessionOwner::Operator(admin.id);
    let here = sign_in_as(store, 11, own, 100).await;
    sign_in_as(store, 12, own, 100).await;
    sign_in_as(store, 13, own, 20).await;
    let other = sign_in_as(store, 14, SessionOwner::Operator(zoe.id), 100).await;
    let found = store.session_find("session-12", at(30)).await.unwrap().unwrap();
    assert_eq!((found.owner, found.name.as_str()), (own, "admin"));
    let ended = store.operator_password(&actor(), "admin", "$second", Some(here), at(30)).await.unwrap();
    assert_eq!(ended, Some(1), "one was open elsewhere, one had expired");
    let found = store.operator_find("admin").await.unwrap().unwrap();
    assert_eq!((found.password_hash.as_str(), found.operator.password_at), ("$second", at(30)));
    let open: Vec<Uuid> = store.sessions(at(31), 10).await.unwrap().into_iter().map(|session| session.id).collect();
    assert_eq!(open, [other, here]);
    assert_eq!(store.operator_password(&actor(), "admin", "$third", None, at(32)).await.unwrap(), Some(1));
    assert_eq!(store.session_find("session-11", at(33)).await.unwrap(), None, "no session was to be kept");
    assert_eq!(store.operator_password(&actor(), "absent", "$x", None, at(34)).await.unwrap(), None);
}

pub(crate) async fn records_password_changes_without_passwords(db: Database) {
    let store = &db.store;
    let admin = operator(store, 1, "admin").await;
    let session = sign_in_as(store, 11, SessionOwner::Operator(admin.id), 100).await;
    store.session_end(&actor(), session, at(20)).await.unwrap();
    store.operator_password(&actor(), "admin", "$second", None, at(30)).await.unwrap();
    let records = store.audit_page(None, None, 20).await.unwrap();
    let told: Vec<(&str, &str)> =
        records.iter().map(|record| (record.action.as_str(), record.subject.as_str())).collect();
    assert_eq!((told[0], told[3]), (("operator.password", "operator/admin"), ("operator.create", "operator/admin")));
    assert_eq!(records[1].before.as_ref().unwrap()["name"], "admin", "whose session it was");
    let text = format!("{records:?}");
    assert!(!text.contains("$first") && !text.contains("$second") && !text.contains("session-11"), "{text}");
}

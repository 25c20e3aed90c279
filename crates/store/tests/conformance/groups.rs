//! Groups and their revisions.

use crate::fixtures::{T0, actor, at};
use crate::harness::Database;
use margrave_store::StoreError;

pub(crate) async fn creates_changes_and_deletes_a_group(db: Database) {
    let store = &db.store;
    let created = store.group_put(&actor(), "presses", "kind=press", Some("all"), None, T0).await.unwrap();
    assert_eq!((created.revision, created.created_at, created.description.as_deref()), (1, T0, Some("all")));
    assert_eq!(store.group_get("presses").await.unwrap(), Some(created));
    let changed = store.group_put(&actor(), "presses", "kind=press,!spare", None, Some(1), at(1)).await.unwrap();
    assert_eq!((changed.revision, changed.created_at, changed.selector.as_str()), (2, T0, "kind=press,!spare"));
    assert_eq!(store.group_get("presses").await.unwrap(), Some(changed));
    assert!(store.group_delete(&actor(), "presses", Some(2), at(2)).await.unwrap());
    assert!(!store.group_delete(&actor(), "presses", None, at(2)).await.unwrap());
    assert_eq!(store.group_get("presses").await.unwrap(), None);
    let records = store.audit_page(Some("group/presses"), None, 10).await.unwrap();
    let actions: Vec<_> = records.iter().map(|record| record.action.as_str()).collect();
    assert_eq!(actions, ["group.delete", "group.update", "group.create"]);
    assert_eq!(records[1].before.as_ref().unwrap()["selector"], "kind=press");
}

pub(crate) async fn rejects_a_duplicate_group_and_an_older_revision(db: Database) {
    let store = &db.store;
    store.group_put(&actor(), "presses", "a", None, None, T0).await.unwrap();
    let error = store.group_put(&actor(), "presses", "b", None, None, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    let error = store.group_put(&actor(), "presses", "b", None, Some(2), T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { expected: 2, current: 1, .. }), "{error:?}");
    let error = store.group_delete(&actor(), "presses", Some(2), T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    let error = store.group_put(&actor(), "external", "b", None, Some(1), T0).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    assert_eq!(store.group_get("presses").await.unwrap().unwrap().selector, "a");
}

pub(crate) async fn pages_groups(db: Database) {
    for name in ["c", "a", "b"] {
        db.store.group_put(&actor(), name, "", None, None, T0).await.unwrap();
    }
    let names =
        |groups: Vec<margrave_core::model::Group>| groups.into_iter().map(|group| group.name).collect::<Vec<_>>();
    assert_eq!(names(db.store.groups_page(None, 2).await.unwrap()), ["a", "b"]);
    assert_eq!(names(db.store.groups_page(Some("b"), 2).await.unwrap()), ["c"]);
}

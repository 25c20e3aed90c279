//! External registries: passwords are sealed, never lost by an update, never shown.

use crate::fixtures::{T0, actor, at};
use crate::harness::Database;
use margrave_core::registries::{CheckOutcome, RegistryCheck};
use margrave_store::{LoginWrite, REGISTRIES_MAX, RegistryWrite, SealError, Store, StoreError};
use sqlx::Row as _;

const HOST: &str = "registry.example:5000";
const PASSWORD: &str = "pass-of-the-registry";

fn login(username: &str, password: &str) -> LoginWrite {
    LoginWrite::As { username: username.to_owned(), password: password.to_owned() }
}

fn write(host: &str, login: LoginWrite) -> RegistryWrite {
    RegistryWrite { host: host.to_owned(), login, ca: None, plain_http: false }
}

async fn add(store: &Store) {
    store.registry_put(&actor(), &write(HOST, login("ci", PASSWORD)), None, T0).await.unwrap();
}

async fn password(store: &Store) -> Option<String> {
    store.registry_access(HOST).await.unwrap().unwrap().password
}

fn check(outcome: CheckOutcome, second: u64) -> RegistryCheck {
    RegistryCheck { at: at(second), outcome, message: format!("it is {}", outcome.as_str()) }
}

pub(crate) async fn keeps_a_registry_with_its_password_sealed(mut db: Database) {
    let error = db.store.registry_put(&actor(), &write(HOST, login("ci", PASSWORD)), None, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Misuse(_)), "without a key nothing sensitive is stored: {error:?}");
    let store = db.sealed(1).await;
    let open = RegistryWrite { ca: Some("PEM".to_owned()), ..write("a.example", LoginWrite::Anonymous) };
    store.registry_put(&actor(), &open, None, T0).await.unwrap();
    assert!(!store.has_sealed().await.unwrap(), "there is no password yet");
    add(&store).await;
    assert!(store.has_sealed().await.unwrap());
    assert!(!store.seal_key_forget().await.unwrap(), "its key is needed");
    let listed = store.registries().await.unwrap();
    let told: Vec<_> = listed.iter().map(|one| (one.host.as_str(), one.username.as_deref(), one.revision)).collect();
    assert_eq!(told, [("a.example", None, 1), (HOST, Some("ci"), 1)]);
    assert_eq!((listed[0].ca.as_deref(), &*listed[0].added_by, listed[0].added_at), (Some("PEM"), "token:test", T0));
    let row = sqlx::query("SELECT password FROM registries WHERE username = 'ci'");
    let row = row.fetch_one(&mut db.connection().await).await.unwrap();
    assert!(row.get::<String, _>("password").starts_with("sealed:v1:"));
    db.reopen().await;
    let found = db.sealed(1).await.registry_access(HOST).await.unwrap().unwrap();
    assert_eq!((found.registry.username.as_deref(), found.password.as_deref()), (Some("ci"), Some(PASSWORD)));
    assert!(!format!("{found:?}").contains(PASSWORD), "{found:?}");
}

pub(crate) async fn changes_a_registry_and_keeps_its_password(db: Database) {
    let store = db.sealed(1).await;
    add(&store).await;
    let kept = RegistryWrite { ca: Some("PEM".to_owned()), plain_http: true, ..write(HOST, LoginWrite::Kept) };
    let changed = store.registry_put(&actor(), &kept, Some(1), at(1)).await.unwrap();
    assert_eq!(
        (changed.username.as_deref(), changed.ca.as_deref(), changed.plain_http),
        (Some("ci"), Some("PEM"), true)
    );
    assert_eq!((changed.revision, changed.added_at), (2, T0));
    assert_eq!(store.registry_get(HOST).await.unwrap(), Some(changed));
    assert_eq!(password(&store).await.as_deref(), Some(PASSWORD));
    store.registry_put(&actor(), &write(HOST, login("robot", "another")), Some(2), at(2)).await.unwrap();
    let found = store.registry_access(HOST).await.unwrap().unwrap();
    assert_eq!((found.registry.username.as_deref(), found.password.as_deref()), (Some("robot"), Some("another")));
    assert_eq!((found.registry.ca, found.registry.plain_http), (None, false));
    store.registry_put(&actor(), &write(HOST, LoginWrite::Anonymous), Some(3), at(3)).await.unwrap();
    assert_eq!(password(&store).await, None);
    assert!(!store.has_sealed().await.unwrap());
    assert!(store.registry_delete(&actor(), HOST, Some(4), at(4)).await.unwrap());
    assert!(!store.registry_delete(&actor(), HOST, None, at(4)).await.unwrap());
    assert_eq!(store.registry_get(HOST).await.unwrap(), None);
    assert_eq!(store.registry_access(HOST).await.unwrap(), None);
}

pub(crate) async fn rejects_a_duplicate_registry_and_an_older_revision(db: Database) {
    let store = db.sealed(1).await;
    add(&store).await;
    let other = write(HOST, login("robot", "another"));
    let error = store.registry_put(&actor(), &other, None, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    let error = store.registry_put(&actor(), &other, Some(2), T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { expected: 2, current: 1, .. }), "{error:?}");
    let error = store.registry_delete(&actor(), HOST, Some(2), T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    let error = store.registry_put(&actor(), &write("b.example", LoginWrite::Kept), Some(1), T0).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    assert_eq!(password(&store).await.as_deref(), Some(PASSWORD));
    assert_eq!(store.audit_page(Some(&format!("registry/{HOST}")), None, 9).await.unwrap().len(), 1);
}

pub(crate) async fn stores_the_result_of_a_check(db: Database) {
    let store = db.sealed(1).await;
    add(&store).await;
    for outcome in CheckOutcome::ALL {
        let check = check(outcome, 5);
        assert!(store.registry_checked(&actor(), HOST, 1, &check).await.unwrap());
        assert_eq!(store.registry_get(HOST).await.unwrap().unwrap().last_check, Some(check));
    }
    assert!(!store.registry_checked(&actor(), "b.example", 1, &check(CheckOutcome::Denied, 6)).await.unwrap());
    let changed = store.registry_put(&actor(), &write(HOST, LoginWrite::Kept), Some(1), at(7)).await.unwrap();
    assert_eq!(changed.last_check, None);
    assert_eq!(store.registry_get(HOST).await.unwrap(), Some(changed), "the check was of the previous revision");
    assert!(!store.registry_checked(&actor(), HOST, 1, &check(CheckOutcome::Reachable, 8)).await.unwrap());
    assert_eq!(store.registry_get(HOST).await.unwrap().unwrap().last_check, None);
}

pub(crate) async fn records_registries_without_passwords(db: Database) {
    let store = db.sealed(1).await;
    add(&store).await;
    store.registry_checked(&actor(), HOST, 1, &check(CheckOutcome::Reachable, 1)).await.unwrap();
    store.registry_put(&actor(), &write(HOST, login("ci", "another-pass")), Some(1), at(2)).await.unwrap();
    store.registry_delete(&actor(), HOST, None, at(3)).await.unwrap();
    let records = store.audit_page(Some(&format!("registry/{HOST}")), None, 9).await.unwrap();
    let actions: Vec<_> = records.iter().map(|record| record.action.as_str()).collect();
    assert_eq!(actions, ["registry.remove", "registry.update", "registry.check", "registry.add"]);
    assert!(records.iter().all(|record| record.comment == actor().comment && record.actor == actor().name));
    let changed = records[1].after.as_ref().unwrap();
    assert_eq!((&changed["password"], &changed["passwordChanged"]), (&true.into(), &true.into()));
    let told = format!("{records:?}");
    assert!(!told.contains(PASSWORD) && !told.contains("another-pass") && !told.contains("sealed:"), "{told}");
}

pub(crate) async fn opens_a_password_only_in_its_cell(db: Database) {
    let store = db.sealed(1).await;
    add(&store).await;
    store.registry_put(&actor(), &write("evil.example", login("ci", "override")), None, T0).await.unwrap();
    db.tamper(
        "UPDATE registries SET password = (SELECT r.password FROM registries r WHERE r.host = 'registry.example:5000')
         WHERE host = 'evil.example'",
    )
    .await;
    match store.registry_access("evil.example").await {
        Err(StoreError::Sealed { source: SealError::Broken, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(store.registries().await.unwrap().len(), 2, "a list needs no password");
    match db.store.registry_access(HOST).await {
        Err(StoreError::Sealed { source: SealError::NoKey, .. }) => {}
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn bounds_the_registries(db: Database) {
    for number in 0..REGISTRIES_MAX {
        let write = write(&format!("r{number}.example"), LoginWrite::Anonymous);
        db.store.registry_put(&actor(), &write, None, T0).await.unwrap();
    }
    let one = write("more.example", LoginWrite::Anonymous);
    let error = db.store.registry_put(&actor(), &one, None, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::TooMany { max: REGISTRIES_MAX, .. }), "{error:?}");
    db.store.registry_delete(&actor(), "r7.example", None, T0).await.unwrap();
    db.store.registry_put(&actor(), &one, None, T0).await.unwrap();
}

pub(crate) async fn counts_versions_from_a_registry(db: Database) {
    for (number, source) in [(1, "oci://A.example/press:1.0.0"), (2, "oci://a.example:5000/press:2"), (3, "folder")] {
        let (mut row, blobs) = crate::applications::version("press", &format!("{number}.0.0"), number);
        source.clone_into(&mut row.source);
        db.store.version_add(&actor(), &row, &blobs).await.unwrap();
    }
    assert_eq!(db.store.versions_from("a.example").await.unwrap(), 1);
    assert_eq!(db.store.versions_from("b.example").await.unwrap(), 0);
}

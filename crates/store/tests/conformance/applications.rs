//! The catalog: versions side by side, the same package twice, versions in use.

use crate::fixtures::{accept, actor, application, apply, at, deploy, put, remove, rollout, target};
use crate::harness::Database;
use margo::digest::Digest;
use margrave_core::model::{ApplicationVersion, ResourceRef, RolloutKind};
use margrave_store::StoreError;

type Blobs = Vec<(Digest, Vec<u8>)>;

pub(crate) fn version(application: &str, version: &str, imported: u64) -> (ApplicationVersion, Blobs) {
    let description = format!("{application} {version}").into_bytes();
    let icon = b"icon".to_vec();
    let resource = ResourceRef {
        kind: "icon".into(),
        path: "resources/icon.png".into(),
        media_type: "application/vnd.margo.app.icon.v1+png".into(),
        digest: Digest::of(&icon),
    };
    let row = ApplicationVersion {
        application: application.parse().unwrap(),
        version: version.into(),
        name: "Digitron".into(),
        tagline: Some("counts".into()),
        vendor: "Example".into(),
        package_digest: Digest::of(format!("package {application} {version}").as_bytes()),
        description_digest: Digest::of(&description),
        source: "folder:samples".into(),
        resources: vec![resource],
        warnings: vec!["`kind` is old".into()],
        imported_at: at(imported),
    };
    let blobs = vec![(row.description_digest.clone(), description), (Digest::of(&icon), icon)];
    (row, blobs)
}

pub(crate) async fn adds_a_version_with_its_blobs(db: Database) {
    let (row, blobs) = version("digitron", "1.0.0", 1);
    assert!(db.store.version_add(&actor(), &row, &blobs).await.unwrap());
    assert_eq!(db.store.version_get(&application(), "1.0.0").await.unwrap(), Some(row.clone()));
    assert_eq!(db.store.version_get(&application(), "2.0.0").await.unwrap(), None);
    for (digest, bytes) in blobs {
        assert_eq!(db.store.blob_get(&digest).await.unwrap(), Some(bytes));
    }
    assert_eq!(db.store.blob_get(&Digest::of(b"absent's")).await.unwrap(), None);
    let records = db.store.audit_page(Some("application/digitron/1.0.0"), None, 10).await.unwrap();
    assert_eq!(records[0].after.as_ref().unwrap()["package"], row.package_digest.as_str());
}

pub(crate) async fn accepts_the_same_package_twice_but_no_other(db: Database) {
    let (row, blobs) = version("digitron", "1.0.0", 1);
    assert!(db.store.version_add(&actor(), &row, &blobs).await.unwrap());
    assert!(!db.store.version_add(&actor(), &row, &blobs).await.unwrap());
    let other = ApplicationVersion { package_digest: Digest::of(b"another"), ..row.clone() };
    let error = db.store.version_add(&actor(), &other, &blobs).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    assert_eq!(db.store.version_get(&application(), "1.0.0").await.unwrap(), Some(row));
}

pub(crate) async fn lists_applications_by_their_newest_version(db: Database) {
    for (name, number, imported) in
        [("b", "1.0.0", 3), ("b", "2.0.0", 1), ("a", "1.0.0", 2), ("c", "1.0.0", 4), ("c", "2.0.0", 4)]
    {
        let (row, blobs) = version(name, number, imported);
        db.store.version_add(&actor(), &row, &blobs).await.unwrap();
    }
    let versions: Vec<_> =
        db.store.versions(&"b".parse().unwrap()).await.unwrap().into_iter().map(|row| row.version).collect();
    assert_eq!(versions, ["1.0.0", "2.0.0"], "newest import first");
    let page = db.store.applications_page(None, 2).await.unwrap();
    let short: Vec<_> =
        page.iter().map(|(row, count)| (row.application.as_str(), row.version.as_str(), *count)).collect();
    assert_eq!(short, [("a", "1.0.0", 1), ("b", "1.0.0", 2)]);
    assert_eq!(page[0].0.resources.len(), 1);
    let rest = db.store.applications_page(Some(&page[1].0.application), 2).await.unwrap();
    assert_eq!((rest.len(), rest[0].1), (1, 2), "two imports at the same instant are one entry");
    assert_eq!(db.store.applications_page(Some(&"c".parse().unwrap()), 2).await.unwrap(), []);
}

pub(crate) async fn deletes_only_unused_versions(db: Database) {
    let (row, blobs) = version("digitron", "1.0.0", 1);
    db.store.version_add(&actor(), &row, &blobs).await.unwrap();
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let error = db.store.version_delete(&actor(), &application(), "1.0.0", at(2)).await.unwrap_err();
    assert!(matches!(&error, StoreError::InUse { by, .. } if by == "1 deployment"), "{error:?}");
    apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(1)))], at(3)).await;
    let coming = rollout(RolloutKind::Create, vec![put(target(&client, id, None), "x").target], at(4));
    db.store.rollout_create(&coming).await.unwrap();
    let error = db.store.version_delete(&actor(), &application(), "1.0.0", at(2)).await.unwrap_err();
    assert!(matches!(&error, StoreError::InUse { by, .. } if by == "1 unfinished rollout"), "{error:?}");
    let items = [put(target(&client, id, None), "x")];
    db.store.rollout_apply(coming.id, 0, &items, at(4)).await.unwrap();
    assert!(db.store.version_delete(&actor(), &application(), "1.0.0", at(5)).await.unwrap());
    assert!(!db.store.version_delete(&actor(), &application(), "1.0.0", at(5)).await.unwrap());
    assert_eq!(db.store.version_get(&application(), "1.0.0").await.unwrap(), None);
}

pub(crate) async fn lists_names_of_applications(db: Database) {
    for (name, number, imported) in
        [("b", "1.0.0", 3), ("b", "2.0.0", 1), ("a", "1.0.0", 2), ("c", "1.0.0", 4), ("c", "2.0.0", 4)]
    {
        let (mut row, blobs) = version(name, number, imported);
        row.name = format!("{name} {number}");
        db.store.version_add(&actor(), &row, &blobs).await.unwrap();
    }
    let named: Vec<_> = db.store.application_names(10).await.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(named, ["a 1.0.0", "b 1.0.0", "c 2.0.0"], "by the newest import");
    assert_eq!(db.store.application_names(1).await.unwrap().len(), 1);
}

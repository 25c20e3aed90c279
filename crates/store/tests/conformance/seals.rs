//! What is marked sensitive stands in the database sealed, and comes out of the store as it went in.

use crate::fixtures::{
    T0, accept, actor, application, apply, at, change, deploy, deployment, put, put_sensitive, remove, target, values,
    yaml_of,
};
use crate::harness::Database;
use margo::ids::{ClientId, DeploymentId};
use margo::manifest::StateManifest;
use margrave_core::model::{Change, ChangeKind};
use margrave_store::{SEAL_KEY_BYTES, Seal, SealError, Store, StoreError};
use sqlx::Row as _;
use std::collections::BTreeSet;
use uuid::Uuid;

const SECRET: &str = "s3cret-value";
const TOKEN: Uuid = Uuid::from_u128(1);

/// Every value that may be sealed, as it stands: its table, its bytes, and whether it says that it is sealed.
async fn raw(db: &Database) -> Vec<(&'static str, Vec<u8>, bool)> {
    let mut connection = db.connection().await;
    let mut found = Vec::new();
    for (table, statement) in [
        ("drafts", "SELECT body AS text FROM drafts ORDER BY id"),
        ("changes", "SELECT answers AS text FROM changes ORDER BY created_at, id"),
        ("deployments", "SELECT answers AS text FROM deployments ORDER BY id"),
        ("revisions", "SELECT answers AS text FROM deployment_revisions ORDER BY deployment_id, revision"),
    ] {
        for row in sqlx::query(statement).fetch_all(&mut connection).await.unwrap() {
            let text: String = row.get("text");
            let sealed = text.starts_with("sealed:v1:");
            found.push((table, text.into_bytes(), sealed));
        }
    }
    let blobs = sqlx::query("SELECT body, sealed_with FROM blobs").fetch_all(&mut connection).await.unwrap();
    for row in blobs {
        found.push(("blobs", row.get("body"), row.get::<Option<String>, _>("sealed_with").is_some()));
    }
    found
}

/// How many values are sealed, and how many are not. Nothing that is sealed shows what it is.
async fn sealed_and_clear(db: &Database) -> (usize, usize) {
    let raw = raw(db).await;
    for (table, bytes, sealed) in &raw {
        let shows = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        let packed = bytes.starts_with(&[0x1f, 0x8b]);
        assert!(!sealed || !(shows || packed), "a sealed value of {table} shows");
    }
    let sealed = raw.iter().filter(|(_, _, sealed)| *sealed).count();
    (sealed, raw.len() - sealed)
}

async fn served(store: &Store, client: &ClientId, id: DeploymentId) -> Vec<u8> {
    let (_, _, body) = store.manifest(client).await.unwrap().unwrap();
    let manifest = StateManifest::read(&body).unwrap().document;
    let reference = manifest.deployments.iter().find(|reference| reference.deployment_id == id).unwrap();
    let yaml = store.deployment_yaml(client, id, &reference.digest).await.unwrap().unwrap();
    let bundle = manifest.bundle.unwrap();
    let bytes = store.bundle(client, &bundle.digest).await.unwrap().unwrap();
    // Digests and sizes are those of what is served.
    assert_eq!(bundle.size_bytes, Some(bytes.len() as u64));
    assert_eq!(margo::bundle::unpack(&bytes, &bundle, &manifest.deployments).unwrap()[&id], yaml);
    yaml
}

/// Carries out one item as a change with a sensitive answer.
async fn deploy_sensitive(store: &Store, client: &ClientId, number: u128) -> DeploymentId {
    let item = put_sensitive(target(client, deployment(number), None), SECRET);
    let intent = sensitive_change(std::slice::from_ref(&item.target));
    store.change_create(&intent).await.unwrap();
    store.change_apply(intent.id, 0, std::slice::from_ref(&item), T0).await.unwrap();
    assert_eq!(served(store, client, deployment(number)).await, yaml_of(&item));
    deployment(number)
}

fn sensitive_change(targets: &[margrave_core::model::ChangeTarget]) -> Change {
    Change { answers: values(SECRET), sensitive: true, ..change(ChangeKind::Create, targets.to_vec(), T0) }
}

#[track_caller]
fn sealed<T: std::fmt::Debug>(outcome: margrave_store::Result<T>) -> (String, SealError) {
    match outcome {
        Err(StoreError::Sealed { what, source }) => (what, source),
        other => panic!("expected that it cannot be opened, got {other:?}"),
    }
}

pub(crate) async fn seals_what_is_sensitive_and_nothing_else(db: Database) {
    let store = db.sealed(1).await;
    let (one, two) = (accept(&store, 1).await, accept(&store, 2).await);
    deploy(&store, &two, 2, "hello").await;
    // Change, deployment, revision, document, bundle.
    assert_eq!(sealed_and_clear(&db).await, (0, 5));
    let id = deploy_sensitive(&store, &one, 1).await;
    assert_eq!(sealed_and_clear(&db).await, (5, 5));
    let body = format!("{{\"answers\":\"{SECRET}\"}}");
    store.draft_create(Uuid::from_u128(5), TOKEN, "{}", false, T0).await.unwrap();
    store.draft_create(Uuid::from_u128(6), TOKEN, &body, true, T0).await.unwrap();
    assert_eq!(sealed_and_clear(&db).await, (6, 6));
    store.draft_put(Uuid::from_u128(5), TOKEN, &body, true, Some(1), at(1)).await.unwrap();
    assert_eq!(sealed_and_clear(&db).await, (7, 5));

    assert_eq!(store.draft_get(Uuid::from_u128(6), TOKEN).await.unwrap().unwrap().body, body);
    assert_eq!(store.drafts(TOKEN, 9).await.unwrap().len(), 2);
    let view = store.deployment_get(id).await.unwrap().unwrap().deployment;
    assert_eq!((&view.values, view.sensitive), (&values(SECRET), true));
    assert!(!store.deployment_get(deployment(2)).await.unwrap().unwrap().deployment.sensitive);
    assert_eq!(store.deployment_revisions(id).await.unwrap()[0].values, values(SECRET));
    let document = store.deployment_document(id, 1).await.unwrap().unwrap();
    assert_eq!(store.blob_get(&view.yaml_digest).await.unwrap().unwrap(), document);
    assert_eq!(served(&store, &one, id).await, document);
    let waiting = sensitive_change(&[target(&one, deployment(7), None)]);
    store.change_create(&waiting).await.unwrap();
    assert_eq!(store.changes_unfinished(9).await.unwrap(), [waiting]);
    assert_eq!(sealed_and_clear(&db).await, (8, 5));
    assert!(!format!("{:?}", store.audit_page(None, None, 50).await.unwrap()).contains(SECRET));
}

pub(crate) async fn opens_with_the_same_key_after_a_restart(mut db: Database) {
    let store = db.sealed(1).await;
    assert_eq!(store.seal_key().await.unwrap().as_deref(), Some(Seal::new(&[1; SEAL_KEY_BYTES]).id()));
    let client = accept(&store, 1).await;
    let id = deploy_sensitive(&store, &client, 1).await;
    db.reopen().await;
    let store = db.sealed(1).await;
    assert_eq!(store.deployment_get(id).await.unwrap().unwrap().deployment.values, values(SECRET));
    served(&store, &client, id).await;
}

pub(crate) async fn refuses_a_second_key(db: Database) {
    db.sealed(1).await;
    let other = Seal::new(&[2; SEAL_KEY_BYTES]);
    let held = other.id().to_owned();
    let error = db.store.clone().sealing_with(other, at(1)).await.unwrap_err();
    let StoreError::OtherKey { noted, held: refused } = error else { panic!("{error:?}") };
    assert_eq!((noted, refused), (Seal::new(&[1; SEAL_KEY_BYTES]).id().to_owned(), held));
}

pub(crate) async fn opens_nothing_without_the_key(db: Database) {
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let id = deploy_sensitive(&store, &client, 1).await;
    let (what, source) = sealed(db.store.deployment_get(id).await);
    assert_eq!((what, source), (format!("`deployments.answers` of `{id}`"), SealError::NoKey));
    sealed(db.store.deployment_revisions(id).await);
    sealed(db.store.deployment_document(id, 1).await);
    // Nor is anything sensitive written in the clear.
    let item = put_sensitive(target(&client, deployment(2), None), SECRET);
    let error = db.store.change_create(&sensitive_change(&[item.target])).await.unwrap_err();
    assert!(matches!(error, StoreError::Misuse(_)), "{error:?}");
    // The note was exchanged behind our back: the value itself says whose it is.
    db.tamper("DELETE FROM seal_key").await;
    let (_, source) = sealed(db.sealed(2).await.deployment_get(id).await);
    assert!(matches!(source, SealError::OtherKey { .. }), "{source:?}");
}

pub(crate) async fn keeps_a_value_sealed_whatever_comes_later(db: Database) {
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let id = deploy_sensitive(&store, &client, 1).await;
    // A version that does not mark it any more, another deployment beside it, everything told again, removal.
    let unmarked = change(ChangeKind::Upgrade, vec![target(&client, id, Some(1))], at(1));
    store.change_create(&unmarked).await.unwrap();
    store.change_apply(unmarked.id, 0, &[put(target(&client, id, Some(1)), "another-value")], at(1)).await.unwrap();
    let (_, clear) = sealed_and_clear(&db).await;
    assert_eq!(clear, 1, "only the answers of the last change, which say `hello`");
    deploy(&store, &client, 2, "hello").await;
    let (_, clear) = sealed_and_clear(&db).await;
    assert_eq!(clear, 5, "and those of the other deployment, without the bundle");
    store.manifest_renew(&actor(), &client, at(2)).await.unwrap().unwrap();
    store.manifest_raise(&client, 20, at(3)).await.unwrap().unwrap();
    served(&store, &client, id).await;
    apply(&store, ChangeKind::Remove, &[remove(target(&client, id, Some(2)))], at(4)).await;
    let shows = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("-value");
    assert!(!raw(&db).await.iter().any(|(_, bytes, _)| shows(bytes)));
    assert_eq!(store.deployment_get(id).await.unwrap().unwrap().deployment.values, values("another-value"));
}

pub(crate) async fn seals_bytes_that_were_in_the_clear(db: Database) {
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let id = deploy(&store, &client, 1, SECRET).await;
    let yaml = served(&store, &client, id).await;
    // The next version asks for the same as something sensitive, and the document comes out the same.
    let again = put_sensitive(target(&client, id, Some(1)), SECRET);
    assert_eq!(yaml_of(&again), yaml);
    apply(&store, ChangeKind::Upgrade, &[again], at(1)).await;
    let documents =
        raw(&db).await.into_iter().filter(|(table, bytes, _)| *table == "blobs" && !bytes.starts_with(&[0x1f, 0x8b]));
    assert_eq!(documents.map(|(_, _, sealed)| sealed).collect::<Vec<_>>(), [true]);
    assert_eq!(served(&store, &client, id).await, yaml);
    // The other way round it stays sealed.
    apply(&store, ChangeKind::Upgrade, &[put(target(&client, id, Some(2)), SECRET)], at(2)).await;
    assert!(store.deployment_get(id).await.unwrap().unwrap().deployment.sensitive);
    assert_eq!(served(&store, &client, id).await, yaml);
}

pub(crate) async fn does_not_open_what_was_moved(db: Database) {
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let (one, two) = (deploy_sensitive(&store, &client, 1).await, deploy_sensitive(&store, &client, 2).await);
    db.tamper(
        "UPDATE deployments SET answers = (SELECT answers FROM deployments WHERE id = '00000000-0000-0000-0000-000000000001')",
    )
    .await;
    assert!(store.deployment_get(one).await.is_ok());
    let (what, source) = sealed(store.deployment_get(two).await);
    assert_eq!((what, source), (format!("`deployments.answers` of `{two}`"), SealError::Broken));
}

pub(crate) async fn publishes_nothing_when_a_document_cannot_be_opened(db: Database) {
    // Invariant 6: a manifest without it would make the device remove the workload.
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let id = deploy_sensitive(&store, &client, 1).await;
    let before = store.manifest(&client).await.unwrap();
    db.tamper("UPDATE blobs SET body = stored.body FROM blobs stored WHERE stored.digest <> blobs.digest").await;
    let items = [put(target(&client, deployment(2), None), "b")];
    let intent = change(ChangeKind::Create, vec![items[0].target.clone()], T0);
    store.change_create(&intent).await.unwrap();
    let (what, source) = sealed(store.change_apply(intent.id, 0, &items, T0).await);
    assert!(what.starts_with("`blobs.body` of `sha256:") && source == SealError::Broken, "{what}");
    sealed(store.manifest_renew(&actor(), &client, T0).await);
    let digest = store.deployment_get(id).await.unwrap().unwrap().deployment.yaml_digest;
    sealed(store.deployment_yaml(&client, id, &digest).await);
    assert_eq!(store.manifest(&client).await.unwrap(), before);
    assert_eq!(store.change_get(intent.id).await.unwrap().unwrap().done, 0);
    assert_eq!(store.deployment_get(deployment(2)).await.unwrap(), None);
}

pub(crate) async fn seals_older_values(db: Database) {
    let (client, other) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let (id, idle) = (deploy(&db.store, &client, 1, SECRET).await, deploy(&db.store, &other, 2, SECRET).await);
    apply(&db.store, ChangeKind::Reconfigure, &[put(target(&client, id, Some(1)), "s3cret-value-2")], at(1)).await;
    apply(&db.store, ChangeKind::Remove, &[remove(target(&other, idle, Some(1)))], at(2)).await;
    let waiting = Change {
        answers: values(SECRET),
        ..change(ChangeKind::Create, vec![target(&other, deployment(3), None)], at(3))
    };
    db.store.change_create(&waiting).await.unwrap();
    db.store.draft_create(Uuid::from_u128(5), TOKEN, SECRET, false, T0).await.unwrap();
    let yaml = served(&db.store, &client, id).await;
    let (before, all) = sealed_and_clear(&db).await;
    assert_eq!(before, 0);

    let store = db.sealed(1).await;
    assert!(!store.older_is_sealed().await.unwrap());
    assert_eq!(store.versions_answered().await.unwrap(), [(application(), "1.0.0".to_owned())]);
    let applications = BTreeSet::from([application()]);
    assert_eq!(store.seal_older(&applications).await.unwrap(), all as u64);
    assert_eq!(sealed_and_clear(&db).await, (all, 0));
    assert_eq!(store.seal_older(&applications).await.unwrap(), 0, "a second time there is nothing left");
    assert!(store.scrub().await.unwrap());
    store.older_sealed(at(9)).await.unwrap();
    assert!(store.older_is_sealed().await.unwrap());

    assert_eq!(served(&store, &client, id).await, yaml);
    let revisions = store.deployment_revisions(id).await.unwrap();
    assert_eq!((&revisions[0].values, &revisions[1].values), (&values("s3cret-value-2"), &values(SECRET)));
    assert_eq!(store.deployment_document(idle, 1).await.unwrap().map(|bytes| bytes.is_empty()), Some(false));
    assert_eq!(store.changes_unfinished(9).await.unwrap()[0].answers, values(SECRET));
    assert_eq!(store.draft_get(Uuid::from_u128(5), TOKEN).await.unwrap().unwrap().body, SECRET);
    if let Some(file) = db.url.strip_prefix("sqlite://") {
        for name in [file.to_owned(), format!("{file}-wal")] {
            let bytes = std::fs::read(&name).unwrap();
            assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "{name} shows it");
        }
    }
}

pub(crate) async fn seals_only_older_values_of_these_applications(db: Database) {
    let client = accept(&db.store, 1).await;
    deploy(&db.store, &client, 1, "hello").await;
    let store = db.sealed(1).await;
    assert_eq!(store.seal_older(&BTreeSet::new()).await.unwrap(), 0);
    assert_eq!(store.seal_older(&BTreeSet::from(["another".parse().unwrap()])).await.unwrap(), 0);
    assert_eq!(sealed_and_clear(&db).await, (0, 5));
}

pub(crate) async fn forgets_a_key_only_when_nothing_is_sealed_with_it(db: Database) {
    let store = db.sealed(1).await;
    assert!(!store.has_sealed().await.unwrap());
    // Where others may be about to seal with it, a key is never forgotten.
    assert_eq!(store.seal_key_forget().await.unwrap(), !store.is_shared());
    assert_eq!(store.seal_key().await.unwrap().is_none(), !store.is_shared());
    let store = db.sealed(1).await;
    store.draft_create(Uuid::from_u128(5), TOKEN, SECRET, true, T0).await.unwrap();
    assert!(store.has_sealed().await.unwrap());
    assert!(!store.seal_key_forget().await.unwrap());
    assert!(store.seal_key().await.unwrap().is_some());
}

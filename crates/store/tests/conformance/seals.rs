//! Sensitive values are sealed in the database, and come out of the store as they went in.

use crate::fixtures::{
    T0, accept, actor, apply, at, deploy, deployment, put, put_sensitive, remove, rollout, target, values, yaml_of,
};
use crate::harness::Database;
use margo::ids::{ClientId, DeploymentId};
use margo::manifest::StateManifest;
use margrave_core::model::{Rollout, RolloutKind};
use margrave_store::{PublishAbove, SEAL_KEY_BYTES, Seal, SealError, Store, StoreError};
use sqlx::Row as _;
use uuid::Uuid;

const SECRET: &str = "s3cret-value";
const TOKEN: Uuid = Uuid::from_u128(1);

/// Every value that may be sealed, as stored: its table, its bytes, and whether it is marked as sealed.
async fn raw(db: &Database) -> Vec<(&'static str, Vec<u8>, bool)> {
    let mut connection = db.connection().await;
    let mut found = Vec::new();
    for (table, statement) in [
        ("drafts", "SELECT body AS text FROM drafts ORDER BY id"),
        ("rollouts", "SELECT parameter_values AS text FROM rollouts ORDER BY created_at, id"),
        ("deployments", "SELECT parameter_values AS text FROM deployments ORDER BY id"),
        ("revisions", "SELECT parameter_values AS text FROM deployment_revisions ORDER BY deployment_id, revision"),
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

/// How many values are sealed, and how many are not. No sealed value shows its content.
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
    // Digests and sizes are those of the served content.
    assert_eq!(bundle.size_bytes, Some(bytes.len() as u64));
    assert_eq!(margo::bundle::unpack(&bytes, &bundle, &manifest.deployments).unwrap()[&id], yaml);
    yaml
}

/// Carries out one item as a rollout with a sensitive value.
async fn deploy_sensitive(store: &Store, client: &ClientId, number: u128) -> DeploymentId {
    let item = put_sensitive(target(client, deployment(number), None), SECRET);
    let intent = sensitive_rollout(std::slice::from_ref(&item.target));
    store.rollout_create(&intent).await.unwrap();
    store.rollout_apply(intent.id, 0, std::slice::from_ref(&item), T0).await.unwrap();
    assert_eq!(served(store, client, deployment(number)).await, yaml_of(&item));
    deployment(number)
}

fn sensitive_rollout(targets: &[margrave_core::model::RolloutTarget]) -> Rollout {
    Rollout { values: values(SECRET), sensitive: true, ..rollout(RolloutKind::Create, targets.to_vec(), T0) }
}

#[track_caller]
fn sealed<T: std::fmt::Debug>(outcome: margrave_store::Result<T>) -> (String, SealError) {
    match outcome {
        Err(StoreError::Sealed { what, source }) => (what, source),
        other => panic!("expected that it cannot be opened, got {other:?}"),
    }
}

pub(crate) async fn seals_only_sensitive_values(db: Database) {
    let store = db.sealed(1).await;
    let (one, two) = (accept(&store, 1).await, accept(&store, 2).await);
    deploy(&store, &two, 2, "hello").await;
    // Rollout, deployment, revision, document, bundle.
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
    let waiting = sensitive_rollout(&[target(&one, deployment(7), None)]);
    store.rollout_create(&waiting).await.unwrap();
    assert_eq!(store.rollouts_unfinished(9).await.unwrap(), [waiting]);
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

pub(crate) async fn rejects_a_second_key(db: Database) {
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
    assert_eq!((what, source), (format!("`deployments.parameter_values` of `{id}`"), SealError::NoKey));
    sealed(db.store.deployment_revisions(id).await);
    sealed(db.store.deployment_document(id, 1).await);
    // Nor is anything sensitive written in the clear.
    let item = put_sensitive(target(&client, deployment(2), None), SECRET);
    let error = db.store.rollout_create(&sensitive_rollout(&[item.target])).await.unwrap_err();
    assert!(matches!(error, StoreError::Misuse(_)), "{error:?}");
    // The key id was replaced without the store: the value itself names its key.
    db.tamper("DELETE FROM seal_key").await;
    let (_, source) = sealed(db.sealed(2).await.deployment_get(id).await);
    assert!(matches!(source, SealError::OtherKey { .. }), "{source:?}");
}

pub(crate) async fn keeps_a_value_sealed_after_later_updates(db: Database) {
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let id = deploy_sensitive(&store, &client, 1).await;
    // A version that no longer marks it, another deployment next to it, a republish, removal.
    let unmarked = rollout(RolloutKind::Upgrade, vec![target(&client, id, Some(1))], at(1));
    store.rollout_create(&unmarked).await.unwrap();
    store.rollout_apply(unmarked.id, 0, &[put(target(&client, id, Some(1)), "another-value")], at(1)).await.unwrap();
    let (_, clear) = sealed_and_clear(&db).await;
    assert_eq!(clear, 1, "only the values of the last rollout, which are `hello`");
    deploy(&store, &client, 2, "hello").await;
    let (_, clear) = sealed_and_clear(&db).await;
    assert_eq!(clear, 5, "and those of the other deployment, without the bundle");
    store.manifest_republish(&actor(), &client, at(2)).await.unwrap().unwrap();
    assert!(matches!(store.manifest_publish_above(&client, id, 20, at(3)).await.unwrap(), PublishAbove::Head(_)));
    served(&store, &client, id).await;
    apply(&store, RolloutKind::Remove, &[remove(target(&client, id, Some(2)))], at(4)).await;
    let shows = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("-value");
    assert!(!raw(&db).await.iter().any(|(_, bytes, _)| shows(bytes)));
    assert_eq!(store.deployment_get(id).await.unwrap().unwrap().deployment.values, values("another-value"));
}

pub(crate) async fn seals_bytes_that_were_in_the_clear(db: Database) {
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let id = deploy(&store, &client, 1, SECRET).await;
    let yaml = served(&store, &client, id).await;
    // The next version marks the same value as sensitive, and the document stays the same.
    let again = put_sensitive(target(&client, id, Some(1)), SECRET);
    assert_eq!(yaml_of(&again), yaml);
    apply(&store, RolloutKind::Upgrade, &[again], at(1)).await;
    let documents =
        raw(&db).await.into_iter().filter(|(table, bytes, _)| *table == "blobs" && !bytes.starts_with(&[0x1f, 0x8b]));
    assert_eq!(documents.map(|(_, _, sealed)| sealed).collect::<Vec<_>>(), [true]);
    assert_eq!(served(&store, &client, id).await, yaml);
    // In the other direction it stays sealed.
    apply(&store, RolloutKind::Upgrade, &[put(target(&client, id, Some(2)), SECRET)], at(2)).await;
    assert!(store.deployment_get(id).await.unwrap().unwrap().deployment.sensitive);
    assert_eq!(served(&store, &client, id).await, yaml);
}

pub(crate) async fn rejects_a_moved_sealed_value(db: Database) {
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let (one, two) = (deploy_sensitive(&store, &client, 1).await, deploy_sensitive(&store, &client, 2).await);
    db.tamper(
        "UPDATE deployments SET parameter_values = (SELECT parameter_values FROM deployments WHERE id = '00000000-0000-0000-0000-000000000001')",
    )
    .await;
    assert!(store.deployment_get(one).await.is_ok());
    let (what, source) = sealed(store.deployment_get(two).await);
    assert_eq!((what, source), (format!("`deployments.parameter_values` of `{two}`"), SealError::Broken));
}

pub(crate) async fn publishes_nothing_when_a_document_cannot_be_opened(db: Database) {
    // Invariant 6: a manifest without it would make the device remove the workload.
    let store = db.sealed(1).await;
    let client = accept(&store, 1).await;
    let id = deploy_sensitive(&store, &client, 1).await;
    let before = store.manifest(&client).await.unwrap();
    db.tamper("UPDATE blobs SET body = stored.body FROM blobs stored WHERE stored.digest <> blobs.digest").await;
    let items = [put(target(&client, deployment(2), None), "b")];
    let intent = rollout(RolloutKind::Create, vec![items[0].target.clone()], T0);
    store.rollout_create(&intent).await.unwrap();
    assert_eq!(store.rollout_apply(intent.id, 0, &items, T0).await.unwrap(), []);
    let (what, source) = sealed(store.manifest_republish(&actor(), &client, T0).await);
    assert!(what.starts_with("`blobs.body` of `sha256:") && source == SealError::Broken, "{what}");
    sealed(store.manifest_republish(&actor(), &client, T0).await);
    let digest = store.deployment_get(id).await.unwrap().unwrap().deployment.yaml_digest;
    sealed(store.deployment_yaml(&client, id, &digest).await);
    assert_eq!(store.manifest(&client).await.unwrap(), before);
    let skipped = store.rollout_get(intent.id).await.unwrap().unwrap().skipped;
    assert_eq!(skipped[0].1.kind(), "client-cannot-be-published");
    assert_eq!(store.deployment_get(deployment(2)).await.unwrap(), None);
}

pub(crate) async fn deletes_a_key_id_only_if_nothing_is_sealed(db: Database) {
    let store = db.sealed(1).await;
    assert!(!store.has_sealed().await.unwrap());
    // A key is never deleted if others may be about to seal with it.
    assert_eq!(store.seal_key_forget().await.unwrap(), !store.is_shared());
    assert_eq!(store.seal_key().await.unwrap().is_none(), !store.is_shared());
    let store = db.sealed(1).await;
    store.draft_create(Uuid::from_u128(5), TOKEN, SECRET, true, T0).await.unwrap();
    assert!(store.has_sealed().await.unwrap());
    assert!(!store.seal_key_forget().await.unwrap());
    assert!(store.seal_key().await.unwrap().is_some());
}

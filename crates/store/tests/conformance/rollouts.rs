//! Intents and batches; what is published and what is not.

mod batches;
mod concurrency;
mod outcomes;

pub(crate) use batches::*;
pub(crate) use concurrency::*;
pub(crate) use outcomes::*;

use crate::fixtures::{T0, accept, application, apply, at, deploy, deployment, put, remove, rollout, target, yaml_of};
use crate::harness::Database;
use margo::digest::Digest;
use margo::ids::ClientId;
use margo::manifest::StateManifest;
use margrave_core::model::{Desired, Rollout, RolloutKind};
use margrave_store::{Store, StoreError};
use uuid::Uuid;

pub(crate) async fn manifest(store: &Store, client: &ClientId) -> StateManifest {
    let (version, digest, body) = store.manifest(client).await.unwrap().unwrap();
    // DS-14
    assert_eq!(digest, Digest::of(&body));
    let manifest = StateManifest::read(&body).unwrap().document;
    assert_eq!(manifest.manifest_version, version);
    manifest
}

pub(crate) async fn records_an_intent(db: Database) {
    let client = accept(&db.store, 1).await;
    let targets = vec![target(&client, deployment(1), None), target(&client, deployment(2), Some(4))];
    let intent = rollout(RolloutKind::Upgrade, targets, T0);
    db.store.rollout_create(&intent).await.unwrap();
    assert_eq!(db.store.rollout_get(intent.id).await.unwrap(), Some(intent.progress()));
    assert_eq!(db.store.rollout_get(Uuid::from_u128(1)).await.unwrap(), None);
    assert_eq!(db.store.rollout_values(intent.id).await.unwrap(), Some((intent.values.clone(), false)));
    assert_eq!(db.store.rollout_values(Uuid::from_u128(1)).await.unwrap(), None);
    assert_eq!(db.store.rollouts_unfinished(10).await.unwrap(), std::slice::from_ref(&intent));
    let error = db.store.rollout_create(&intent).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    let record = &db.store.audit_page(Some(&format!("rollout/{}", intent.id)), None, 1).await.unwrap()[0];
    assert_eq!(record.action, "rollout.create");
    let after = record.after.as_ref().unwrap();
    assert_eq!((&after["targets"], &after["parameters"][0]), (&2.into(), &"greeting".into()));
    // PRM-09: values stay out of the audit.
    assert!(!after.to_string().contains("hello"));
}

pub(crate) async fn pages_rollouts(db: Database) {
    let mut rollouts: Vec<Rollout> = Vec::new();
    for seconds in [1, 2, 2, 3] {
        let intent =
            rollout(RolloutKind::Create, vec![target(&"absent".parse().unwrap(), deployment(1), None)], at(seconds));
        db.store.rollout_create(&intent).await.unwrap();
        rollouts.push(intent);
    }
    rollouts.sort_by_key(|rollout| std::cmp::Reverse((rollout.created_at, rollout.id)));
    let first = db.store.rollouts_page(None, 2).await.unwrap();
    let second = db.store.rollouts_page(Some((first[1].created_at, first[1].id)), 2).await.unwrap();
    assert_eq!(db.store.rollouts_page(Some((second[1].created_at, second[1].id)), 2).await.unwrap(), []);
    assert_eq!([first, second].concat(), rollouts.iter().map(Rollout::progress).collect::<Vec<_>>());
    assert_eq!(db.store.rollout_targets(rollouts[0].id).await.unwrap(), rollouts[0].targets);
    let oldest = db.store.rollouts_unfinished(1).await.unwrap();
    assert_eq!(oldest[0].created_at, at(1));
}

pub(crate) async fn lists_the_deployments_of_an_application(db: Database) {
    let (first, second, third) = (accept(&db.store, 1).await, accept(&db.store, 2).await, accept(&db.store, 3).await);
    let items = [put(target(&first, deployment(1), None), "a"), put(target(&third, deployment(3), None), "b")];
    apply(&db.store, RolloutKind::Create, &items, at(1)).await;
    let clients = [first.clone(), second, third.clone()];
    let mut places = db.store.application_locations(&application(), &clients).await.unwrap();
    places.sort_by_key(|place| place.deployment);
    let found: Vec<_> = places.iter().map(|place| (place.deployment, place.client.clone())).collect();
    assert_eq!(found, [(deployment(1), first.clone()), (deployment(3), third)]);
    assert_eq!(places[0].target.as_str(), first.as_str());
    assert_eq!(db.store.application_locations(&"other".parse().unwrap(), &clients).await.unwrap(), []);
    // A removed deployment does not count.
    apply(&db.store, RolloutKind::Remove, &[remove(target(&first, deployment(1), Some(1)))], at(2)).await;
    assert_eq!(db.store.application_locations(&application(), &clients).await.unwrap().len(), 1);
}

// DS-01, DS-04, DS-05
pub(crate) async fn publishes_a_deployment(db: Database) {
    let client = accept(&db.store, 1).await;
    let item = put(target(&client, deployment(1), None), "hello");
    let (id, heads) = apply(&db.store, RolloutKind::Create, std::slice::from_ref(&item), at(1)).await;
    let manifest = manifest(&db.store, &client).await;
    assert_eq!(heads.len(), 1);
    assert_eq!((heads[0].version, &heads[0].client), (2, &client));
    assert_eq!(db.store.client_with_head(&client).await.unwrap().unwrap().1, heads[0]);
    assert_eq!((manifest.manifest_version, manifest.deployments.len()), (2, 1));
    let reference = &manifest.deployments[0];
    let yaml = db.store.deployment_yaml(&client, deployment(1), &reference.digest).await.unwrap().unwrap();
    assert_eq!(yaml, yaml_of(&item), "served as stored");
    let bundle = manifest.bundle.unwrap();
    let bytes = db.store.bundle(&client, &bundle.digest).await.unwrap().unwrap();
    assert_eq!(margo::bundle::unpack(&bytes, &bundle, &manifest.deployments).unwrap()[&deployment(1)], yaml);

    let view = db.store.deployment_get(deployment(1)).await.unwrap().unwrap();
    let row = view.deployment;
    assert_eq!((row.revision, row.desired, row.target_version, row.rollout), (1, Desired::Present, 2, id));
    assert_eq!((row.created_at, row.updated_at, row.yaml_digest), (at(1), at(1), reference.digest.clone()));
    assert_eq!((view.reported, view.last_seen_at), (None, None));
    let rollout = db.store.rollout_get(id).await.unwrap().unwrap();
    assert_eq!((rollout.done, rollout.finished_at, rollout.skipped.len()), (1, Some(at(1)), 0));
    let record = &db.store.audit_page(Some(&format!("deployment/{}", deployment(1))), None, 1).await.unwrap()[0];
    assert_eq!(
        (record.action.as_str(), record.actor.as_str(), record.before.is_none()),
        ("deployment.create", "token:test", true)
    );
    assert_eq!(record.after.as_ref().unwrap()["manifestVersion"], 2);
}

// GEN-09
pub(crate) async fn hides_content_of_other_clients(db: Database) {
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    deploy(&db.store, &one, 1, "mine").await;
    deploy(&db.store, &two, 2, "yours").await;
    let mine = manifest(&db.store, &one).await;
    let (yaml, bundle) = (&mine.deployments[0].digest, mine.bundle.unwrap().digest);
    assert_eq!(mine.deployments.len(), 1);
    assert!(db.store.deployment_yaml(&one, deployment(1), yaml).await.unwrap().is_some());
    assert!(db.store.deployment_yaml(&two, deployment(1), yaml).await.unwrap().is_none());
    assert!(db.store.deployment_yaml(&two, deployment(2), yaml).await.unwrap().is_none());
    assert!(db.store.deployment_yaml(&one, deployment(2), yaml).await.unwrap().is_none());
    assert!(db.store.bundle(&one, &bundle).await.unwrap().is_some());
    assert!(db.store.bundle(&two, &bundle).await.unwrap().is_none());
    assert!(db.store.bundle(&one, yaml).await.unwrap().is_none(), "a document is not a bundle");
}

// DS-17
pub(crate) async fn serves_replaced_documents_for_a_while(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "old").await;
    let old = manifest(&db.store, &client).await;
    apply(&db.store, RolloutKind::Reconfigure, &[put(target(&client, id, Some(1)), "new")], at(1)).await;
    let (digest, bundle) = (&old.deployments[0].digest, old.bundle.unwrap().digest);
    assert!(db.store.deployment_yaml(&client, id, digest).await.unwrap().is_some());
    assert!(db.store.bundle(&client, &bundle).await.unwrap().is_some());
    let retention = margrave_store::Retention {
        revisions_per_deployment: 10,
        statuses_per_deployment: 10,
        replaced_artifacts: std::time::Duration::from_mins(1),
        finished_rollouts: std::time::Duration::from_mins(10),
        removed_deployments: std::time::Duration::from_mins(10),
        idempotency_keys: std::time::Duration::from_mins(10),
        events: 1_000,
    };
    db.store.prune(&retention, at(60)).await.unwrap();
    assert!(db.store.deployment_yaml(&client, id, digest).await.unwrap().is_some());
    db.store.prune(&retention, at(61)).await.unwrap();
    assert!(db.store.deployment_yaml(&client, id, digest).await.unwrap().is_none());
    assert!(db.store.bundle(&client, &bundle).await.unwrap().is_none());
    let current = manifest(&db.store, &client).await;
    assert!(db.store.deployment_yaml(&client, id, &current.deployments[0].digest).await.unwrap().is_some());
    assert!(db.store.bundle(&client, &current.bundle.unwrap().digest).await.unwrap().is_some());
    assert!(db.store.deployment_document(id, 1).await.unwrap().is_some(), "the history still has it");
}

pub(crate) async fn finds_unfinished_rollouts_by_target(db: Database) {
    let client = accept(&db.store, 1).await;
    let (one, other) = (deploy(&db.store, &client, 1, "a").await, deploy(&db.store, &client, 2, "b").await);
    let coming = rollout(RolloutKind::Reconfigure, vec![target(&client, one, Some(1))], at(5));
    db.store.rollout_create(&coming).await.unwrap();
    let found = db.store.unfinished_rollouts_of(&coming.application, Some(one), 10).await.unwrap();
    assert_eq!(found.iter().map(|one| (one.id, one.done, one.total)).collect::<Vec<_>>(), [(coming.id, 0, 1)]);
    assert_eq!(db.store.unfinished_rollouts_of(&coming.application, Some(other), 10).await.unwrap(), []);
    assert_eq!(db.store.unfinished_rollouts_of(&coming.application, None, 10).await.unwrap().len(), 1);
    assert_eq!(db.store.unfinished_rollouts_of(&"another".parse().unwrap(), None, 10).await.unwrap(), []);
    assert_eq!(db.store.device_count().await.unwrap(), 0);
}

pub(crate) async fn cancels_the_remaining_targets(db: Database) {
    let client = accept(&db.store, 1).await;
    let items = [put(target(&client, deployment(1), None), "a"), put(target(&client, deployment(2), None), "b")];
    let intent = rollout(RolloutKind::Create, items.iter().map(|item| item.target.clone()).collect(), T0);
    db.store.rollout_create(&intent).await.unwrap();
    db.store.rollout_apply(intent.id, 0, &items[..1], at(1)).await.unwrap();
    let actor = crate::fixtures::actor();
    assert_eq!(db.store.rollout_cancel(&actor, intent.id, at(2)).await.unwrap(), 1);
    assert_eq!(db.store.rollout_cancel(&actor, intent.id, at(3)).await.unwrap(), 0);
    assert!(db.store.rollouts_unfinished(10).await.unwrap().is_empty());
    assert!(
        db.store.rollout_apply(intent.id, 1, &items[1..], at(4)).await.unwrap().is_empty(),
        "nothing more is published"
    );
    let progress = db.store.rollout_get(intent.id).await.unwrap().unwrap();
    assert_eq!((progress.done, progress.total, progress.finished_at), (1, 2, Some(at(2))));
    assert_eq!(manifest(&db.store, &client).await.deployments.len(), 1);
    let record = &db.store.audit_page(Some(&format!("rollout/{}", intent.id)), None, 1).await.unwrap()[0];
    assert_eq!((record.action.as_str(), &record.after.as_ref().unwrap()["targets"]), ("rollout.cancel", &1.into()));
}

pub(crate) async fn republishes_for_a_client(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let before = manifest(&db.store, &client).await;
    let actor = crate::fixtures::actor();
    let head = db.store.manifest_republish(&actor, &client, at(9)).await.unwrap().unwrap();
    let after = manifest(&db.store, &client).await;
    // DS-02: only ever upwards, with the same content; the gap makes a client report about everything.
    assert_eq!((head.version, after.manifest_version), (before.manifest_version + 2, before.manifest_version + 2));
    assert_eq!(after.deployments, before.deployments);
    let told = db.store.deployment_get(id).await.unwrap().unwrap().deployment;
    assert_eq!(
        (told.target_version, told.changed_version),
        (head.version, before.manifest_version),
        "the same revision"
    );
    assert_eq!(db.store.manifest_republish(&actor, &crate::fixtures::client(7), at(9)).await.unwrap(), None);
    let record = &db.store.audit_page(Some("client/client-00001"), None, 1).await.unwrap()[0];
    assert_eq!((record.action.as_str(), record.actor.as_str()), ("manifest.republish", "token:test"));
}

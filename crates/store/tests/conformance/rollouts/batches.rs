//! What one batch writes, and what it leaves unchanged.

use super::manifest;
use crate::fixtures::{T0, accept, actor, application, apply, at, client, deploy, deployment, put, remove, rollout, target};
use crate::harness::Database;
use margrave_core::model::{Desired, RolloutKind};
use margrave_core::skips::SkipReason;
use margrave_store::{BATCH_TARGETS_MAX, BatchItem, BatchWrite, DeploymentFilter, StoreError};
use serde_json::json;
use std::time::{Duration, Instant};

// DS-01
pub(crate) async fn publishes_one_version_for_many_targets(db: Database) {
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let items: Vec<BatchItem> = (0..6)
        .map(|number| put(target(if number % 2 == 0 { &one } else { &two }, deployment(number), None), "hello"))
        .collect();
    let (_, heads) = apply(&db.store, RolloutKind::Create, &items, T0).await;
    assert_eq!(
        heads.iter().map(|head| (head.client.clone(), head.version)).collect::<Vec<_>>(),
        [(one.clone(), 2), (two, 2)]
    );
    assert_eq!(manifest(&db.store, &one).await.deployments.len(), 3);
}

// ST-06
pub(crate) async fn keeps_the_version_when_nothing_changes(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    let before = db.store.manifest(&client).await.unwrap();
    let (_, heads) =
        apply(&db.store, RolloutKind::Reconfigure, &[put(target(&client, id, Some(1)), "hello")], at(1)).await;
    assert_eq!(heads, []);
    assert_eq!(db.store.manifest(&client).await.unwrap(), before);
    let row = db.store.deployment_get(id).await.unwrap().unwrap().deployment;
    assert_eq!((row.revision, row.target_version), (2, 2));
    // Another deployment advances the manifest, but not the target version of this one.
    deploy(&db.store, &client, 2, "more").await;
    assert_eq!(manifest(&db.store, &client).await.manifest_version, 3);
    assert_eq!(db.store.deployment_get(id).await.unwrap().unwrap().deployment.target_version, 2);
    assert_eq!(db.store.deployment_get(deployment(2)).await.unwrap().unwrap().deployment.target_version, 3);
}

// DEP-01, DS-02, ST-12
pub(crate) async fn upgrades_and_removes(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "one").await;
    let (_, heads) = apply(&db.store, RolloutKind::Upgrade, &[put(target(&client, id, Some(1)), "two")], at(1)).await;
    assert_eq!(heads[0].version, 3);
    let (gone, heads) = apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(2)))], at(2)).await;
    assert_eq!(heads[0].version, 4);
    let manifest = manifest(&db.store, &client).await;
    assert_eq!((manifest.bundle, manifest.deployments.len()), (None, 0));
    let row = db.store.deployment_get(id).await.unwrap().unwrap().deployment;
    assert_eq!((row.desired, row.revision, row.target_version, row.rollout), (Desired::Absent, 3, 4, gone));

    let revisions = db.store.deployment_revisions(id).await.unwrap();
    let short: Vec<_> = revisions.iter().map(|r| (r.revision, r.action, r.manifest_version)).collect();
    assert_eq!(short, [(3, RolloutKind::Remove, 4), (2, RolloutKind::Upgrade, 3), (1, RolloutKind::Create, 2)]);
    assert_eq!(revisions[1].values["greeting"], "two");
    assert_eq!((revisions[0].actor.as_str(), revisions[0].comment.as_deref()), ("token:test", Some("to see")));
    let one = db.store.deployment_document(id, 1).await.unwrap().unwrap();
    let two = db.store.deployment_document(id, 2).await.unwrap().unwrap();
    assert!(String::from_utf8(one).unwrap().contains("one") && String::from_utf8(two).unwrap().contains("two"));
    assert_eq!(db.store.deployment_document(id, 9).await.unwrap(), None);
    let page = |with_absent| DeploymentFilter { with_absent, ..DeploymentFilter::default() };
    assert_eq!(db.store.deployments_page(&page(false), T0, None, 10).await.unwrap().len(), 0);
    assert_eq!(db.store.deployments_page(&page(true), T0, None, 10).await.unwrap().len(), 1);
}

pub(crate) async fn skips_targets_that_changed(db: Database) {
    let (here, there) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let id = deploy(&db.store, &here, 1, "one").await;
    let skip = BatchItem {
        target: target(&here, deployment(6), None),
        write: BatchWrite::Skip(SkipReason::Other { kind: "device-gone".into(), data: json!({ "device": "six" }) }),
    };
    let mut wrong = put(target(&here, deployment(7), None), "x");
    wrong.target.deployment = deployment(8);
    let items = [
        put(target(&here, id, None), "x"),
        put(target(&here, id, Some(7)), "x"),
        put(target(&here, deployment(2), Some(1)), "x"),
        put(target(&there, id, Some(1)), "x"),
        put(target(&client(9), deployment(3), None), "x"),
        skip,
        wrong,
        put(target(&here, deployment(4), None), "online"),
        put(target(&here, deployment(4), None), "twice"),
        remove(target(&here, deployment(5), None)),
        put(target(&there, deployment(4), None), "somewhere else too"),
    ];
    let (rollout, heads) = apply(&db.store, RolloutKind::Upgrade, &items, at(1)).await;
    assert_eq!(heads.len(), 1);
    let rollout = db.store.rollout_get(rollout).await.unwrap().unwrap();
    assert_eq!((rollout.done, rollout.finished_at), (items.len(), Some(at(1))));
    let reasons: Vec<_> = rollout.skipped.iter().map(|(_, reason)| reason.to_string()).collect();
    assert_eq!(
        reasons,
        [
            "a deployment with this id already exists",
            "the deployment is now at revision 1, the rollout was planned for 7",
            "the deployment no longer exists",
            "the deployment belongs to another client",
            "client `client-00009` does not exist",
            "another reason (device-gone)",
            &format!("the document is for deployment {}", deployment(7)),
            "the batch contains the deployment twice",
            "the deployment does not exist",
            "the batch contains the deployment twice",
        ]
    );
    assert_eq!(rollout.skipped[0].0, id);
    assert_eq!(rollout.skipped[1].1, SkipReason::RevisionChanged { current: 1, expected: 7 });
    assert_eq!(rollout.skipped[5].1.data(), json!({ "device": "six" }), "an unknown kind keeps its data");
    let manifest = manifest(&db.store, &here).await;
    assert_eq!(manifest.deployments.iter().map(|d| d.deployment_id).collect::<Vec<_>>(), [id, deployment(4)]);
    assert_eq!(db.store.manifest(&there).await.unwrap().unwrap().0, 1);
}

// ST-11: a removal report stays unambiguous because no id is reused.
pub(crate) async fn never_reuses_an_id(db: Database) {
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "one").await;
    apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(1)))], at(1)).await;
    for item in [
        put(target(&client, id, Some(2)), "x"),
        remove(target(&client, id, Some(2))),
        put(target(&client, id, None), "x"),
    ] {
        let (rollout, heads) = apply(&db.store, RolloutKind::Create, &[item], at(2)).await;
        assert_eq!(heads, []);
        assert_eq!(db.store.rollout_get(rollout).await.unwrap().unwrap().skipped.len(), 1);
    }
    assert_eq!(db.store.manifest(&client).await.unwrap().unwrap().0, 3);
}

pub(crate) async fn ignores_a_batch_out_of_order(db: Database) {
    let client = accept(&db.store, 1).await;
    let items = [put(target(&client, deployment(1), None), "a"), put(target(&client, deployment(2), None), "b")];
    let intent = rollout(RolloutKind::Create, items.iter().map(|item| item.target.clone()).collect(), T0);
    db.store.rollout_create(&intent).await.unwrap();
    let store = &db.store;
    assert_eq!(store.rollout_apply(intent.id, 1, &items[1..], at(1)).await.unwrap(), []);
    assert_eq!(store.rollout_apply(intent.id, 0, &items[..1], at(1)).await.unwrap()[0].version, 2);
    assert_eq!(store.rollout_apply(intent.id, 0, &items[..1], at(2)).await.unwrap(), [], "already done");
    assert_eq!(store.rollout_apply(intent.id, 1, &[], at(2)).await.unwrap(), []);
    let error = store.rollout_apply(intent.id, 1, &items, at(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Misuse(_)), "{error:?}");
    assert_eq!(store.rollout_get(intent.id).await.unwrap().unwrap().done, 1);
    assert_eq!(store.rollout_apply(intent.id, 1, &items[1..], at(3)).await.unwrap()[0].version, 3);
    assert_eq!(store.rollout_apply(intent.id, 2, &items[..1], at(4)).await.unwrap(), [], "finished");
    assert_eq!(store.rollout_get(intent.id).await.unwrap().unwrap().finished_at, Some(at(3)));
    let error = store.rollout_apply(uuid::Uuid::from_u128(9), 0, &items, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
}

pub(crate) async fn rejects_batches_that_are_too_large(db: Database) {
    let client = accept(&db.store, 1).await;
    let items: Vec<_> =
        (0..=BATCH_TARGETS_MAX).map(|n| remove(target(&client, deployment(n as u128), Some(1)))).collect();
    let intent = rollout(RolloutKind::Remove, items.iter().map(|item| item.target.clone()).collect(), T0);
    db.store.rollout_create(&intent).await.unwrap();
    let error = db.store.rollout_apply(intent.id, 0, &items, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Misuse(_)), "{error:?}");
    assert_eq!(db.store.rollout_get(intent.id).await.unwrap().unwrap().done, 0);
}

pub(crate) async fn finishes_a_change_without_targets(db: Database) {
    let intent = rollout(RolloutKind::Create, vec![], at(1));
    db.store.rollout_create(&intent).await.unwrap();
    assert_eq!(db.store.rollouts_unfinished(10).await.unwrap(), []);
    assert_eq!(db.store.rollout_get(intent.id).await.unwrap().unwrap().finished_at, Some(at(1)));
}

pub(crate) async fn continues_after_a_stop_between_batches(mut db: Database) {
    let client = accept(&db.store, 1).await;
    let items: Vec<_> = (0..5).map(|number| put(target(&client, deployment(number), None), "hello")).collect();
    let intent = rollout(RolloutKind::Create, items.iter().map(|item| item.target.clone()).collect(), T0);
    db.store.rollout_create(&intent).await.unwrap();
    db.store.rollout_apply(intent.id, 0, &items[..2], at(1)).await.unwrap();
    db.reopen().await;
    let left = db.store.rollouts_unfinished(10).await.unwrap();
    assert_eq!((left.len(), left[0].id, left[0].done), (1, intent.id, 2));
    assert_eq!(left[0].targets, intent.targets);
    let heads = db.store.rollout_apply(intent.id, left[0].done, &items[2..], at(2)).await.unwrap();
    assert_eq!(heads[0].version, 3);
    assert_eq!(manifest(&db.store, &client).await.deployments.len(), 5);
    assert_eq!(db.store.rollouts_unfinished(10).await.unwrap(), []);
}

pub(crate) async fn rolls_back_a_failed_batch(db: Database) {
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let items = [put(target(&one, deployment(1), None), "a"), put(target(&two, deployment(2), None), "b")];
    let intent = rollout(RolloutKind::Create, items.iter().map(|item| item.target.clone()).collect(), T0);
    db.store.rollout_create(&intent).await.unwrap();
    // Events are written last, so that everything else has been written when they fail.
    db.tamper("DROP TABLE events").await;
    db.store.rollout_apply(intent.id, 0, &items, T0).await.unwrap_err();
    assert_eq!(db.store.manifest(&one).await.unwrap().unwrap().0, 1);
    assert_eq!(db.store.deployment_get(deployment(1)).await.unwrap(), None);
    assert_eq!(db.store.rollout_get(intent.id).await.unwrap().unwrap().done, 0);
    assert!(db.store.audit_verify().await.unwrap().is_ok());
}

pub(crate) async fn skips_a_client_that_cannot_be_published(db: Database) {
    // Invariant 6: a manifest without the lost document would make the device remove the workload.
    let [lost, exhausted, sound] = [accept(&db.store, 1).await, accept(&db.store, 2).await, accept(&db.store, 3).await];
    let kept = deploy(&db.store, &lost, 1, "a").await;
    db.tamper("DELETE FROM blobs WHERE digest IN (SELECT yaml_digest FROM deployments)").await;
    db.tamper("UPDATE manifests SET version = 9007199254740991 WHERE client_id = 'client-00002'").await;
    let clients = [(&lost, 12), (&exhausted, 13), (&sound, 14), (&lost, 15)];
    let items = clients.map(|(client, id)| put(target(client, deployment(id), None), "b"));
    let intent = rollout(RolloutKind::Create, items.iter().map(|item| item.target.clone()).collect(), T0);
    db.store.rollout_create(&intent).await.unwrap();
    let heads = db.store.rollout_apply(intent.id, 0, &items, T0).await.unwrap();
    assert_eq!(heads.iter().map(|head| head.client.clone()).collect::<Vec<_>>(), [sound], "the others go on");
    assert_eq!(db.store.manifest(&lost).await.unwrap().unwrap().0, 2);
    for (id, is_published) in [(12, false), (13, false), (14, true), (15, false)] {
        assert_eq!(db.store.deployment_get(deployment(id)).await.unwrap().is_some(), is_published, "{id}");
    }
    let progress = db.store.rollout_get(intent.id).await.unwrap().unwrap();
    assert!(progress.finished_at.is_some());
    let reasons: Vec<_> = progress.skipped.iter().map(|(id, reason)| (*id, reason.kind().to_owned())).collect();
    let expected = [12, 13, 15].map(|id| (deployment(id), "client-cannot-be-published".to_owned()));
    assert_eq!(reasons, expected);
    assert!(progress.skipped[0].1.to_string().contains(&kept.to_string()), "{}", progress.skipped[0].1);
    assert!(progress.skipped[1].1.to_string().contains("no manifest versions left"), "{}", progress.skipped[1].1);
    // Also for a republish, which is about one client only.
    let error = db.store.manifest_republish(&actor(), &lost, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Inconsistent { .. }), "{error:?}");
}

pub(crate) async fn carries_out_five_hundred_at_once(db: Database) {
    let mut items = Vec::new();
    for number in 0..BATCH_TARGETS_MAX {
        let client = accept(&db.store, number).await;
        items.push(put(target(&client, deployment(number as u128), None), "hello"));
    }
    let intent = rollout(RolloutKind::Create, items.iter().map(|item| item.target.clone()).collect(), T0);
    db.store.rollout_create(&intent).await.unwrap();
    let began = Instant::now();
    let heads = db.store.rollout_apply(intent.id, 0, &items, T0).await.unwrap();
    let took = began.elapsed();
    assert_eq!(heads.len(), BATCH_TARGETS_MAX);
    assert!(heads.iter().all(|head| head.version == 2));
    // Generous: a shared machine under load. It takes a fraction of this.
    assert!(took < Duration::from_secs(10), "{took:?}");
    let counts = db.store.rollout_summary(intent.id, T0).await.unwrap();
    assert_eq!(counts.values().sum::<u64>(), BATCH_TARGETS_MAX as u64);
    let by_version = db.store.application_summary(&application(), T0).await.unwrap();
    assert_eq!(by_version["1.0.0"], counts);
    assert_eq!(db.store.audit_verify().await.unwrap(), Ok(BATCH_TARGETS_MAX as u64 * 2 + 1));
}

// Invariant 2: what is served is on disk.
pub(crate) async fn settles_what_is_served(db: Database) {
    let client = accept(&db.store, 1).await;
    let items: Vec<BatchItem> = (0..4).map(|number| put(target(&client, deployment(number), None), "hello")).collect();
    let intent = rollout(RolloutKind::Create, items.iter().map(|item| item.target.clone()).collect(), T0);
    db.store.rollout_create(&intent).await.unwrap();
    let waits = !db.store.is_shared();
    assert!(db.store.is_settled());

    let (heads, _) = db.store.rollout_apply_soon(intent.id, 0, &items[..1], at(1)).await.unwrap();
    assert_eq!(heads[0].version, 2);
    assert_eq!(db.store.is_settled(), !waits, "no commit has waited for the disk");
    assert_eq!(db.store.manifest(&client).await.unwrap().unwrap().0, 2);
    assert!(db.store.is_settled(), "a device has read it");

    db.store.rollout_apply_soon(intent.id, 1, &items[1..2], at(2)).await.unwrap();
    assert_eq!(db.store.is_settled(), !waits);
    accept(&db.store, 2).await;
    assert!(db.store.is_settled(), "the next commit waited for both");

    db.store.rollout_apply_soon(intent.id, 2, &items[2..3], at(3)).await.unwrap();
    assert_eq!(db.store.is_settled(), !waits);
    let page = db.store.audit_page(None, None, 1).await.unwrap();
    assert!(db.store.is_settled() && page.len() == 1, "a reader has seen it");

    db.store.rollout_apply(intent.id, 3, &items[3..], at(4)).await.unwrap();
    assert!(db.store.is_settled());
    assert_eq!(manifest(&db.store, &client).await.deployments.len(), 4);
}

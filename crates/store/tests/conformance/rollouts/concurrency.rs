//! Many writers at once.

use super::manifest;
use crate::fixtures::{T0, accept, deployment, put, rollout, target};
use crate::harness::Database;
use margrave_core::model::RolloutKind;
use std::collections::BTreeSet;

const WRITERS: u128 = 6;
const ROLLOUTS_EACH: u128 = 5;

// DS-01
pub(crate) async fn publishes_for_one_client_from_many_writers(db: Database) {
    let (client, other) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (store, client, other) = (db.store.clone(), client.clone(), other.clone());
        writers.spawn(async move {
            let mut versions = Vec::new();
            for number in 0..ROLLOUTS_EACH {
                let id = writer * ROLLOUTS_EACH + number;
                // Clients in different orders: without a lock order this would deadlock.
                let mut items = vec![
                    put(target(&client, deployment(id), None), "a"),
                    put(target(&other, deployment(1000 + id), None), "b"),
                ];
                if writer % 2 == 1 {
                    items.reverse();
                }
                let intent = rollout(RolloutKind::Create, items.iter().map(|item| item.target.clone()).collect(), T0);
                store.rollout_create(&intent).await.unwrap();
                let heads = store.rollout_apply(intent.id, 0, &items, T0).await.unwrap();
                let head = heads.iter().find(|head| head.client == client).unwrap();
                assert!(versions.last().is_none_or(|last| *last < head.version), "versions only grow");
                versions.push(head.version);
            }
            versions
        });
    }
    let versions: Vec<u64> = writers.join_all().await.into_iter().flatten().collect();
    let total = (WRITERS * ROLLOUTS_EACH) as usize;
    assert_eq!(versions.iter().collect::<BTreeSet<_>>().len(), total, "no version is issued twice");
    for (client, offset) in [(&client, 0), (&other, 1000)] {
        let manifest = manifest(&db.store, client).await;
        assert_eq!(manifest.manifest_version, total as u64 + 1);
        let expected: Vec<_> = (0..WRITERS * ROLLOUTS_EACH).map(|id| deployment(offset + id)).collect();
        let published: Vec<_> = manifest.deployments.iter().map(|reference| reference.deployment_id).collect();
        assert_eq!(published, expected, "no deployment is lost");
    }
    assert!(db.store.audit_verify().await.unwrap().is_ok());
}

//! Lists in the order of a column: every column in both directions, page by page.

use crate::fixtures::{T0, accept, actor, at, client, deploy, report, report_device};
use crate::harness::Database;
use margo::status::State;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::{ClientState, DeviceState};
use margrave_core::selector::LabelSelector;
use margrave_core::sort::{
    ClientColumn, Column, DeploymentColumn, DeviceColumn, RolloutColumn, Sort, SortValue, deployment_severity,
    device_severity,
};
use margrave_store::{AuditFilter, ClientSearch, DeploymentFilter, DeviceSearch, EventOrder, SeenAt};
use serde_json::json;
use std::fmt::Debug;

const ALL: u32 = 100;

/// Small pages return the same rows as a large one, in order of the value, and the other way round if descending.
async fn in_every_order<C: Column, K: Clone + Ord + Debug>(
    rows: usize,
    page: impl AsyncFn(Sort<C>, Option<&(SortValue, K)>, u32) -> Vec<(SortValue, K)>,
) {
    for column in C::ALL.iter().copied() {
        let whole = page(Sort { column, descending: false }, None, ALL).await;
        assert_eq!(whole.len(), rows, "{column:?}");
        let rank = |value: &SortValue| match value {
            SortValue::Text(text) => (text.clone(), 0),
            SortValue::Number(number) => (String::new(), *number),
        };
        assert!(whole.is_sorted_by_key(|(value, key)| (rank(value), key.clone())), "{column:?}: {whole:?}");
        let backwards = page(Sort { column, descending: true }, None, ALL).await;
        assert_eq!(backwards, whole.iter().rev().cloned().collect::<Vec<_>>(), "{column:?}");
        for descending in [false, true] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let rows = page(Sort { column, descending }, after.as_ref(), 2).await;
                after = rows.last().cloned();
                found.extend(rows);
                if found.len() >= whole.len() {
                    break;
                }
            }
            assert_eq!(found, if descending { backwards.clone() } else { whole.clone() }, "{column:?} in pages");
        }
    }
}

pub(crate) async fn sorts_devices_by_every_column(db: Database) {
    let store = &db.store;
    // Names and clients are not in the same order; two devices have the same site, one has none.
    let devices = [("press", "Graz"), ("oven", "Linz"), ("saw", "Graz"), ("mill", "")];
    for (number, (name, site)) in devices.into_iter().enumerate() {
        let client = accept(store, number).await;
        let labels = if site.is_empty() { json!({}) } else { json!({ "site": site }) };
        report_device(store, &client, name, &labels).await;
        if number != 2 {
            store.seen_write(&[SeenAt { client, at: at(200 + number as u64) }]).await.unwrap();
        }
    }
    let (pending, oven) = (client(3), crate::fixtures::key(&client(1), "oven"));
    store.client_set_state(&actor(), &pending, ClientState::Decommissioned, None, T0).await.unwrap();
    let id = deploy(store, &client(0), 1, "hello").await;
    db.tamper("UPDATE deployments SET target = 'press'").await;
    store.statuses_put(&[report(&client(0), id, State::Failed, 2, T0)]).await.unwrap();
    let search = DeviceSearch { offline_before: at(100), ..DeviceSearch::default() };
    in_every_order::<DeviceColumn, _>(4, async |sort, after, limit| {
        store.devices_sorted(&search, sort, after, limit).await.unwrap()
    })
    .await;
    let names = async |column| {
        let found = store.devices_sorted(&search, Sort { column, descending: false }, None, ALL).await.unwrap();
        let keys: Vec<_> = found.iter().map(|(_, key)| key.clone()).collect();
        let devices = store.devices_by_keys(&keys).await.unwrap();
        assert_eq!(devices.iter().map(|device| device.key.clone()).collect::<Vec<_>>(), keys);
        keys.into_iter().map(|key| key.device.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(DeviceColumn::Device).await, ["mill", "oven", "press", "saw"]);
    assert_eq!(names(DeviceColumn::LastSeen).await, ["saw", "press", "oven", "mill"]);
    assert_eq!(names(DeviceColumn::Site).await, ["mill", "press", "saw", "oven"]);
    let found = store.devices_sorted(&search, Sort { column: DeviceColumn::State, descending: false }, None, ALL).await;
    let states: Vec<_> = found.unwrap().into_iter().map(|(value, key)| (value, key.device.to_string())).collect();
    let expected = [
        (DeviceState::Failed, "press"),
        (DeviceState::Blocked, "mill"),
        (DeviceState::Offline, "saw"),
        (DeviceState::Online, "oven"),
    ];
    let expected = expected.map(|(state, name)| (SortValue::Number(device_severity(state)), name.to_owned()));
    assert_eq!(states, expected);
    // The operator's site counts more than the reported one.
    let labels = [("site".to_owned(), Some("Aachen".to_owned()))].into_iter().collect();
    store.device_labels_set(&actor(), &oven, &labels, None, T0).await.unwrap();
    assert_eq!(names(DeviceColumn::Site).await, ["mill", "oven", "press", "saw"]);
    let offline = DeviceSearch { state: Some(DeviceState::Offline), ..search.clone() };
    let sort = Sort { column: DeviceColumn::Device, descending: false };
    assert_eq!(store.devices_sorted(&offline, sort, None, ALL).await.unwrap().len(), 1);
}

pub(crate) async fn sorts_deployments_by_every_column(db: Database) {
    let store = &db.store;
    for number in 0..4 {
        let client = accept(store, number).await;
        report_device(store, &client, client.as_str(), &json!({ "site": if number < 2 { "Graz" } else { "Linz" } })).await;
        store.seen_write(&[SeenAt { client: client.clone(), at: at(200) }]).await.unwrap();
        let id = deploy(store, &client, 10 - number as u128, "hello").await;
        let state = [Some(State::Installed), Some(State::Failed), None, Some(State::Installing)][number];
        if let Some(state) = state {
            store.statuses_put(&[report(&client, id, state, 2, at(300 - number as u64))]).await.unwrap();
        }
    }
    let everything = DeploymentFilter::default();
    in_every_order::<DeploymentColumn, _>(4, async |sort, after, limit| {
        store.deployments_sorted(&everything, None, at(100), sort, after, limit).await.unwrap()
    })
    .await;
    let by = |column| Sort { column, descending: false };
    let found = store.deployments_sorted(&everything, None, at(100), by(DeploymentColumn::State), None, ALL).await;
    let found = found.unwrap();
    let severities: Vec<_> = found.iter().map(|(value, _)| value.clone()).collect();
    let states =
        [DeploymentState::Failed, DeploymentState::Pending, DeploymentState::Updating, DeploymentState::UpToDate];
    assert_eq!(severities, states.map(|state| SortValue::Number(deployment_severity(state))));
    let ids: Vec<_> = found.into_iter().map(|(_, id)| id).collect();
    let views = store.deployments_by_ids(&ids).await.unwrap();
    assert_eq!(views.iter().map(|view| view.deployment.id).collect::<Vec<_>>(), ids);

    let graz = DeviceSearch {
        selector: LabelSelector::parse("site=Graz").unwrap(),
        offline_before: at(100),
        ..DeviceSearch::default()
    };
    let failed = DeploymentFilter { deployment_state: Some(DeploymentState::Failed), ..everything.clone() };
    for (filter, expected) in [(&everything, 2), (&failed, 1)] {
        let found =
            store.deployments_sorted(filter, Some(&graz), at(100), by(DeploymentColumn::Device), None, ALL).await;
        assert_eq!(found.unwrap().len(), expected);
    }
}

pub(crate) async fn sorts_clients_rollouts_and_audit_records(db: Database) {
    let store = &db.store;
    for number in [2, 0, 1] {
        let client = accept(store, number).await;
        store.seen_write(&[SeenAt { client: client.clone(), at: at(200 - number as u64) }]).await.unwrap();
        deploy(store, &client, number as u128 + 1, "hello").await;
    }
    store.client_set_state(&actor(), &client(1), ClientState::Decommissioned, None, T0).await.unwrap();
    let all = ClientSearch::default();
    in_every_order::<ClientColumn, _>(3, async |sort, after, limit| {
        store.clients_sorted(&all, sort, after, limit).await.unwrap()
    })
    .await;
    let accepted = ClientSearch { state: Some(ClientState::Accepted), text: Some("CLIENT".to_owned()) };
    let sort = Sort { column: ClientColumn::LastSeen, descending: true };
    let found = store.clients_sorted(&accepted, sort, None, ALL).await.unwrap();
    let ids: Vec<_> = found.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, [client(0), client(2)]);
    let read = store.clients_by_ids(&ids).await.unwrap();
    assert_eq!(read.into_iter().map(|client| client.id).collect::<Vec<_>>(), ids);

    in_every_order::<RolloutColumn, _>(3, async |sort, after, limit| {
        let found = store.rollouts_sorted(sort, after, limit).await.unwrap();
        found.into_iter().map(|(value, rollout)| (value, rollout.id)).collect()
    })
    .await;

    let all = AuditFilter::default();
    let records = async |order| {
        let found = store.audit_search(&all, 0, i64::MAX, order, 1000).await.unwrap();
        found.into_iter().map(|record| record.seq).collect::<Vec<_>>()
    };
    let (newest, oldest) = (records(EventOrder::NewestFirst).await, records(EventOrder::OldestFirst).await);
    assert_eq!(newest, oldest.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(oldest.first(), Some(&1));
}

//! Device search, counted and paged; events in slots; audit search.

use crate::fixtures::{T0, accept, actor, at, client, deploy, deployment, key, report, report_device};
use crate::harness::Database;
use margo::status::State;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::events::{About, NewEvent};
use margrave_core::model::{ClientState, DeviceKey, DeviceState};
use margrave_core::selector::LabelSelector;
use margrave_store::{AuditFilter, DeploymentFilter, DeviceSearch, EventOrder, Runs, RunsVersion, SeenAt, Slot, Store};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

fn search(selector: &str, text: Option<&str>, state: Option<DeviceState>) -> DeviceSearch {
    DeviceSearch {
        selector: LabelSelector::parse(selector).unwrap(),
        text: text.map(str::to_owned),
        state,
        offline_before: at(100),
        runs: None,
    }
}

async fn found(store: &Store, search: &DeviceSearch) -> Vec<String> {
    let (mut names, mut after): (Vec<String>, Option<DeviceKey>) = (Vec::new(), None);
    loop {
        // Small pages and few rows per page: in the end every match is found.
        let (page, next) = store.devices_search_bounded(search, after.as_ref(), 2, 3).await.unwrap();
        assert!(page.len() <= 2);
        names.extend(page.iter().map(|device| device.key.device.to_string()));
        match next {
            Some(next) => after = Some(next),
            None => return names,
        }
    }
}

/// One device per state, each named after it.
async fn one_of_each(store: &Store) {
    for (number, name) in ["online", "updating", "offline", "failed", "out", "degraded"].into_iter().enumerate() {
        let client = accept(store, number).await;
        report_device(store, &client, name, &json!({ "site": "Graz", "line": [number.to_string(), "x_y"] })).await;
        if name != "offline" {
            store.seen_write(&[SeenAt { client, at: at(200) }]).await.unwrap();
        }
    }
    store.client_set_state(&actor(), &client(4), ClientState::Decommissioned, None, T0).await.unwrap();
}

/// A deployment on the client of this number, with this last report.
async fn placed(store: &Store, number: usize, state: Option<State>) {
    let id = deploy(store, &client(number), number as u128 + 1, "hello").await;
    let version = store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
    if let Some(state) = state {
        store.statuses_put(&[report(&client(number), id, state, version, T0)]).await.unwrap();
    }
}

pub(crate) async fn filters_and_counts_devices_by_state(db: Database) {
    let store = &db.store;
    one_of_each(store).await;
    for (number, state) in [(0, Some(State::Installed)), (1, None), (3, Some(State::Failed)), (5, Some(State::Failed))] {
        placed(store, number, state).await;
        // The fixtures deploy to a device with the name of its client.
        db.tamper(match number {
            0 => "UPDATE deployments SET target = 'online' WHERE client_id = 'client-00000'",
            1 => "UPDATE deployments SET target = 'updating/*' WHERE client_id = 'client-00001'",
            5 => "UPDATE deployments SET target = 'degraded', application = 'other' WHERE client_id = 'client-00005'",
            _ => "UPDATE deployments SET target = 'failed' WHERE client_id = 'client-00003'",
        })
        .await;
    }
    deploy(store, &client(5), 50, "hello").await;
    db.tamper("UPDATE deployments SET target = 'degraded', application = 'other' WHERE client_id = 'client-00005'").await;
    let counted = store.devices_counted(&search("", None, None)).await.unwrap();
    assert_eq!(counted, DeviceState::ALL.into_iter().map(|state| (state, 1)).collect::<BTreeMap<_, _>>());
    for (state, name) in [
        (DeviceState::Online, "online"),
        (DeviceState::Updating, "updating"),
        (DeviceState::Offline, "offline"),
        (DeviceState::Failed, "failed"),
        (DeviceState::Degraded, "degraded"),
        (DeviceState::Blocked, "out"),
    ] {
        assert_eq!(found(store, &search("", None, Some(state))).await, [name], "{state:?}");
        assert_eq!(found(store, &search("site=Graz", None, Some(state))).await, [name], "{state:?} by label");
    }
    // By application, whichever index drives the query.
    let on = store.deployment_get(deployment(1)).await.unwrap().unwrap().deployment;
    for few in [true, false] {
        let runs = |version| Some(Runs { application: on.application.clone(), version, few });
        for (version, expected) in [
            (RunsVersion::Any, vec!["online", "updating", "failed"]),
            (RunsVersion::Is(on.version.clone()), vec!["online", "updating", "failed"]),
            (RunsVersion::IsNot(on.version.clone()), vec![]),
        ] {
            for selector in ["", "site=Graz"] {
                let search = DeviceSearch { runs: runs(version.clone()), ..search(selector, None, None) };
                assert_eq!(found(store, &search).await, expected, "{few} {version:?}");
                let counted: u64 = store.devices_counted(&search).await.unwrap().values().sum();
                assert_eq!(counted, expected.len() as u64, "{few} {version:?}");
            }
        }
        let failing =
            DeviceSearch { runs: runs(RunsVersion::Any), ..search("", Some("ail"), Some(DeviceState::Failed)) };
        let named = store.device_keys(&failing, 10).await.unwrap();
        assert_eq!(named, [(key(&client(3), "failed"), Some(deployment(4)))]);
    }
    assert_eq!(store.device_keys(&search("", Some("in"), None), 2).await.unwrap().len(), 2);
}

pub(crate) async fn finds_devices_by_name_and_labels(db: Database) {
    let store = &db.store;
    one_of_each(store).await;
    for (selector, text, expected) in [
        ("", None, vec!["online", "updating", "offline", "failed", "out", "degraded"]),
        ("", Some("ONLI"), vec!["online"]),
        ("", Some("in"), vec!["online", "updating", "offline"]),
        ("", Some("client-00002"), vec!["offline"]),
        ("", Some("_"), vec![]),
        ("", Some("%"), vec![]),
        ("site=Graz", Some("in"), vec!["online", "updating", "offline"]),
        ("site=Graz,line in (1,3)", None, vec!["updating", "failed"]),
        ("site in (Graz,Linz),line notin (1,3)", None, vec!["online", "offline", "out", "degraded"]),
        ("line=x_y,!spare", None, vec!["online", "updating", "offline", "failed", "out", "degraded"]),
        ("site!=Graz", None, vec![]),
        ("spare", None, vec![]),
    ] {
        let search = search(selector, text, None);
        assert_eq!(found(store, &search).await, expected, "{selector} {text:?}");
        let counted: u64 = store.devices_counted(&search).await.unwrap().values().sum();
        assert_eq!(counted, expected.len() as u64, "{selector} {text:?}");
        assert_eq!(store.devices_matching(&search).await.unwrap(), counted, "{selector} {text:?}");
    }
    assert_eq!(store.label_values("site", 10).await.unwrap(), ["Graz"]);
    assert_eq!(store.label_values("line", 2).await.unwrap(), ["0", "1"]);
}

pub(crate) async fn lists_sites_with_offline_devices(db: Database) {
    let store = &db.store;
    one_of_each(store).await;
    let places = store.offline_sites(at(100), 10).await.unwrap();
    assert_eq!(places.len(), 1);
    assert_eq!((places[0].site.as_deref(), places[0].devices, places[0].seen_at), (Some("Graz"), 1, Some(T0)));
    let places = store.offline_sites(at(500), 10).await.unwrap();
    assert_eq!(
        (places[0].devices, places[0].seen_at),
        (5, Some(at(200))),
        "a blocked client does not count as offline"
    );
}

pub(crate) async fn lists_devices_and_deployments_of_clients(db: Database) {
    let store = &db.store;
    let (one, two) = (accept(store, 1).await, accept(store, 2).await);
    let (a, b) = (deploy(store, &one, 1, "a").await, deploy(store, &two, 2, "b").await);
    let mut ids: Vec<_> = store
        .deployments_of(&[one.clone(), two.clone()])
        .await
        .unwrap()
        .iter()
        .map(|view| view.deployment.id)
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [a, b]);
    assert_eq!(store.deployments_of(std::slice::from_ref(&one)).await.unwrap().len(), 1);
    for (client, device) in [(&one, "gate"), (&two, "press")] {
        report_device(store, client, device, &json!({})).await;
    }
    let devices = store.devices_of(&[one, client(77)]).await.unwrap();
    assert_eq!(devices.iter().map(|device| device.key.device.as_str()).collect::<Vec<_>>(), ["gate"]);
    assert_eq!(store.devices_of(&[two]).await.unwrap().len(), 1);
    let pending = client(9);
    store.client_create(&actor(), &pending, ClientState::Pending, None, T0).await.unwrap();
    let waiting = store.clients_in(ClientState::Pending, None, 10).await.unwrap();
    assert_eq!(waiting.iter().map(|client| &client.id).collect::<Vec<_>>(), [&pending]);
    assert!(store.clients_in(ClientState::Pending, Some(&pending), 10).await.unwrap().is_empty());
    assert!(store.device_get(&key(&client(1), "nothing")).await.unwrap().is_none());
}

pub(crate) async fn counts_events_in_time_slots(db: Database) {
    let store = &db.store;
    for (kind, second) in [
        ("deployment.failed", 5),
        ("deployment.failed", 65),
        ("deployment.failed", 70),
        ("client.offline", 130),
        ("server.started", 131),
    ] {
        store.event_append(NewEvent::new(kind, About::default()), at(second)).await.unwrap();
    }
    let mut slots = store.event_trend(at(60), Duration::from_mins(1)).await.unwrap();
    slots.sort_by_key(|slot| slot.slot);
    let slot = |kind: &str, slot, count| Slot { kind: kind.to_owned(), slot, count };
    assert_eq!(slots, [slot("deployment.failed", 0, 2), slot("client.offline", 1, 1)]);
    assert!(store.event_trend(at(1000), Duration::from_mins(1)).await.unwrap().is_empty());
}

pub(crate) async fn searches_the_audit(db: Database) {
    let store = &db.store;
    let one = accept(store, 1).await;
    store.client_set_state(&actor(), &one, ClientState::Decommissioned, None, at(10)).await.unwrap();
    report_device(store, &accept(store, 2).await, "press", &json!({})).await;
    let count = async |filter: AuditFilter| store.audit_search(&filter, 0, i64::MAX, EventOrder::NewestFirst, 100).await.unwrap().len();
    let filter = AuditFilter::default();
    assert_eq!(count(filter.clone()).await, 4);
    assert_eq!(count(AuditFilter { action: Some("client".into()), ..filter.clone() }).await, 3);
    assert_eq!(count(AuditFilter { action: Some("client.decommission".into()), ..filter.clone() }).await, 1);
    assert_eq!(count(AuditFilter { actor: Some("token:test".into()), ..filter.clone() }).await, 3);
    assert_eq!(count(AuditFilter { text: Some("CLIENT-00001".into()), ..filter.clone() }).await, 2);
    let of = |subject: &str| AuditFilter { of: Some(subject.to_owned()), ..AuditFilter::default() };
    assert_eq!(count(of(&format!("client/{one}"))).await, 2);
    assert_eq!(count(of(&format!("client/{}", &one.as_str()[1..]))).await, 0, "the whole subject");
    assert_eq!(count(AuditFilter { text: Some("%".into()), ..filter.clone() }).await, 0);
    assert_eq!(count(AuditFilter { since: Some(at(5)), ..filter.clone() }).await, 1);
    assert_eq!(count(AuditFilter { until: Some(at(5)), ..filter.clone() }).await, 3);
    let page = store.audit_search(&filter, 0, 3, EventOrder::NewestFirst, 100).await.unwrap();
    assert_eq!(page.iter().map(|record| record.seq).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(store.audit_search(&filter, 1, 3, EventOrder::NewestFirst, 100).await.unwrap().len(), 1);
    assert_eq!(store.audit_actors(100).await.unwrap(), ["token:test"], "devices are not listed");
    let after = json!({ "application": "press_vision", "target": "lathe-3" });
    store.audit_append(&actor(), "deployment.create", "deployment/1", Some(after), at(20)).await.unwrap();
    store.audit_append(&actor(), "application.import", "application/press_vision/1.0.0", None, at(20)).await.unwrap();
    let text = |text: &str, applications: &[&str]| AuditFilter {
        text: Some(text.to_owned()),
        applications: applications.iter().map(ToString::to_string).collect(),
        ..AuditFilter::default()
    };
    assert_eq!(count(text("LATHE", &[])).await, 1, "also in the states of a record");
    assert_eq!(count(text("Press Vision", &["press_vision", "another"])).await, 2);
    assert_eq!(count(text("Press Vision", &[])).await, 0);
}

pub(crate) async fn reads_a_bounded_number_of_deployments(db: Database) {
    let client = accept(&db.store, 1).await;
    for number in 1..=7 {
        deploy(&db.store, &client, number, "hello").await;
    }
    db.store.statuses_put(&[report(&client, deployment(6), State::Failed, 100, at(1))]).await.unwrap();
    let search = async |deployment_state, limit, read_max| {
        let filter = DeploymentFilter { deployment_state, ..DeploymentFilter::default() };
        let (mut found, mut pages, mut after) = (Vec::new(), 0, None);
        loop {
            let (views, next) = db.store.deployments_search_bounded(&filter, T0, after, limit, read_max).await.unwrap();
            found.extend(views.into_iter().map(|view| view.deployment.id));
            pages += 1;
            after = next;
            if after.is_none() {
                return (found, pages);
            }
        }
    };
    let all: Vec<_> = (1..=7).map(deployment).collect();
    // Everything matches, so the page is the limit; the last one is empty.
    assert_eq!(search(None, 7, 2).await, (all, 2));
    assert_eq!(search(Some(DeploymentState::Failed), 5, 2).await, (vec![deployment(6)], 1), "an index leads there");
    assert_eq!(search(Some(DeploymentState::UpToDate), 5, 2).await, (vec![], 4), "two at a time, without gaps");
    let (found, pages) = search(Some(DeploymentState::DeviceOffline), 5, 3).await;
    assert_eq!((found.len(), pages), (6, 3));
}

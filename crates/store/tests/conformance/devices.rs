//! Capabilities, labels from operators and devices, gateways, selectors.

use crate::fixtures::{T0, accept, actor, at, capabilities, client, key, report_device};
use crate::harness::Database;
use indexmap::IndexMap;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margrave_core::model::{Device, DeviceKey};
use margrave_core::selector::LabelSelector;
use margrave_store::{DeviceFilter, DevicePut, DeviceWrite, SeenAt, Store, StoreError};
use serde_json::json;

fn filter(selector: &str) -> DeviceFilter {
    DeviceFilter { client: None, selector: LabelSelector::parse(selector).unwrap() }
}

async fn found(store: &Store, selector: &str) -> Vec<String> {
    let devices = store.devices_page(&filter(selector), None, 100).await.unwrap();
    devices.into_iter().map(|device| device.key.device.to_string()).collect()
}

async fn label(store: &Store, key: &DeviceKey, labels: &[(&str, Option<&str>)]) -> Device {
    let labels: IndexMap<_, _> = labels.iter().map(|(key, value)| ((*key).into(), value.map(str::to_owned))).collect();
    store.device_labels_set(&actor(), key, &labels, None, at(5)).await.unwrap()
}

// CAP-03
pub(crate) async fn creates_then_updates_a_device(db: Database) {
    let key = key(&accept(&db.store, 1).await, "press-07");
    let (document, body) = capabilities("press-07", &json!({ "site": "berlin" }));
    assert_eq!(db.store.device_put(&key, &document, &body, at(1)).await.unwrap(), DevicePut::Created);
    let seen = db.store.device_get(&key).await.unwrap().unwrap().last_seen_at;
    assert_eq!(seen, Some(at(1)), "a report counts as contact");
    let subject = format!("device/{}/{}", key.client, key.device);
    assert_eq!(db.store.audit_page(Some(&subject), None, 10).await.unwrap().len(), 1);
    // The same report is noted, not recorded.
    assert_eq!(db.store.device_put(&key, &document, &body, at(2)).await.unwrap(), DevicePut::Updated);
    assert_eq!(db.store.audit_page(Some(&subject), None, 10).await.unwrap().len(), 1);
    let (document, changed) = capabilities("press-07", &json!({ "site": "ulm" }));
    assert_eq!(db.store.device_put(&key, &document, &changed, at(3)).await.unwrap(), DevicePut::Updated);
    let records = db.store.audit_page(Some(&subject), None, 10).await.unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].actor.as_str(), records[0].action.as_str()), ("client:client-00001", "device.report"));

    db.store.seen_write(&[SeenAt { client: key.client.clone(), at: at(9) }]).await.unwrap();
    let device = db.store.device_get(&key).await.unwrap().unwrap();
    assert_eq!(device.capabilities, changed, "kept as received");
    assert_eq!((device.first_reported_at, device.reported_at, device.last_seen_at), (at(1), at(3), Some(at(9))));
    assert_eq!(found(&db.store, "site=ulm").await, ["press-07"]);
    assert_eq!(found(&db.store, "site=berlin").await, Vec::<String>::new());
    assert_eq!(db.store.devices_count().await.unwrap(), 1);
    let absent = crate::fixtures::key(&client(9), "press-07");
    let error = db.store.device_put(&absent, &document, &changed, at(3)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
}

pub(crate) async fn detects_simulated_devices(db: Database) {
    let report = |client: &margo::ids::ClientId, device: &str, simulated: bool| {
        let (plain, _) = capabilities(device, &json!({}));
        let mut body: serde_json::Value = serde_json::from_slice(&plain.to_json()).unwrap();
        if simulated {
            let (name, announcement) = margrave_core::runtime::simulated_announcement();
            body[name] = announcement;
        }
        let body = body.to_string().into_bytes();
        let read = DeviceCapabilities::read(&body, UnknownTypes::Refuse).unwrap();
        DeviceWrite { key: key(client, device), capabilities: read.document, body, received_at: at(1) }
    };
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let pretends = [report(&one, "gw", false), report(&one, "gw/cell", true), report(&two, "press", true)];
    db.store.devices_put(&pretends).await.unwrap();
    let simulated = async |clients: &[margo::ids::ClientId]| {
        let found = db.store.devices_simulated(clients).await.unwrap();
        let mut names: Vec<String> = found.into_iter().map(|key| key.device.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(simulated(&[]).await, Vec::<String>::new());
    assert_eq!(simulated(std::slice::from_ref(&one)).await, ["gw/cell"], "not those of other clients");
    assert_eq!(simulated(&[one.clone(), two.clone()]).await, ["gw/cell", "press"]);
    // The same announcement again, then a device that got a real runtime.
    db.store.devices_put(&[report(&one, "gw/cell", true), report(&two, "press", false)]).await.unwrap();
    assert_eq!(simulated(&[one, two]).await, ["gw/cell"]);
}

// GW-02, invariant 8
pub(crate) async fn writes_many_reports_in_one_transaction(db: Database) {
    use DevicePut::{Created, GatewayNotFound, Updated};

    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let write = |client: &margo::ids::ClientId, device: &str, site: &str, second| {
        let (capabilities, body) = capabilities(device, &json!({ "site": site }));
        DeviceWrite { key: key(client, device), capabilities, body, received_at: at(second) }
    };
    // Of two clients, mixed: a child before and after its gateway, and one device twice.
    let reports = [
        write(&two, "gw/cell", "ulm", 1),
        write(&one, "press", "ulm", 2),
        write(&two, "gw", "ulm", 3),
        write(&two, "gw/cell", "ulm", 4),
        write(&one, "press", "graz", 5),
        write(&one, "press", "graz", 6),
    ];
    let outcomes = db.store.devices_put(&reports).await.unwrap();
    assert_eq!(outcomes, [GatewayNotFound, Created, Created, Created, Updated, Updated]);
    assert_eq!(found(&db.store, "site=graz").await, ["press"]);
    let press = db.store.device_get(&key(&one, "press")).await.unwrap().unwrap();
    assert_eq!((press.first_reported_at, press.reported_at), (at(2), at(6)));
    assert_eq!(db.store.audit_page(Some("device/client-00001/press"), None, 10).await.unwrap().len(), 2);
    assert_eq!(db.store.audit_page(Some("device/client-00002/gw/cell"), None, 10).await.unwrap().len(), 1);
    assert!(db.store.audit_verify().await.unwrap().is_ok());

    // A report that cannot be written fails the whole batch: the caller retries one by one.
    let strangers = [write(&one, "press", "brno", 7), write(&client(9), "press", "brno", 7)];
    let error = db.store.devices_put(&strangers).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    assert_eq!(found(&db.store, "site=brno").await, Vec::<String>::new());
    assert_eq!(db.store.devices_put(&[]).await.unwrap(), []);
}

// GEN-11
pub(crate) async fn separates_devices_of_two_clients(db: Database) {
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    report_device(&db.store, &one, "press", &json!({ "of": "one" })).await;
    report_device(&db.store, &two, "press", &json!({ "of": "two" })).await;
    assert_eq!(db.store.devices_count().await.unwrap(), 2);
    assert!(db.store.device_delete(&actor(), &key(&one, "press"), at(1)).await.unwrap());
    assert!(db.store.device_get(&key(&two, "press")).await.unwrap().is_some());
    assert!(db.store.device_get(&key(&one, "press")).await.unwrap().is_none());
}

// GW-02
pub(crate) async fn requires_the_gateway_before_its_children(db: Database) {
    let client = accept(&db.store, 1).await;
    let child = key(&client, "gw/cell/press");
    let (document, body) = capabilities("gw/cell/press", &json!({}));
    let answer = db.store.device_put(&child, &document, &body, T0).await.unwrap();
    assert_eq!(answer, DevicePut::GatewayNotFound);
    assert_eq!(db.store.devices_count().await.unwrap(), 0);
    report_device(&db.store, &client, "gw", &json!({})).await;
    report_device(&db.store, &client, "gw/cell", &json!({})).await;
    assert_eq!(db.store.device_put(&child, &document, &body, T0).await.unwrap(), DevicePut::Created);
}

pub(crate) async fn removes_a_gateway_with_its_children_only(db: Database) {
    let client = accept(&db.store, 1).await;
    for device in ["gw", "gw/a", "gw/a/b", "gw_a", "gwx", "GW", "GW/a"] {
        report_device(&db.store, &client, device, &json!({ "here": "yes" })).await;
    }
    assert!(db.store.device_delete(&actor(), &key(&client, "gw"), at(1)).await.unwrap());
    let mut left = found(&db.store, "here=yes").await;
    left.sort();
    assert_eq!(left, ["GW", "GW/a", "gw_a", "gwx"]);
    assert!(!db.store.device_delete(&actor(), &key(&client, "gw"), at(1)).await.unwrap());
    let records = db.store.audit_page(Some("device/client-00001/gw/a/b"), None, 1).await.unwrap();
    assert_eq!(records[0].action, "device.remove");
}

pub(crate) async fn labels_a_device(db: Database) {
    let key = key(&accept(&db.store, 1).await, "press");
    report_device(&db.store, &key.client, "press", &json!({ "site": "berlin" })).await;
    let device = label(&db.store, &key, &[("ring", Some("canary")), ("owner", Some("me"))]).await;
    assert_eq!(device.revision, 2);
    let device = label(&db.store, &key, &[("ring", Some("broad")), ("owner", None), ("never", None)]).await;
    assert_eq!(device.revision, 3);
    assert_eq!(device.operator_labels, IndexMap::from([("ring".to_owned(), "broad".to_owned())]));
    assert_eq!(db.store.device_get(&key).await.unwrap(), Some(device));
    assert_eq!(label(&db.store, &key, &[("ring", Some("broad"))]).await.revision, 3, "nothing new, nothing written");
    assert_eq!(found(&db.store, "ring=canary").await, Vec::<String>::new());
    assert_eq!(found(&db.store, "ring=broad,site=berlin,!owner").await, ["press"]);
    // A new report does not change the operator's labels.
    report_device(&db.store, &key.client, "press", &json!({ "site": "ulm" })).await;
    assert_eq!(found(&db.store, "ring=broad,site=ulm").await, ["press"]);
}

pub(crate) async fn rejects_labels_for_an_older_revision(db: Database) {
    let key = key(&accept(&db.store, 1).await, "press");
    let labels = IndexMap::from([("ring".to_owned(), Some("canary".to_owned()))]);
    let error = db.store.device_labels_set(&actor(), &key, &labels, None, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    report_device(&db.store, &key.client, "press", &json!({})).await;
    let error = db.store.device_labels_set(&actor(), &key, &labels, Some(4), T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { expected: 4, current: 1, .. }), "{error:?}");
    assert_eq!(found(&db.store, "ring").await, Vec::<String>::new());
}

// CAP-08
pub(crate) async fn finds_devices_by_reported_and_operator_labels(db: Database) {
    let client = accept(&db.store, 1).await;
    report_device(
        &db.store,
        &client,
        "a",
        &json!({ "site": "berlin", "lines": ["1", "2"], "cores": 4, "spare": false }),
    )
    .await;
    report_device(&db.store, &client, "b", &json!({ "site": "ulm", "lines": [2, 3], "cores": 8.5 })).await;
    report_device(&db.store, &client, "c", &json!({})).await;
    label(&db.store, &key(&client, "c"), &[("site", Some("berlin"))]).await;
    label(&db.store, &key(&client, "b"), &[("site", Some("hamburg"))]).await;
    let check = async |selector: &str, expected: &[&str]| {
        assert_eq!(found(&db.store, selector).await, expected, "{selector}");
    };
    check("", &["a", "b", "c"]).await;
    check("site=berlin", &["a", "c"]).await;
    check("site in (ulm,berlin)", &["a", "b", "c"]).await;
    check("site=hamburg", &["b"]).await;
    check("site=ulm", &["b"]).await;
    check("lines=2", &["a", "b"]).await;
    check("lines in (1,3),cores=4", &["a"]).await;
    check("cores=8.5", &["b"]).await;
    check("spare=false", &["a"]).await;
    check("spare", &["a"]).await;
    check("!spare", &["b", "c"]).await;
    check("site!=berlin", &["b"]).await;
    check("lines notin (1)", &["b", "c"]).await;
    check("nothing", &[]).await;
    check("site in (1,2,3,4,5,6,7,8,9,ulm)", &["b"]).await;
    check("cores=4,site=ulm", &[]).await;
}

pub(crate) async fn pages_devices_of_one_client(db: Database) {
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    for device in ["a", "b", "c"] {
        report_device(&db.store, &one, device, &json!({ "x": "y" })).await;
        report_device(&db.store, &two, device, &json!({ "x": "y" })).await;
    }
    for selector in ["", "x=y", "x", "x!=z", "x=y,x"] {
        let filter = DeviceFilter { client: Some(two.clone()), ..filter(selector) };
        let first = db.store.devices_page(&filter, None, 2).await.unwrap();
        let second = db.store.devices_page(&filter, Some(&first[1].key), 2).await.unwrap();
        let keys: Vec<_> = [first, second].concat().into_iter().map(|device| device.key).collect();
        assert_eq!(keys, ["a", "b", "c"].map(|device| key(&two, device)), "{selector}");
    }
}

pub(crate) async fn pages_ten_thousand_devices_by_label(db: Database) {
    let client = accept(&db.store, 1).await;
    db.tamper(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO devices (client_id, device_id, capabilities, reported_labels, operator_labels, first_reported_at,
                              reported_at, revision)
         SELECT 'client-00001', 'd' || CAST(100000 + i AS TEXT), (SELECT body FROM manifests),
                '{\"line\":[\"' || CAST(i % 100 AS TEXT) || '\"],\"kind\":[\"press\"]}', '{}', 1, 1, 1 FROM n",
    )
    .await;
    db.tamper(
        "INSERT INTO device_labels (client_id, device_id, source, label_key, label_value)
         SELECT client_id, device_id, 'device', 'line', CAST((CAST(SUBSTR(device_id, 2) AS BIGINT) - 100000) % 100 AS TEXT)
         FROM devices",
    )
    .await;
    db.tamper(
        "INSERT INTO device_labels (client_id, device_id, source, label_key, label_value)
         SELECT client_id, device_id, 'device', 'kind', 'press' FROM devices",
    )
    .await;
    assert_eq!(db.store.devices_count().await.unwrap(), 10_000);
    for (selector, expected) in
        [("line=7", 100), ("line in (7,8),kind=press", 200), ("kind=press", 10_000), ("line!=7", 9_900)]
    {
        let (filter, mut after, mut count) = (filter(selector), None, 0);
        loop {
            let page = db.store.devices_page(&filter, after.as_ref(), 1_000).await.unwrap();
            assert!(page.iter().all(|device| device.key.client == client));
            assert!(page.iter().all(|device| after.as_ref().is_none_or(|after| device.key > *after)), "{selector}");
            count += page.len();
            match page.last() {
                Some(last) if page.len() == 1_000 => after = Some(last.key.clone()),
                _ => break,
            }
        }
        assert_eq!(count, expected, "{selector}");
    }
}

pub(crate) async fn indexes_many_labels(db: Database) {
    let client = accept(&db.store, 1).await;
    let labels: serde_json::Map<_, _> =
        (0..256).map(|number| (format!("k{number}"), json!("v".repeat(1024)))).collect();
    report_device(&db.store, &client, "press", &json!(labels)).await;
    assert_eq!(found(&db.store, &format!("k255={}", "v".repeat(1024))).await, ["press"]);
    report_device(&db.store, &client, "press", &json!({ "k0": "v" })).await;
    assert_eq!(found(&db.store, "k255").await, Vec::<String>::new());
}

//! Databases of earlier versions, kept as SQL text, opened with the current code.

use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::digest::Digest;
use margo::ids::{ClientId, DeploymentId};
use margo::status::{DeploymentStatus, State};
use margrave_core::deployment_state::{DeploymentState, state_of};
use margrave_core::events::{kinds, message};
use margrave_core::model::{ClientState, Desired, DeviceKey};
use margrave_core::skips::SkipReason;
use margrave_store::{EventFilter, EventOrder, EventRange, Store, StoreOptions};
use serde_json::json;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _, Row as _};
use std::collections::{BTreeMap, BTreeSet};
use tempfile::TempDir;
use uuid::Uuid;

const FORMAT_1: &str = include_str!("../fixtures/format-1/schema-and-rows.sql");

const DEPLOYMENT: &str = "00000000-0000-4000-8000-000000000001";
const FAILED: &str = "00000000-0000-4000-8000-000000000003";
const REMOVAL: &str = "00000000-0000-4000-8000-0000000000a2";
const TOKEN: &str = "00000000-0000-4000-8000-0000000000b1";
const ROLLOUT: &str = "00000000-0000-4000-8000-0000000000a1";

/// Builds a database from this text; returns its folder and address.
async fn build(text: &'static str) -> (TempDir, String) {
    sqlx::any::install_default_drivers();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("margrave.db").display());
    let mut connection = AnyConnection::connect(&format!("{url}?mode=rwc")).await.unwrap();
    connection.execute(text).await.unwrap();
    connection.close().await.unwrap();
    (folder, url)
}

async fn open(url: &str) -> Store {
    let opened = Store::open(&StoreOptions { url: url.to_owned(), readers: 1 }).await;
    opened.expect("a database of format 1 can be opened; tests/fixtures/format-1/README.md says what to do if not")
}

/// The number of rows of each table.
async fn counts(url: &str) -> BTreeMap<String, i64> {
    let mut connection = AnyConnection::connect(url).await.unwrap();
    let tables = sqlx::query("SELECT name FROM sqlite_master WHERE type = 'table'");
    let tables = tables.fetch_all(&mut connection).await.unwrap();
    let mut counts = BTreeMap::new();
    for table in tables {
        let table: String = table.get(0);
        let count = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
        counts.insert(table, sqlx::query(count).fetch_one(&mut connection).await.unwrap().get(0));
    }
    connection.close().await.unwrap();
    counts
}

#[tokio::test]
async fn keeps_all_rows_of_a_database_of_format_1() {
    let (_folder, url) = build(FORMAT_1).await;
    let before = counts(&url).await;
    let empty: Vec<_> = before.iter().filter(|(_, count)| **count == 0).collect();
    assert!(empty.is_empty(), "every table has rows: {empty:?}");
    for _ in 0..2 {
        open(&url).await.close().await;
        let after = counts(&url).await;
        // Later migrations add tables, and a row to the list of migrations.
        for (table, count) in &before {
            assert!(after.get(table) >= Some(count), "{table} lost rows");
        }
    }
}

#[tokio::test]
async fn reads_skips_failures_events_and_drafts_of_format_1() {
    let (_folder, url) = build(FORMAT_1).await;
    let store = open(&url).await;
    let removal = store.rollout_get(REMOVAL.parse().unwrap()).await.unwrap().unwrap();
    let skipped: BTreeSet<&str> = removal.skipped.iter().map(|(_, reason)| reason.kind()).collect();
    assert_eq!((removal.skipped.len(), skipped.len()), (16, 16), "every kind once");
    for (_, reason) in &removal.skipped {
        assert!(!matches!(reason, SkipReason::Other { .. }), "{reason:?}");
        assert!(!reason.to_string().is_empty());
    }

    let view = store.deployment_get(FAILED.parse().unwrap()).await.unwrap().unwrap();
    let reported = view.reported.unwrap();
    let failed = reported.retried_failure().unwrap();
    let status = DeploymentStatus::read(&failed.body).unwrap().document;
    assert_eq!((reported.state, failed.attempts, status.error.unwrap().code.as_str()), (State::Installing, 1, "E301"));
    let history = store.status_history(view.deployment.id).await.unwrap();
    assert_eq!(history.iter().map(|one| one.state).collect::<Vec<_>>(), [State::Installing, State::Failed]);
    let offline_before = margrave_core::time::Timestamp(0);
    let state = state_of(&view.deployment, Some(&reported), view.last_seen_at, offline_before);
    assert_eq!(state, DeploymentState::Failed);

    let range = EventRange::ALL;
    let events = store.events_page(&EventFilter::default(), range, EventOrder::OldestFirst, 100).await.unwrap();
    let sentences: Vec<String> =
        events.iter().map(|event| message(&event.what.kind, &event.what.about, event.what.detail.as_ref())).collect();
    assert_eq!(events.len(), 6);
    assert!(sentences[4].contains("image not found"), "{sentences:?}");
    for event in &events {
        assert!(kinds().any(|kind| kind == event.what.kind), "{}", event.what.kind);
    }

    let drafts = store.drafts(TOKEN.parse().unwrap(), 10).await.unwrap();
    let body: serde_json::Value = serde_json::from_str(&drafts[0].body).unwrap();
    assert_eq!((&body["kind"], &body["values"]["greeting"]), (&json!("create"), &json!("hello")));
    store.close().await;
}

#[tokio::test]
async fn reads_a_database_of_format_1() {
    let (_folder, url) = build(FORMAT_1).await;
    let store = open(&url).await;
    let client: ClientId = "press-07".parse().unwrap();
    let found = store.client_get(&client).await.unwrap().unwrap();
    assert_eq!((found.state, found.note.as_deref()), (ClientState::Accepted, Some("hall 3")));

    let key = DeviceKey { client: client.clone(), device: "press-07".parse().unwrap() };
    let device = store.device_get(&key).await.unwrap().unwrap();
    assert_eq!(device.operator_labels.get("line").map(String::as_str), Some("3"));
    let capabilities = DeviceCapabilities::read(&device.capabilities, UnknownTypes::Refuse).unwrap().document;
    assert_eq!(capabilities.labels["kind"], "press");

    let (version, digest, body) = store.manifest(&client).await.unwrap().unwrap();
    assert_eq!((version, digest), (3, Digest::of(&body)));

    let id: DeploymentId = DEPLOYMENT.parse().unwrap();
    let view = store.deployment_get(id).await.unwrap().unwrap();
    let (deployment, reported) = (view.deployment, view.reported.unwrap());
    assert_eq!((deployment.desired, deployment.version.as_str()), (Desired::Present, "1.0.0"));
    assert_eq!(deployment.values["greeting"], json!("hello"));
    assert_eq!((reported.state, reported.adopted_version), (State::Installed, 3));
    let yaml = store.deployment_document(id, 1).await.unwrap().unwrap();
    assert_eq!(Digest::of(&yaml), deployment.yaml_digest);
    assert_eq!(store.deployment_revisions(id).await.unwrap().len(), 1);

    let rollout: Uuid = ROLLOUT.parse().unwrap();
    assert_eq!(deployment.rollout, rollout);
    let targets = store.rollout_targets(rollout).await.unwrap();
    assert_eq!((targets.len(), targets[0].deployment), (3, id));
    let (values, sensitive) = store.rollout_values(rollout).await.unwrap().unwrap();
    assert_eq!((&values["greeting"], sensitive), (&json!("hello"), false));

    let records = store.audit_page(None, None, 10).await.unwrap();
    let actions: Vec<_> = records.iter().map(|record| record.action.as_str()).collect();
    assert_eq!(actions, ["token.create", "device.label", "client.create"]);
    assert_eq!(store.audit_verify().await.unwrap(), Ok(3));
    store.close().await;
}

//! Finding objects by the beginning of an id or by name.

use crate::fixtures::{T0, accept, actor, at, client, deploy, key, report_device};
use crate::harness::Database;
use margrave_core::model::ApiToken;
use margrave_core::names::IdRange;
use margrave_store::{IdKind, NamedId, SessionOwner, SignedIn};
use serde_json::json;
use sqlx::{AssertSqlSafe, Executor as _, Row as _};
use uuid::Uuid;

fn range(prefix: &str) -> IdRange {
    IdRange::starting_with(prefix).unwrap()
}

fn ids(found: &[NamedId]) -> Vec<u128> {
    found.iter().map(|one| one.id.as_u128()).collect()
}

pub(crate) async fn finds_objects_by_the_beginning_of_their_id(db: Database) {
    const LOW: u128 = 0x3f2a_0000 << 96;
    const HIGH: u128 = (0x3f2a_ffff << 96) | (u128::MAX >> 32);
    let store = &db.store;
    for (number, id) in [LOW - 1, LOW, HIGH, HIGH + 1].into_iter().enumerate() {
        let client = accept(store, number).await;
        deploy(store, &client, id, "hello").await;
    }
    let find = async |kind, prefix, limit| store.ids_in_range(kind, range(prefix), at(1), limit).await.unwrap();
    let found = find(IdKind::Deployment, "3f2a", 10).await;
    assert_eq!(ids(&found), [LOW, HIGH]);
    assert_eq!(found[0].name, "digitron");
    assert_eq!(ids(&find(IdKind::Deployment, "3F2A", 1).await), [LOW], "at most so many, in any case of letters");
    assert_eq!(ids(&find(IdKind::Deployment, "3f2a0000-0", 10).await), [LOW]);
    assert_eq!(ids(&find(IdKind::Deployment, "3f2affff-f", 10).await), [HIGH]);
    assert!(find(IdKind::Deployment, "3f2a1", 10).await.is_empty());
    let rollout = store.rollouts_page(None, 1).await.unwrap()[0].id;
    let found = find(IdKind::Rollout, &rollout.to_string()[..8], 10).await;
    assert!(found.iter().any(|one| one.id == rollout && one.name == "digitron"), "{found:?}");
}

pub(crate) async fn finds_tokens_and_active_sessions_by_the_beginning_of_their_id(db: Database) {
    let store = &db.store;
    let token = ApiToken {
        id: Uuid::from_u128(0xa1 << 120),
        name: "ci".into(),
        created_at: T0,
        expires_at: None,
        revoked_at: None,
    };
    store.token_create(&actor(), &token, "hash").await.unwrap();
    for (number, expires_at) in [(1_u128, at(5)), (2, at(500))] {
        let id = Uuid::from_u128((0xb1 << 120) + number);
        let secret_hash = number.to_string();
        let owner = SessionOwner::Token(token.id);
        let session = SignedIn { id, secret_hash: &secret_hash, owner, address: "::1", browser: "b", expires_at };
        store.session_create(&actor(), session, T0).await.unwrap();
    }
    let find = async |kind, prefix| store.ids_in_range(kind, range(prefix), at(10), 10).await.unwrap();
    assert_eq!(find(IdKind::Token, "a1").await, [NamedId { id: token.id, name: "ci".into() }]);
    assert!(find(IdKind::Token, "b1").await.is_empty());
    let sessions = find(IdKind::Session, "b1").await;
    assert_eq!(ids(&sessions), [(0xb1 << 120) + 2], "the other has expired");
    assert_eq!(sessions[0].name, "ci");
}

pub(crate) async fn finds_devices_and_names_beside_a_name(db: Database) {
    let store = &db.store;
    for (number, device) in ["press-01", "press-02", "press-01", "lathe"].into_iter().enumerate() {
        let client = accept(store, number).await;
        report_device(store, &client, device, &json!({})).await;
    }
    let found = store.devices_named("press-01", 10).await.unwrap();
    assert_eq!(found, [key(&client(0), "press-01"), key(&client(2), "press-01")]);
    assert_eq!(store.devices_named("press-01", 1).await.unwrap().len(), 1);
    assert!(store.devices_named("press", 10).await.unwrap().is_empty(), "the whole name");
    let mut near = store.device_names_near("press-01", 2).await.unwrap();
    near.sort_unstable();
    assert_eq!(near, ["lathe", "press-01", "press-01"], "bounded on each side");
    let near = store.client_names_near("client-00001x", 1).await.unwrap();
    assert_eq!(near, ["client-00001", "client-00002"]);
}

/// The conditions of the lookups lead through an index on PostgreSQL as well; the plan on SQLite is tested beside the
/// statements.
pub(crate) async fn finds_names_through_an_index(db: Database) {
    if !db.url.starts_with("postgres") {
        return;
    }
    let mut connection = db.connection().await;
    // Tables of a test are small, so that reading all of it would be cheaper.
    connection.execute("SET enable_seqscan = off").await.unwrap();
    let ids = range("3f2a");
    let between = format!("id BETWEEN '{}' AND '{}' ORDER BY id LIMIT 11", ids.first, ids.last);
    for (select, index) in [
        (format!("SELECT id FROM deployments WHERE {between}"), "deployments_pkey"),
        (format!("SELECT id FROM rollouts WHERE {between}"), "rollouts_pkey"),
        (format!("SELECT id FROM tokens WHERE {between}"), "tokens_pkey"),
        (
            "SELECT client_id FROM devices WHERE device_id = 'a' ORDER BY client_id LIMIT 11".to_owned(),
            "devices_by_name",
        ),
        (
            "SELECT device_id FROM devices WHERE device_id < 'a' ORDER BY device_id DESC LIMIT 9".to_owned(),
            "devices_by_name",
        ),
    ] {
        let rows = connection.fetch_all(AssertSqlSafe(format!("EXPLAIN {select}"))).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(plan.iter().any(|step| step.contains("Index") && step.contains(index)), "{select}: {plan:?}");
        assert!(plan.iter().any(|step| step.contains("Index Cond")), "{select}: {plan:?}");
    }
}

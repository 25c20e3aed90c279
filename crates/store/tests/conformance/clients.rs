//! Clients, their first manifest, and what each of them may fetch.

use crate::fixtures::{T0, accept, actor, at, client, deploy};
use crate::harness::Database;
use margo::digest::Digest;
use margrave_core::model::ClientState;
use margrave_store::{ClientSearch, SeenAt, StoreError};

// DS-01, DS-02
pub(crate) async fn creates_the_first_manifest_of_a_new_client(db: Database) {
    for (number, state) in [ClientState::Pending, ClientState::Accepted].into_iter().enumerate() {
        let id = client(number);
        let (created, head) = db.store.client_create(&actor(), &id, state, Some("press"), T0).await.unwrap();
        assert_eq!((created.state, created.revision, created.manifest_version), (state, 1, 1));
        assert_eq!(created.note.as_deref(), Some("press"));
        assert_eq!(created.last_seen_at, None);
        let (version, digest, body) = db.store.manifest(&id).await.unwrap().unwrap();
        assert_eq!(String::from_utf8(body.clone()).unwrap(), r#"{"bundle":null,"deployments":[],"manifestVersion":1}"#);
        assert_eq!((version, &digest), (1, &Digest::of(&body)));
        assert_eq!((head.version, head.digest, head.state, head.client), (1, digest, state, id.clone()));
        assert_eq!(db.store.client_get(&id).await.unwrap(), Some(created));
    }
    assert_eq!(db.store.client_get(&client(9)).await.unwrap(), None);
    assert_eq!(db.store.manifest(&client(9)).await.unwrap(), None);
    let records = db.store.audit_page(Some("client/client-00001"), None, 10).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].action.as_str(), records[0].actor.as_str()), ("client.create", "token:test"));
    assert_eq!(records[0].comment.as_deref(), Some("to see"));
}

pub(crate) async fn rejects_a_duplicate_client(db: Database) {
    let id = accept(&db.store, 1).await;
    let error = db.store.client_create(&actor(), &id, ClientState::Pending, None, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    assert_eq!(db.store.client_get(&id).await.unwrap().unwrap().state, ClientState::Accepted);
}

pub(crate) async fn records_pending_clients_once_and_up_to_a_limit(db: Database) {
    let (store, one, two) = (&db.store, client(1), client(2));
    let head = store.client_record_pending(&actor(), &one, 1, T0).await.unwrap().unwrap();
    assert_eq!((head.state, head.version), (ClientState::Pending, 1));
    assert_eq!(store.client_record_pending(&actor(), &one, 1, at(1)).await.unwrap(), Some(head), "it is already known");
    assert_eq!(store.client_record_pending(&actor(), &two, 1, at(1)).await.unwrap(), None, "the limit is reached");
    assert_eq!(store.client_get(&two).await.unwrap(), None);
    let (accepted, head) =
        store.client_create(&actor(), &one, ClientState::Accepted, Some("hall 3"), at(2)).await.unwrap();
    assert_eq!((accepted.state, accepted.revision, head.state), (ClientState::Accepted, 2, ClientState::Accepted));
    assert_eq!(accepted.note.as_deref(), Some("hall 3"));
    let actions: Vec<_> =
        store.audit_page(Some("client/client-00001"), None, 10).await.unwrap().into_iter().map(|r| r.action).collect();
    assert_eq!(actions, ["client.accept", "client.request"]);
    assert!(store.client_record_pending(&actor(), &two, 1, at(3)).await.unwrap().is_some(), "below the limit again");
    store.client_set_state(&actor(), &two, ClientState::Decommissioned, None, at(4)).await.unwrap();
    let kept = store.client_record_pending(&actor(), &two, 1, at(5)).await.unwrap().unwrap();
    assert_eq!(kept.state, ClientState::Decommissioned, "connecting again does not restore a decommissioned client");
    let again = store.client_create(&actor(), &two, ClientState::Accepted, None, at(6)).await.unwrap_err();
    assert!(matches!(again, StoreError::Exists { .. }), "{again:?}");
}

pub(crate) async fn finds_clients_by_state_and_part_of_their_id(db: Database) {
    let store = &db.store;
    for number in 1..=3 {
        accept(store, number).await;
    }
    store.client_set_state(&actor(), &client(2), ClientState::Decommissioned, None, at(1)).await.unwrap();
    let found = async |state: Option<ClientState>, text: &str| {
        let search = ClientSearch { state, text: Some(text.to_owned()).filter(|text| !text.is_empty()) };
        let found = store.clients_search(&search, None, 10).await.unwrap();
        found.into_iter().map(|client| client.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(None, "").await.len(), 3);
    assert_eq!(found(Some(ClientState::Decommissioned), "").await, ["client-00002"]);
    assert_eq!(found(None, "ENT-00003").await, ["client-00003"]);
    assert!(found(Some(ClientState::Decommissioned), "00003").await.is_empty());
    assert!(found(None, "_").await.is_empty(), "not a wildcard");
    let counts = store.clients_counted(Some("client-")).await.unwrap();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("accepted", 2), ("decommissioned", 1)]);
    assert!(store.devices_first(&[client(1), client(2)]).await.unwrap().is_empty());
}

pub(crate) async fn moves_a_client_between_states(db: Database) {
    let id = client(1);
    db.store.client_create(&actor(), &id, ClientState::Pending, None, T0).await.unwrap();
    let (changed, head) =
        db.store.client_set_state(&actor(), &id, ClientState::Accepted, Some(1), at(1)).await.unwrap();
    assert_eq!((changed.state, changed.revision, head.state), (ClientState::Accepted, 2, ClientState::Accepted));
    // Setting the same state changes nothing and records nothing.
    let (same, _) = db.store.client_set_state(&actor(), &id, ClientState::Accepted, None, at(2)).await.unwrap();
    assert_eq!(same, changed);
    let (decommissioned, head) =
        db.store.client_set_state(&actor(), &id, ClientState::Decommissioned, None, at(3)).await.unwrap();
    assert_eq!(
        (decommissioned.state, head.state, head.version),
        (ClientState::Decommissioned, ClientState::Decommissioned, 1)
    );
    let actions: Vec<_> = db
        .store
        .audit_page(Some("client/client-00001"), None, 10)
        .await
        .unwrap()
        .into_iter()
        .map(|r| r.action)
        .collect();
    assert_eq!(actions, ["client.decommission", "client.accept", "client.create"]);
    let error = db.store.client_set_state(&actor(), &client(2), ClientState::Accepted, None, T0).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
}

pub(crate) async fn rejects_a_state_for_an_older_revision(db: Database) {
    let id = accept(&db.store, 1).await;
    let error =
        db.store.client_set_state(&actor(), &id, ClientState::Decommissioned, Some(7), at(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { expected: 7, current: 1, .. }), "{error:?}");
    assert_eq!(db.store.client_get(&id).await.unwrap().unwrap().state, ClientState::Accepted);
}

pub(crate) async fn pages_clients_and_heads(db: Database) {
    for number in [3, 1, 2, 5, 4] {
        accept(&db.store, number).await;
    }
    let first = db.store.clients_page(None, 2).await.unwrap();
    let second = db.store.clients_page(Some(&first[1].id), 2).await.unwrap();
    let last = db.store.clients_page(Some(&second[1].id), 2).await.unwrap();
    let ids: Vec<_> = [first, second, last].concat().into_iter().map(|client| client.id).collect();
    assert_eq!(ids, (1..=5).map(client).collect::<Vec<_>>());
    let heads = db.store.heads_page(Some(&client(2)), 10).await.unwrap();
    assert_eq!(heads.len(), 3);
    assert!(heads.iter().all(|head| head.version == 1 && head.state == ClientState::Accepted));
    let (client, head) = db.store.client_with_head(&client(3)).await.unwrap().unwrap();
    assert_eq!((client.id, head), (heads[0].client.clone(), heads[0].clone()));
}

pub(crate) async fn keeps_the_latest_last_seen_time(db: Database) {
    let id = accept(&db.store, 1).await;
    let other = accept(&db.store, 2).await;
    let seen = |client: &margo::ids::ClientId, seconds| SeenAt { client: client.clone(), at: at(seconds) };
    db.store.seen_write(&[seen(&id, 10), seen(&id, 30), seen(&id, 20), seen(&other, 5)]).await.unwrap();
    assert_eq!(db.store.client_get(&id).await.unwrap().unwrap().last_seen_at, Some(at(30)));
    db.store.seen_write(&[seen(&id, 25), seen(&other, 40)]).await.unwrap();
    assert_eq!(db.store.client_get(&id).await.unwrap().unwrap().last_seen_at, Some(at(30)));
    assert_eq!(db.store.client_get(&other).await.unwrap().unwrap().last_seen_at, Some(at(40)));
    // More than one statement's worth, and the remainder.
    let many: Vec<_> = (0..333).map(|number| seen(&client(number), 50)).collect();
    db.store.seen_write(&many).await.unwrap();
    assert_eq!(db.store.client_get(&other).await.unwrap().unwrap().last_seen_at, Some(at(50)));
    db.store.seen_write(&[]).await.unwrap();
    assert_eq!(db.store.client_get(&id).await.unwrap().unwrap().revision, 1, "the client row is unchanged");
}

pub(crate) async fn reads_the_heads_of_some_clients(db: Database) {
    let mut all = Vec::new();
    for number in 0..60 {
        all.push(accept(&db.store, number).await);
    }
    let mut asked = all[..55].to_vec();
    asked.push(client(99));
    let mut heads = db.store.heads_of(&asked).await.unwrap();
    heads.sort_by(|one, other| one.client.cmp(&other.client));
    assert_eq!(heads, db.store.heads_page(None, 55).await.unwrap());
    assert_eq!(db.store.heads_of(&[]).await.unwrap(), []);
}

pub(crate) async fn lists_heads_changed_since(db: Database) {
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    accept(&db.store, 3).await;
    let start = db.store.audit_newest_seq().await.unwrap();
    assert_eq!(db.store.heads_changed_since(start, 10).await.unwrap(), (start, vec![]));
    // A manifest published, a policy changed, and a record about no client.
    deploy(&db.store, &one, 1, "hello").await;
    db.store.client_set_state(&actor(), &two, ClientState::Decommissioned, None, at(2)).await.unwrap();
    db.store.audit_append(&actor(), "server.start", "server", None, at(3)).await.unwrap();
    let end = db.store.audit_newest_seq().await.unwrap();
    let (place, mut heads) = db.store.heads_changed_since(start, 10).await.unwrap();
    heads.sort_by(|one, other| one.client.cmp(&other.client));
    assert_eq!(place, end);
    let mut expected = db.store.heads_of(&[one, two]).await.unwrap();
    expected.sort_by(|one, other| one.client.cmp(&other.client));
    assert_eq!(heads, expected);
    assert_eq!((heads[0].version, heads[1].state), (2, ClientState::Decommissioned));
    // Reading in small steps gives the same result.
    let (mut place, mut seen) = (start, Vec::new());
    while place < end {
        let (next, heads) = db.store.heads_changed_since(place, 1).await.unwrap();
        assert!(next > place);
        place = next;
        seen.extend(heads);
    }
    seen.sort_by(|one, other| one.client.cmp(&other.client));
    seen.dedup();
    assert_eq!(seen, heads);
}

use super::ManifestCache;
use margo::digest::Digest;
use margo::ids::ClientId;
use margrave_core::model::ClientState;
use margrave_core::time::Timestamp;
use margrave_store::{Head, SeenAt};

fn id(text: &str) -> ClientId {
    text.parse().unwrap()
}

fn head(client: &str, version: u64, state: ClientState) -> Head {
    Head { client: id(client), state, revision: 1, version, digest: Digest::of(&version.to_be_bytes()) }
}

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let heads = ManifestCache::default();
    heads.put(head("press", 7, ClientState::Accepted));
    heads.put(head("press", 6, ClientState::Accepted));
    assert_eq!(heads.get(&id("press")).unwrap().version, 7);
    heads.put(head("press", 8, ClientState::Accepted));
    assert_eq!(heads.get(&id("press")).unwrap().version, 8);
}

#[test]
fn accepts_a_state_change_at_the_same_version() {
    let heads = ManifestCache::default();
    heads.put(head("press", 7, ClientState::Accepted));
    heads.put(head("press", 7, ClientState::Decommissioned));
    assert_eq!(heads.get(&id("press")).unwrap().state, ClientState::Decommissioned);
}

#[test]
fn a_concurrent_batch_does_not_re_enable_a_decommissioned_client() {
    let heads = ManifestCache::default();
    let (accepted, published) = (head("press", 7, ClientState::Accepted), head("press", 8, ClientState::Accepted));
    let decommissioned = Head { revision: 2, ..head("press", 7, ClientState::Decommissioned) };
    heads.put(accepted);
    heads.put(published.clone());
    // Its transaction saw version 7; version 8 stays.
    heads.put(decommissioned);
    let held = heads.get(&id("press")).unwrap();
    assert_eq!(
        (held.state, held.version, held.digest.clone()),
        (ClientState::Decommissioned, 8, published.digest.clone())
    );
    heads.put(published);
    assert_eq!(heads.get(&id("press")).unwrap().state, ClientState::Decommissioned);
}

#[test]
fn an_unknown_client_has_no_head() {
    assert!(ManifestCache::default().get(&id("stranger")).is_none());
}

#[test]
fn returns_last_seen_times_once_and_only_newer_ones() {
    let heads = ManifestCache::default();
    heads.put(head("press", 1, ClientState::Accepted));
    heads.put(head("lathe", 1, ClientState::Accepted));
    heads.seen(&id("press"), Timestamp(20));
    heads.seen(&id("press"), Timestamp(10));
    heads.seen(&id("stranger"), Timestamp(10));
    assert_eq!(heads.last_seen(&id("press")), Some(Timestamp(20)));
    assert_eq!(heads.last_seen(&id("lathe")), None);
    assert_eq!(heads.drain_seen(), vec![SeenAt { client: id("press"), at: Timestamp(20) }]);
    assert_eq!(heads.drain_seen(), vec![]);
    heads.seen(&id("press"), Timestamp(21));
    assert_eq!(heads.drain_seen().len(), 1);
}

#[test]
fn concurrent_writers_lose_no_client() {
    let heads = ManifestCache::default();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let heads = &heads;
            scope.spawn(move || {
                for number in 0..2_000 {
                    heads.put(head(&format!("c{number}"), writer + 1, ClientState::Accepted));
                }
            });
        }
    });
    for number in 0..2_000 {
        assert_eq!(heads.get(&id(&format!("c{number}"))).unwrap().version, 4);
    }
}

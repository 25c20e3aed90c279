use super::*;
use crate::machine::records::StatusEntry;
use margo::status::{DeploymentStatus, State};
use margrave_core::time::Timestamp;

fn accepted(version: u64) -> Accepted {
    let body = format!("{{\"bundle\":null,\"deployments\":[],\"manifestVersion\":{version}}}");
    Accepted {
        version,
        etag: Some("\"e\"".to_owned()),
        body_digest: Digest::of(body.as_bytes()),
        body,
        accepted_at: Timestamp(1_750_000_000_000_000),
        previous: vec![Digest::of(b"before")],
    }
}

fn reconciled(version: u64) -> Reconciled {
    let Accepted { etag, body_digest, accepted_at, .. } = accepted(version);
    Reconciled { version, etag, body_digest, reconciled_at: accepted_at }
}

fn statuses(state: State) -> StatusBook {
    let id = "00000000-0000-4000-8000-000000000001".parse().unwrap();
    let status = DeploymentStatus {
        deployment_id: id,
        device_id: Some("gw/a".parse().unwrap()),
        adopted_manifest_version: u64::MAX,
        state,
        error: None,
        components: vec![],
    };
    let entry = StatusEntry { sequence: 1, digest: None, since: Timestamp(5_000_000), delivered: false, status };
    StatusBook { next_sequence: 2, entries: [(id, entry)].into_iter().collect() }
}

fn open() -> (tempfile::TempDir, StateDir) {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    (folder, state)
}

#[test]
fn what_is_written_is_read_again() {
    let (_folder, state) = open();
    let bytes: Arc<[u8]> = b"id: x\n".to_vec().into();
    let digest = Digest::of(&bytes);
    let devices = DevicesReported { devices: vec!["gw".parse().unwrap()] };
    let records = [
        Record::Content { digest: digest.clone(), bytes: bytes.clone() },
        Record::Accepted(accepted(u64::MAX)),
        Record::Reconciled(reconciled(4)),
        Record::Statuses(statuses(State::Installed)),
        Record::Devices(devices.clone()),
    ];
    state.persist(&records).unwrap();
    let Found { loaded, unreadable } = state.load();
    assert!(unreadable.is_empty());
    assert_eq!(loaded.accepted, Some(accepted(u64::MAX)));
    assert_eq!(loaded.reconciled, Some(reconciled(4)));
    assert_eq!(loaded.statuses, statuses(State::Installed));
    assert_eq!(loaded.devices, devices);
    assert_eq!(loaded.contents.get(&digest), Some(&bytes));
    state.forget(&[digest]);
    assert!(state.load().loaded.contents.is_empty());
}

#[test]
fn an_empty_folder_holds_nothing_and_complains_about_nothing() {
    let (_folder, state) = open();
    let Found { loaded, unreadable } = state.load();
    assert!(unreadable.is_empty() && loaded.accepted.is_none() && loaded.statuses.entries.is_empty());
}

/// Every way a file can be damaged.
fn damages(good: &[u8]) -> Vec<Vec<u8>> {
    let mut flipped = good.to_vec();
    flipped[good.len() / 2] ^= 1;
    let mut damages = vec![vec![], b"{}".to_vec(), vec![0; good.len()], vec![0xff; 40], flipped];
    damages.extend((1..good.len()).step_by(7).map(|length| good[..length].to_vec()));
    damages.push(
        b"margrave-record/1 sha256:0000000000000000000000000000000000000000000000000000000000000000\n{}\n".to_vec(),
    );
    damages
}

#[test]
fn a_damaged_acceptance_is_unknown_and_its_copy_serves_as_floor_only() {
    // DS-22, invariant 6
    let (folder, state) = open();
    state.persist(&[Record::Accepted(accepted(6))]).unwrap();
    state.persist(&[Record::Accepted(accepted(7))]).unwrap();
    let path = folder.path().join("accepted.json");
    for damage in damages(&std::fs::read(&path).unwrap()) {
        std::fs::write(&path, &damage).unwrap();
        let Found { loaded, unreadable } = state.load();
        assert_eq!(loaded.accepted, None, "{damage:?}");
        assert_eq!(loaded.floor.map(|floor| floor.version), Some(6));
        assert!(matches!(unreadable[..], [DiskError::Damaged { .. }]), "{damage:?}");
    }
}

#[test]
fn a_damaged_status_book_falls_back_to_the_copy_before_it() {
    let (folder, state) = open();
    state.persist(&[Record::Statuses(statuses(State::Installing))]).unwrap();
    state.persist(&[Record::Statuses(statuses(State::Installed))]).unwrap();
    let path = folder.path().join("statuses.json");
    for damage in damages(&std::fs::read(&path).unwrap()) {
        std::fs::write(&path, &damage).unwrap();
        assert_eq!(state.load().loaded.statuses, statuses(State::Installing));
    }
}

#[test]
fn damaged_content_is_left_out() {
    let (folder, state) = open();
    let bytes: Arc<[u8]> = b"id: x\n".to_vec().into();
    let digest = Digest::of(&bytes);
    state.persist(&[Record::Content { digest: digest.clone(), bytes: bytes.clone() }]).unwrap();
    std::fs::write(folder.path().join("content").join(format!("{}.yaml", digest.hex())), b"id: y\n").unwrap();
    let Found { loaded, unreadable } = state.load();
    assert!(loaded.contents.is_empty() && unreadable.len() == 1);
    state.persist(&[Record::Content { digest: digest.clone(), bytes }]).unwrap();
    assert!(state.load().loaded.contents.contains_key(&digest), "written again when it is wrong");
}

#[test]
fn a_crash_before_the_rename_leaves_the_old_record_and_the_rest_of_it_does_no_harm() {
    let (folder, state) = open();
    state.persist(&[Record::Accepted(accepted(6))]).unwrap();
    std::fs::write(folder.path().join("accepted.new"), b"margrave-record/1 sha2").unwrap();
    assert_eq!(state.load().loaded.accepted, Some(accepted(6)));
    state.persist(&[Record::Accepted(accepted(7))]).unwrap();
    assert_eq!(state.load().loaded.accepted, Some(accepted(7)));
}

#[test]
fn two_agents_cannot_share_a_state_folder() {
    let (folder, state) = open();
    let second = StateDir::open(folder.path()).unwrap_err();
    assert!(matches!(second, DiskError::Locked { .. }));
    assert!(second.to_string().contains("another agent"));
    drop(state);
    assert!(StateDir::open(folder.path()).is_ok());
}

#[test]
fn records_are_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, state) = open();
    state.persist(&[Record::Accepted(accepted(6))]).unwrap();
    let mode = std::fs::metadata(folder.path().join("accepted.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

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

fn statuses(state: State) -> StatusEntries {
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
    StatusEntries { next_sequence: 2, entries: [(id, entry)].into_iter().collect() }
}

fn open() -> (tempfile::TempDir, StateDir) {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    (folder, state)
}

#[test]
fn reads_back_written_records() {
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
fn loads_an_empty_folder_without_errors() {
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
fn uses_the_copy_of_a_damaged_acceptance_only_as_rollback_floor() {
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
fn a_damaged_status_record_falls_back_to_its_copy() {
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
fn skips_damaged_content() {
    let (folder, state) = open();
    let bytes: Arc<[u8]> = b"id: x\n".to_vec().into();
    let digest = Digest::of(&bytes);
    state.persist(&[Record::Content { digest: digest.clone(), bytes: bytes.clone() }]).unwrap();
    std::fs::write(folder.path().join("content").join(format!("{}.yaml", digest.hex())), b"id: y\n").unwrap();
    let Found { loaded, unreadable } = state.load();
    assert!(loaded.contents.is_empty() && unreadable.len() == 1);
    state.persist(&[Record::Content { digest: digest.clone(), bytes }]).unwrap();
    assert!(state.load().loaded.contents.contains_key(&digest), "written again if it is wrong");
}

#[test]
fn keeps_the_old_record_after_a_crash_before_the_rename() {
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
fn only_the_owner_can_read_records() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, state) = open();
    state.persist(&[Record::Accepted(accepted(6))]).unwrap();
    let mode = std::fs::metadata(folder.path().join("accepted.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// All files of a folder with their bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let inside = if path.is_dir() { files(&path) } else { vec![(path.clone(), std::fs::read(&path).unwrap())] };
        [(path, vec![])].into_iter().chain(inside)
    };
    paths.into_iter().flat_map(read).collect()
}

fn assert_refused(folder: &Path, found: &str) {
    let before = files(folder);
    let refusals = [
        StateDir::open(folder).map(|_| ()).unwrap_err(),
        prepare(folder).unwrap_err(),
        check_format(folder).unwrap_err(),
    ];
    for error in refusals {
        assert!(matches!(error, DiskError::UnknownFormat { .. }), "{error:?}");
        let message = error.to_string();
        let folder = folder.display().to_string();
        for part in [found, &folder, "Nothing was changed", "workloads keep running", "enroll this device again"] {
            assert!(message.contains(part), "`{part}` in {message}");
        }
    }
    assert_eq!(files(folder), before, "nothing is changed");
}

#[test]
fn refuses_a_state_folder_with_records_and_without_a_format() {
    let (folder, state) = open();
    state.persist(&[Record::Accepted(accepted(6))]).unwrap();
    drop(state);
    std::fs::remove_file(folder.path().join("format")).unwrap();
    assert_refused(folder.path(), "has no format version");
    std::fs::write(folder.path().join("format"), "").unwrap();
    assert_refused(folder.path(), "has no format version");
    // Records are recognized by their first word, not by their name.
    std::fs::rename(folder.path().join("accepted.json"), folder.path().join("other.json")).unwrap();
    assert_refused(folder.path(), "has no format version");
}

#[test]
fn refuses_a_state_folder_with_another_format() {
    let (folder, state) = open();
    drop(state);
    for (text, found) in [("2\n", "has format `2`"), ("nonsense", "has format `nonsense`")] {
        std::fs::write(folder.path().join("format"), text).unwrap();
        assert_refused(folder.path(), found);
    }
}

#[test]
fn writes_the_format_first_and_keeps_it() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/state");
    check_format(&folder).unwrap();
    assert!(!folder.exists(), "a check creates nothing");
    prepare(&folder).unwrap();
    assert_eq!(files(&folder), [(folder.join("format"), vec![]), (folder.join("format"), b"1\n".to_vec())]);
    let state = StateDir::open(&folder).unwrap();
    state.persist(&[Record::Accepted(accepted(6))]).unwrap();
    drop(state);
    let again = StateDir::open(&folder).unwrap();
    assert_eq!(again.load().loaded.accepted, Some(accepted(6)));
}

#[test]
fn a_power_cut_before_the_format_is_written_does_not_block_a_new_device() {
    // What a first start, an enrollment, a package or an operator can leave behind without a record.
    let leftovers: [&[&str]; 7] = [
        &[],
        &["format.7-0.new"],
        &["format (empty)"],
        &["lock"],
        &["lock", "content/"],
        &["identity/", "identity/key.pem", "identity/certificate.pem", "identity/enrollment.json"],
        &["enrollment-token", "press-07.tar", "lost+found/", "artifacts/", "report.json"],
    ];
    for leftover in leftovers {
        let folder = tempfile::tempdir().unwrap();
        for name in leftover {
            let path = folder.path().join(name);
            if let Some(name) = name.strip_suffix(" (empty)") {
                std::fs::write(folder.path().join(name), "").unwrap();
            } else if name.ends_with('/') {
                std::fs::create_dir(path).unwrap();
            } else {
                std::fs::write(path, "mge_x").unwrap();
            }
        }
        check_format(folder.path()).unwrap();
        drop(StateDir::open(folder.path()).unwrap());
        assert_eq!(std::fs::read_to_string(folder.path().join("format")).unwrap(), "1\n", "{leftover:?}");
    }
}

#[test]
fn commands_that_prepare_a_folder_at_the_same_time_all_succeed() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("state");
    std::thread::scope(|scope| {
        let prepared: Vec<_> = (0..8).map(|_| scope.spawn(|| prepare(&folder))).collect();
        for one in prepared {
            one.join().unwrap().unwrap();
        }
    });
    check_format(&folder).unwrap();
}

//! State folders of earlier versions, used by the current agent.

use crate::command::{command, text, write_config};
use crate::support::{World, set, version};
use margo::status::State;
use margrave_agent::disk::{Found, StateDir, load};
use margrave_agent::runtimes::Runtime as _;
use margrave_agent::runtimes::simulated::Simulated;
use std::path::Path;

/// `tests/fixtures/README.md` says how it was made.
const STATE_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/state-1");

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn reads_a_state_folder_of_format_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    copy(Path::new(STATE_1), &path);
    let Found { loaded, unreadable } = StateDir::open(&path).unwrap().load();
    assert!(unreadable.is_empty(), "{unreadable:?}");
    let accepted = loaded.accepted.unwrap();
    assert_eq!((accepted.version, accepted.manifest().unwrap().deployments.len()), (2, 2));
    assert_eq!(loaded.reconciled.unwrap().version, 2);
    let states: Vec<_> = loaded.statuses.entries.values().map(|entry| (entry.delivered, entry.status.state)).collect();
    assert_eq!(states, [(true, State::Installed); 2]);
    assert_eq!((loaded.contents.len(), loaded.devices.devices.len()), (2, 1));
    assert_eq!(loaded.revisions.deployments.len(), 2);
    let runtime = Simulated::open(&path, None).unwrap();
    assert_eq!(runtime.observe().await.unwrap().deployments.len(), 2);
}

#[tokio::test]
async fn continues_with_a_state_folder_of_format_1() {
    let world = World::new().await;
    let deployments = set(3, "2.0.0");
    world.fake.publish(&version(2, &deployments), &deployments);
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = (write_config(&world, folder.path(), ""), folder.path().join("state"));
    copy(Path::new(STATE_1), &path);
    let status = text(&command(&["--config", &config, "status"]).await.stdout);
    assert!(status.contains("accepted 2, applied 2") && status.contains("app-2"), "{status}");
    let once = command(&["--config", &config, "once"]).await;
    assert_eq!(once.status.code(), Some(0), "{}", text(&once.stderr));
    let Found { loaded, unreadable } = load(&path);
    assert!(unreadable.is_empty(), "{unreadable:?}");
    assert_eq!(loaded.reconciled.unwrap().version, 3);
}

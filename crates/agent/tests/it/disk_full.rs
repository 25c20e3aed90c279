//! A full disk: a small tmpfs, which needs root (the container of the tests has it).

use crate::support::{Agent, World, eventually, set, version};
use margrave_agent::disk::StateDir;
use margrave_agent::machine::io::Record;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of one megabyte, gone at the end.
struct SmallTmpfs(PathBuf);

impl SmallTmpfs {
    fn mount(path: &Path) -> Self {
        std::fs::create_dir_all(path).unwrap();
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(path).status().unwrap();
        assert!(status.success(), "mounting a tmpfs needs root");
        Self(path.to_owned())
    }
    fn fill(&self) {
        let mut left = 2 << 20;
        while left > 64 {
            // Ever smaller pieces until not a byte is left.
            let piece = vec![b'x'; left];
            let path = self.0.join(format!("filler-{left}"));
            if std::fs::write(&path, &piece).is_err() {
                left /= 2;
            }
        }
    }
    fn free(&self) {
        for entry in std::fs::read_dir(&self.0).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("filler") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

impl Drop for SmallTmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_named_and_keeps_written_records() {
    let folder = tempfile::tempdir().unwrap();
    let small = SmallTmpfs::mount(&folder.path().join("small"));
    let state = StateDir::open(&small.0.join("state")).unwrap();
    let content = |fill: u8| -> Record {
        let bytes: std::sync::Arc<[u8]> = vec![fill; 100_000].into();
        Record::Content { digest: margo::Digest::of(&bytes), bytes }
    };
    state.persist(&[content(1)]).unwrap();
    let before = state.load().loaded.contents;
    small.fill();
    let failure = state.persist(&[content(2)]).unwrap_err();
    assert!(failure.disk_full);
    assert!(failure.message.contains("no room left") && failure.message.contains("free space"), "{}", failure.message);
    let found = state.load();
    assert!(found.unreadable.is_empty());
    assert_eq!(found.loaded.contents, before);
    small.free();
    state.persist(&[content(2)]).unwrap();
    assert_eq!(state.load().loaded.contents.len(), 2);
}

#[tokio::test]
async fn an_agent_on_a_full_disk_continues_when_there_is_space() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let small = SmallTmpfs::mount(&folder.path().join("small"));
    let state_dir = small.0.join("state");
    let path = state_dir.clone();
    let mut agent = Agent::start(&world, |config| config.state_dir = path);
    let (old, new) = (set(3, "1.0.0"), set(3, "2.0.0"));
    world.fake.publish(&version(1, &old), &old);
    agent.runs(&old).await;
    let accepted = || margrave_agent::disk::load(&state_dir).loaded.accepted.map(|accepted| accepted.version);
    eventually("version 2 is accepted", || accepted() == Some(2)).await;
    small.fill();
    world.fake.publish(&version(2, &new), &new);
    world.fake.state().seen.clear();
    eventually("the agent tried twice", || {
        world.fake.seen().iter().filter(|seen| seen.path.contains("/bundles/")).count() >= 2
    })
    .await;
    assert_eq!(accepted(), Some(2), "what cannot be written is not accepted");
    agent.runs(&old).await;
    assert!(margrave_agent::disk::load(&state_dir).unreadable.is_empty(), "nothing is corrupted");
    small.free();
    agent.runs(&new).await;
    eventually("version 3 is accepted", || accepted() == Some(3)).await;
    agent.stop().await;
}

//! A small disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with limited size: its own file system in memory.
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    pub fn new(bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(folder.path())
            .status()
            .unwrap();
        assert!(status.success(), "cannot mount a small disk: these tests run as root");
        Self { folder }
    }

    /// Changes the size.
    pub fn resize(&self, bytes: usize) {
        let options = format!("remount,size={bytes}");
        let status = Command::new("mount").args(["-o", &options]).arg(self.folder.path()).status().unwrap();
        assert!(status.success(), "cannot make the small disk larger");
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills the disk with a file; remove the file to free the space.
    pub fn fill(&self, leave: u64) -> PathBuf {
        let path = self.folder.path().join("filler");
        let free = rustix::fs::statvfs(self.folder.path()).unwrap();
        let bytes = (free.f_bavail * free.f_frsize).saturating_sub(leave);
        std::fs::write(&path, vec![0; bytes as usize]).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}

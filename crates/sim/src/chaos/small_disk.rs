//! A small separate file system that tests fill completely.

use anyhow::Context as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs, mounted for the lifetime of this value.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Requires permission to mount.
    pub fn mount(path: &Path, mebibytes: u32) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path)?;
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=0700"), "margrave-test"])
            .arg(path)
            .output()
            .context("run `mount`")?;
        anyhow::ensure!(output.status.success(), "mount: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Self { path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the file system completely.
    pub fn fill(&self) -> anyhow::Result<()> {
        let mut ballast = OpenOptions::new().create(true).append(true).open(self.ballast())?;
        for piece in [1 << 20, 64 << 10, 4 << 10, 1] {
            let zeros = vec![0_u8; piece];
            while ballast.write_all(&zeros).is_ok() {}
        }
        Ok(())
    }

    /// Frees the space again.
    pub fn make_room(&self) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.ballast())?)
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazy unmount: a program just killed may still have open files.
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

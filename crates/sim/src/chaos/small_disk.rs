//! A small file system of its own, to be filled to the brim.

use anyhow::Context as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs mounted for as long as this value lives.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Needs the right to mount.
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

    /// Takes all the room there is, down to the last page.
    pub fn fill(&self) -> anyhow::Result<()> {
        let mut ballast = OpenOptions::new().create(true).append(true).open(self.ballast())?;
        for piece in [1 << 20, 64 << 10, 4 << 10, 1] {
            let zeros = vec![0_u8; piece];
            while ballast.write_all(&zeros).is_ok() {}
        }
        Ok(())
    }

    /// Gives the room back.
    pub fn make_room(&self) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.ballast())?)
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a program that has just been killed may still be letting go.
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

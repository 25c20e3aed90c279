//! Crash-safe writes of small files: a crash leaves the old or the new content, never a mix.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Files with secrets: for their owner only.
pub const PRIVATE_FILE: u32 = 0o600;
/// Files that every user of the machine may read.
pub const PUBLIC_FILE: u32 = 0o644;
/// Folders with secrets: for their owner only.
const PRIVATE_FOLDER: u32 = 0o700;

/// Writes a file as a whole: to a temporary file next to it, synced, then renamed over the old one.
pub fn write_atomically(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("the path has no folder"))?;
    let mut name = path.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?.to_owned();
    name.push(".new");
    let temporary = folder.join(name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
    // The mode given when opening is masked by the umask, and a left-over file keeps its own.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()
}

/// Creates a folder that only its owner can enter.
pub fn private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(PRIVATE_FOLDER))
}

#[cfg(test)]
mod tests {
    use super::{PRIVATE_FILE, private_folder, write_atomically};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn replaces_the_content_and_keeps_it_private() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("trust");
        private_folder(&inner).unwrap();
        let path = inner.join("key.pem");
        write_atomically(&path, b"old", PRIVATE_FILE).unwrap();
        write_atomically(&path, b"new", PRIVATE_FILE).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE_FILE);
        assert_eq!(std::fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1, "nothing is left beside it");
    }
}

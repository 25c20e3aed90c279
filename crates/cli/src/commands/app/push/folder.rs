//! Reads the regular files below a folder, in a stable order, up to the limits of an artifact.

use margo::package::PackageFile;
use margrave_oci::build::{BYTES_MAX, FILES_MAX};
use std::path::{Path, PathBuf};

/// Deeper folders are not packages.
const DEPTH_MAX: usize = 32;

/// The files below a folder, by their paths relative to it.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) files: Vec<PackageFile>,
    /// Problems with files that cannot be packed.
    pub(super) problems: Vec<String>,
    bytes: u64,
}

impl Folder {
    pub(super) fn read(root: &Path) -> Self {
        let mut folder = Self::default();
        match root.canonicalize() {
            Ok(real) if real.is_dir() => folder.walk(&real, &real, "", 0),
            Ok(_) => folder.problems.push("not a folder".to_owned()),
            Err(error) => folder.problems.push(format!("cannot be read: {error}")),
        }
        folder.files.sort_by(|one, other| one.path.cmp(&other.path));
        folder
    }

    pub(super) fn of(files: Vec<PackageFile>) -> Self {
        Self { files, ..Self::default() }
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// Removes and returns the files below a subfolder.
    pub(super) fn take(&mut self, below: &str) -> Vec<PackageFile> {
        let (taken, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.files).into_iter().partition(|file| file.path.starts_with(below));
        self.files = kept;
        taken.into_iter().map(|file| PackageFile { path: file.path[below.len()..].to_owned(), ..file }).collect()
    }

    fn full(&self) -> bool {
        self.files.len() > FILES_MAX || self.bytes > BYTES_MAX
    }

    fn walk(&mut self, root: &Path, folder: &Path, prefix: &str, depth: usize) {
        let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) if depth <= DEPTH_MAX => entries,
            Ok(_) => return self.problems.push(format!("{prefix}: folders are nested too deep")),
            Err(error) => return self.problems.push(format!("{prefix}: cannot be read: {error}")),
        };
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            if self.full() {
                return;
            }
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                self.problems.push(format!("{prefix}{}: the name is not UTF-8", name.to_string_lossy()));
                continue;
            };
            // Skip the history of a Git repository.
            if name == ".git" {
                continue;
            }
            let path = format!("{prefix}{name}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.walk(root, &entry.path(), &format!("{path}/"), depth + 1),
                Ok(kind) if kind.is_file() => self.add(path, &entry.path()),
                Ok(kind) if kind.is_symlink() => match target(root, &entry.path()) {
                    Ok(real) => self.add(path, &real),
                    Err(problem) => self.problems.push(format!("{path}: {problem}")),
                },
                Ok(_) => self.problems.push(format!("{path}: is neither a file nor a folder")),
                Err(error) => self.problems.push(format!("{path}: cannot be read: {error}")),
            }
        }
        if prefix.is_empty() && self.full() {
            self.problems.push(format!("more than {FILES_MAX} files or {BYTES_MAX} bytes"));
        }
    }

    fn add(&mut self, path: String, file: &Path) {
        let read = std::fs::metadata(file).and_then(|metadata| {
            // Check the size first, so that a huge file is not read only to be rejected.
            self.bytes += metadata.len();
            if self.full() { Ok(Vec::new()) } else { std::fs::read(file) }
        });
        match read {
            Ok(bytes) => self.files.push(PackageFile { path, bytes }),
            Err(error) => self.problems.push(format!("{path}: cannot be read: {error}")),
        }
    }
}

/// A link to a file in the same folder is replaced by that file; any other link is rejected.
fn target(root: &Path, link: &Path) -> Result<PathBuf, String> {
    let real = link.canonicalize().map_err(|error| format!("is a broken link: {error}"))?;
    if !real.starts_with(root) {
        return Err("is a link out of the folder".to_owned());
    }
    if !real.is_file() {
        return Err("is a link to a folder; copy the files instead".to_owned());
    }
    Ok(real)
}

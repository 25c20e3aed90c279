//! Paths, and crash-safe writes.
//!
//! A file is created under `tmp/`, synced, then renamed to its place, whose folder is synced
//! too. A name under `blobs/` or `repositories/` therefore always has complete content.

use super::names::{Digest, RepositoryName, Tag};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Buffer size for hashing a file.
const HASH_BUFFER_BYTES: usize = 256 * 1024;

/// The folders of a registry.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }
    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }
    pub(super) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }
    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }
    /// Two digits of the hash name a folder, so that no folder becomes huge.
    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.blobs().join(digest.algorithm().as_str()).join(&hex[..2]).join(&hex)
    }
    pub(super) fn repositories(&self) -> PathBuf {
        self.root.join("repositories")
    }
    pub(super) fn repository(&self, name: &RepositoryName) -> PathBuf {
        self.repositories().join(name.folder())
    }
    /// Records that a repository has a blob, and since when.
    pub(super) fn link(&self, name: &RepositoryName, digest: &Digest) -> PathBuf {
        self.repository(name).join("blobs").join(digest.algorithm().as_str()).join(digest.hex())
    }
    pub(super) fn manifest(&self, name: &RepositoryName, digest: &Digest) -> PathBuf {
        self.repository(name).join("manifests").join(digest.algorithm().as_str()).join(digest.hex())
    }
    pub(super) fn tag(&self, name: &RepositoryName, tag: &Tag) -> PathBuf {
        self.repository(name).join("tags").join(tag.as_str())
    }
    pub(super) fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }
    pub(super) fn upload(&self, id: Uuid) -> PathBuf {
        self.uploads().join(id.to_string())
    }
    pub(super) fn upload_data(&self, id: Uuid) -> PathBuf {
        self.upload(id).join("data")
    }
    /// The repository an upload belongs to.
    pub(super) fn upload_owner(&self, id: Uuid) -> PathBuf {
        self.upload(id).join("repository")
    }

    /// Writes content to a path, replacing what was there.
    pub(super) fn write(&self, target: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let temporary = self.temporary().join(Uuid::new_v4().to_string());
        let written = fill(&temporary, parts).and_then(|()| place(&temporary, target));
        if written.is_err() {
            discard(&temporary);
        }
        written
    }
}

fn fill(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_all()
}

/// Deletes a temporary file after a failure, which the caller reports; the next start deletes the rest.
pub(super) fn discard(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Moves a file that is already synced to its place.
pub(super) fn place(source: &Path, target: &Path) -> io::Result<()> {
    let folder = parent(target)?;
    make_folder(folder)?;
    fs::rename(source, target)?;
    sync_folder(folder)
}

fn parent(path: &Path) -> io::Result<&Path> {
    path.parent().ok_or_else(|| io::Error::other("the path has no folder"))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Creates a folder and its parents, each synced in its parent.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = parent(folder)?;
    make_folder(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }?;
    sync_folder(above)
}

/// Removes a file durably; a missing one is fine.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_folder(parent(path)?),
    }
}

/// Removes a folder with its content; a missing one is fine.
pub(super) fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The entries of a folder; none for a missing one.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

/// The digests named by `<folder>/<algorithm>/<hex>`, with their paths.
pub(super) fn digests(folder: &Path) -> io::Result<Vec<(Digest, PathBuf)>> {
    let mut found = Vec::new();
    for algorithm in entries(folder)? {
        for entry in entries(&algorithm.path())? {
            let (algorithm, hex) = (algorithm.file_name(), entry.file_name());
            let digest = algorithm.to_str().zip(hex.to_str()).and_then(|(name, hex)| Digest::from_parts(name, hex));
            if let Some(digest) = digest {
                found.push((digest, entry.path()));
            }
        }
    }
    Ok(found)
}

/// The digest of a file's content.
pub(super) fn hash(path: &Path, algorithm: super::names::Algorithm) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut context = algorithm.context();
    let mut buffer = vec![0; HASH_BUFFER_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(algorithm.finish(context)),
            length => context.update(&buffer[..length]),
        }
    }
}

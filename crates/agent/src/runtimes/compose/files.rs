//! The files of a project on disk: exactly those of the archive, next to data of services.

use crate::artifacts::Unpacked;
use crate::disk::DiskError;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// The files from the archive, so that only they are removed.
const LIST: &str = "files.list";

fn at(path: &Path) -> impl Fn(std::io::Error) -> DiskError + '_ {
    move |source| DiskError::at(path, source)
}

/// World-readable, because containers run as any user; only the agent can access the folder above (COMP-05).
pub(super) fn write_shared(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    // An unchanged file is not rewritten: a mounted file keeps its inode.
    if fs::read(path).is_ok_and(|held| held == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(at(folder))?;
    }
    let temporary = path.with_file_name(format!(
        ".{}.new",
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    ));
    let write = || {
        fs::write(&temporary, bytes)?;
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o644))?;
        fs::File::open(&temporary)?.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        DiskError::at(path, error)
    })
}

/// Writes all files into a fresh folder.
pub(super) fn write_all(folder: &Path, unpacked: &Unpacked) -> Result<(), DiskError> {
    for (path, bytes) in &unpacked.files {
        write_shared(&folder.join(path), bytes)?;
    }
    Ok(())
}

/// Brings `project/files` to the contents of the archive. May be interrupted anywhere and repeated.
pub(super) fn sync(project: &Path, unpacked: &Unpacked) -> Result<(), DiskError> {
    let folder = project.join("files");
    crate::disk::create_private_dir(project).map_err(at(project))?;
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let known = listed(project);
    // The list names the new files before they are written.
    let all: BTreeSet<&str> =
        known.iter().map(String::as_str).chain(unpacked.files.keys().map(String::as_str)).collect();
    write_list(project, all.into_iter())?;
    write_all(&folder, unpacked)?;
    for path in known.iter().filter(|path| !unpacked.files.contains_key(*path)) {
        remove_file(&folder, path)?;
    }
    write_list(project, unpacked.files.keys().map(String::as_str))
}

fn write_list<'a>(project: &Path, paths: impl Iterator<Item = &'a str>) -> Result<(), DiskError> {
    let text: String = paths.flat_map(|path| [path, "\n"]).collect();
    write_changed(&project.join(LIST), text.as_bytes())
}

/// Writes a file unless it is unchanged.
pub(super) fn write_changed(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    if fs::read(path).is_ok_and(|held| held == bytes) {
        return Ok(());
    }
    crate::disk::write_private(path, bytes)
}

fn listed(project: &Path) -> Vec<String> {
    let text = fs::read_to_string(project.join(LIST)).unwrap_or_default();
    let inside = |path: &&str| Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    text.lines().filter(inside).map(str::to_owned).collect()
}

/// Removes a file and the folders that are empty without it.
fn remove_file(folder: &Path, path: &str) -> Result<(), DiskError> {
    let file = folder.join(path);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(DiskError::at(&file, error)),
        _ => {}
    }
    let mut parent: Option<PathBuf> = file.parent().map(Path::to_owned);
    while let Some(inner) = parent.filter(|inner| inner != folder && inner.starts_with(folder)) {
        if fs::remove_dir(&inner).is_err() {
            break;
        }
        parent = inner.parent().map(Path::to_owned);
    }
    Ok(())
}

/// Removes our files; data of services in the folder stays unless `purge` is set.
pub(super) fn remove_project(project: &Path, purge: bool) -> Result<(), DiskError> {
    if purge {
        return match fs::remove_dir_all(project) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(DiskError::at(project, error)),
            _ => Ok(()),
        };
    }
    let folder = project.join("files");
    for path in listed(project) {
        remove_file(&folder, &path)?;
    }
    let _ = fs::remove_dir(&folder);
    for name in ["ours.json", "applied.json", "applied.previous.json", "collector-ca.pem", LIST] {
        let _ = fs::remove_file(project.join(name));
    }
    let _ = fs::remove_dir(project);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(files: &[(&str, &str)]) -> Unpacked {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        Unpacked { files: files.collect() }
    }

    #[test]
    fn syncs_archive_files_and_keeps_data_next_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("web");
        sync(&project, &unpacked(&[("compose.yaml", "1"), ("conf/a.txt", "a"), ("conf/deep/b.txt", "b")])).unwrap();
        fs::create_dir(project.join("files/data")).unwrap();
        fs::write(project.join("files/data/precious"), "x").unwrap();
        sync(&project, &unpacked(&[("compose.yaml", "2"), ("conf/a.txt", "a")])).unwrap();
        assert_eq!(fs::read_to_string(project.join("files/compose.yaml")).unwrap(), "2");
        assert!(project.join("files/conf/a.txt").exists() && !project.join("files/conf/deep").exists());
        let mode = fs::metadata(project.join("files/conf/a.txt")).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o644);
        remove_project(&project, false).unwrap();
        assert!(project.join("files/data/precious").exists() && !project.join("files/compose.yaml").exists());
        remove_project(&project, true).unwrap();
        assert!(!project.exists());
        remove_project(&project, true).unwrap();
        remove_project(&project, false).unwrap();
    }

    #[test]
    fn an_unchanged_file_keeps_its_inode() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_shared(&path, b"1").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        write_shared(&path, b"1").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    }
}

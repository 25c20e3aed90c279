//! An uploaded tar.gz or tar: a package folder, or an OCI layout.

pub(super) mod rejected;

pub(crate) use rejected::{too_large, too_large_words};

use super::{ValidPackage, layout, texts};
use crate::app::error::{AppError, AppResult};
use margo::archive::{self, Entry, Limits};
use margo::digest::Digest;
use margo::package::{self, FILES_MAX, PackageFile, RESOURCE_BYTES_MAX};

/// Largest archive accepted, compressed: a few resources of the maximum size each.
pub const UPLOAD_BYTES_MAX: usize = 32 << 20;
/// A layout has one blob per file, and a few files of its own.
const LIMITS: Limits =
    Limits { entries_max: 4 * FILES_MAX, entry_bytes_max: RESOURCE_BYTES_MAX as u64, total_bytes_max: 64 << 20 };
const SOURCE_CHARS_MAX: usize = 500;

/// Parameters of an upload.
#[derive(Debug, Clone, Default, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UploadNote {
    /// The source of the package, for people.
    pub source: Option<String>,
    /// Which package of an OCI layout with several: its tag or digest.
    pub reference: Option<String>,
}

impl UploadNote {
    pub(super) fn source_text(&self) -> AppResult<String> {
        let source = self.source.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or("upload");
        if source.chars().count() > SOURCE_CHARS_MAX || source.chars().any(char::is_control) {
            return Err(AppError::invalid("source", format!("write at most {SOURCE_CHARS_MAX} plain characters")));
        }
        Ok(source.to_owned())
    }
}

pub(super) fn read(bytes: &[u8], reference: Option<&str>) -> AppResult<ValidPackage> {
    let entries = archive::unpack_maybe_compressed(bytes, LIMITS).map_err(|error| rejected::archive(bytes, &error))?;
    let entries = without_common_folder(entries);
    if let Some(refusal) = rejected::content(&entries) {
        return Err(refusal);
    }
    if entries.iter().any(|entry| entry.path == "oci-layout") {
        return layout::read(&entries, reference);
    }
    let files: Vec<PackageFile> =
        entries.into_iter().map(|Entry { path, bytes }| PackageFile { path, bytes }).collect();
    let read = package::read(&files).map_err(|findings| AppError::broken_package(&findings))?;
    let (manifest, _) = package::to_oci(&read.document);
    Ok(ValidPackage {
        digest: Digest::of(&manifest),
        warnings: texts(&read.warnings)
            .chain(layout::version_warning(&read.document.description.metadata.version))
            .collect(),
        package: read.document,
    })
}

/// Archives may contain the package folder itself or a parent folder; all are accepted.
fn without_common_folder(mut entries: Vec<Entry>) -> Vec<Entry> {
    loop {
        let first = entries.first().and_then(|entry| entry.path.split_once('/'));
        let Some(folder) = first.map(|(folder, _)| format!("{folder}/")) else { return entries };
        if !entries.iter().all(|entry| entry.path.starts_with(&folder)) {
            return entries;
        }
        for entry in &mut entries {
            entry.path.drain(..folder.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> Vec<String> {
        let entries = list.iter().map(|path| Entry { path: (*path).to_owned(), bytes: Vec::new() }).collect();
        without_common_folder(entries).into_iter().map(|entry| entry.path).collect()
    }

    #[test]
    fn strips_a_common_folder() {
        assert_eq!(paths(&["app/margo.yaml", "app/resources/icon.png"]), ["margo.yaml", "resources/icon.png"]);
        assert_eq!(paths(&["apps/app/margo.yaml", "apps/app/resources/a.md"]), ["margo.yaml", "resources/a.md"]);
        assert_eq!(paths(&["app/margo.yaml"]), ["margo.yaml"]);
    }

    #[test]
    fn keeps_paths_without_a_common_folder() {
        assert_eq!(paths(&["margo.yaml", "resources/icon.png"]), ["margo.yaml", "resources/icon.png"]);
        assert_eq!(paths(&["resources/icon.png", "margo.yaml"]), ["resources/icon.png", "margo.yaml"]);
    }
}

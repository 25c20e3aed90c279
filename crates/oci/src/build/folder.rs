//! A component that is one folder in one archive, such as compose files and manifests (COMP-02).

use super::{Artifact, ArtifactKind, EMPTY_CONFIG_TYPE, MANIFEST_MEDIA_TYPE, Problems, TITLE, VERSION, descriptor};
use margo::package::PackageFile;
use margo::{Digest, archive};
use serde_json::{Map, json};

const EMPTY: &[u8] = b"{}";

/// The kind of component.
pub(super) struct Folder {
    pub(super) kind: ArtifactKind,
    /// Of the component, as the standard names it.
    pub(super) component_type: &'static str,
    pub(super) artifact_type: &'static str,
    pub(super) layer_type: &'static str,
}

/// Such a folder has no version of its own; the given one must be valid.
pub(super) fn check_version(version: &str, problems: &mut Problems) {
    if semver::Version::parse(&version.replace('_', "+")).is_err() {
        problems.push(format!("`{version}` is not a version; write for example `1.0.0`"));
    }
}

/// The caller skips files that never belong into an archive, except those of version control.
pub(super) fn is_included(file: &PackageFile) -> bool {
    !file.path.split('/').any(|part| part == ".git")
}

impl Folder {
    /// Packs files, by their path below the folder, into an artifact.
    pub(super) fn pack<'a>(
        self,
        name: String,
        version: &str,
        files: impl Iterator<Item = (&'a str, &'a [u8])>,
        warnings: Vec<String>,
    ) -> Artifact {
        let Self { kind, component_type, artifact_type, layer_type } = self;
        let tag = version.replace('+', "_");
        let entries: Vec<(String, &[u8])> = files.map(|(path, bytes)| (format!("{name}/{path}"), bytes)).collect();
        let layer = archive::pack(&entries);
        let mut annotations = Map::new();
        annotations.insert("org.margo.component.type".to_owned(), json!(component_type));
        annotations.insert("org.margo.component.version".to_owned(), json!(tag));
        annotations.insert(TITLE.to_owned(), json!(format!("{name}-{tag}.tar.gz")));
        annotations.insert(VERSION.to_owned(), json!(tag));
        let mut config = descriptor(EMPTY_CONFIG_TYPE, EMPTY, Map::new());
        config["data"] = json!("e30=");
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_MEDIA_TYPE,
            "artifactType": artifact_type,
            "config": config,
            "layers": [descriptor(layer_type, &layer, annotations)],
        });
        Artifact {
            kind,
            name,
            tag,
            manifest: manifest.to_string().into(),
            blobs: [EMPTY.to_vec(), layer].into_iter().map(|bytes| (Digest::of(&bytes), bytes.into())).collect(),
            warnings,
        }
    }
}

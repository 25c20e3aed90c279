//! Plain Kubernetes manifests: a component type of our own, for `custom` profiles (CR-01).
//!
//! The archive has the form of a compose component: one folder, in it `manifests/` with YAML files.

use super::folder::{Folder, check_version, is_included};
use super::{
    Artifact, ArtifactKind, MANIFESTS_ARTIFACT_TYPE, MANIFESTS_LAYER_TYPE, Problems, check_size, has_extension,
};
use crate::objects;
use margo::package::PackageFile;
use serde_json::Value;
use std::collections::HashSet;

/// The folder of the YAML files.
pub const MANIFESTS_FOLDER: &str = "manifests/";

/// Builds the archive; `version` must be given, since manifests have none.
pub fn manifests(files: &[PackageFile], name: &str, version: &str) -> Result<Artifact, Problems> {
    let mut problems = Problems::new();
    check_size(files, &mut problems);
    check_version(version, &mut problems);
    if let Err(found) = manifest_objects(files) {
        problems.extend(found);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let folder = Folder {
        kind: ArtifactKind::Manifests,
        component_type: "custom",
        artifact_type: MANIFESTS_ARTIFACT_TYPE,
        layer_type: MANIFESTS_LAYER_TYPE,
    };
    let kept = files.iter().filter(|file| is_included(file));
    let kept = kept.map(|file| (file.path.as_str(), file.bytes.as_slice()));
    Ok(folder.pack(name.to_owned(), version, kept, Vec::new()))
}

/// All objects of the files, by path and then by their order in a file.
pub fn manifest_objects(files: &[PackageFile]) -> Result<Vec<Value>, Problems> {
    let mut sources: Vec<&PackageFile> = files.iter().filter(|file| is_manifest(&file.path)).collect();
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    let mut problems = Problems::new();
    let mut found = Vec::new();
    let mut names = HashSet::new();
    for file in sources {
        let objects = match objects::parse(&file.bytes) {
            Ok(objects) => objects,
            Err(problem) => {
                problems.push(format!("{}: {problem}", file.path));
                continue;
            }
        };
        for object in objects {
            if let Some(problem) = objects::problem(&object) {
                problems.push(format!("{}: {problem}", file.path));
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
            if !names.insert((text(&object["apiVersion"]), kind.clone(), name.clone())) {
                problems.push(format!("{}: {kind} `{name}` occurs twice", file.path));
            }
            found.push(object);
        }
    }
    if found.is_empty() && problems.is_empty() {
        problems.push("manifests/ contains no object; add YAML files".to_owned());
    }
    if found.len() > objects::OBJECTS_MAX {
        problems.push(format!("{} objects exceed the limit of {}", found.len(), objects::OBJECTS_MAX));
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Whether a file of a component's folder is read for objects.
pub(super) fn is_manifest(path: &str) -> bool {
    path.starts_with(MANIFESTS_FOLDER) && (has_extension(path, "yaml") || has_extension(path, "yml"))
}

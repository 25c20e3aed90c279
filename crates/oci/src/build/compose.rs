//! A compose archive (COMP-01 to COMP-05).

use super::folder::{Folder, check_version, is_included};
use super::{Artifact, ArtifactKind, COMPOSE_ARTIFACT_TYPE, COMPOSE_LAYER_TYPE, Problems, check_size, yaml};
use margo::package::PackageFile;
use serde_json::{Map, Value};

/// Builds a compose archive. `name` is the folder's, and is used unless the file names the project; `version` must be
/// given, since a compose file has none.
pub fn compose(files: &[PackageFile], name: &str, version: &str) -> Result<Artifact, Problems> {
    let mut problems = Problems::new();
    let mut warnings = Vec::new();
    check_size(files, &mut problems);
    check_version(version, &mut problems);
    let main = match (find(files, "compose.yaml"), find(files, "compose.yml")) {
        (Some(_), Some(_)) => {
            problems.push("both compose.yaml and compose.yml exist; keep one".to_owned());
            None
        }
        (Some(file), None) | (None, Some(file)) => Some(file),
        (None, None) => {
            problems.push("compose.yaml is missing".to_owned());
            None
        }
    };
    let document = main.and_then(|file| yaml(file).map_err(|problem| problems.push(problem)).ok());
    let mut left_out = Vec::new();
    if let Some(document) = &document {
        left_out = check(document, files, &mut problems, &mut warnings);
    }
    let (Some(main), Some(document), true) = (main, document, problems.is_empty()) else { return Err(problems) };
    let name = document["name"].as_str().unwrap_or(name).to_owned();
    let folder = Folder {
        kind: ArtifactKind::Compose,
        component_type: "compose",
        artifact_type: COMPOSE_ARTIFACT_TYPE,
        layer_type: COMPOSE_LAYER_TYPE,
    };
    let kept = files.iter().filter(|file| !left_out.contains(&file.path) && is_included(file));
    let kept = kept.map(|file| {
        // COMP-03: no other spelling is valid.
        let path = if file.path == main.path { "compose.yaml" } else { file.path.as_str() };
        (path, file.bytes.as_slice())
    });
    Ok(folder.pack(name, version, kept, warnings))
}

fn find<'a>(files: &'a [PackageFile], path: &str) -> Option<&'a PackageFile> {
    files.iter().find(|file| file.path == path)
}

/// COMP-04: required files must exist; returns the files that must not be included.
fn check(document: &Value, files: &[PackageFile], problems: &mut Problems, warnings: &mut Vec<String>) -> Vec<String> {
    let services = document["services"].as_object();
    if services.is_none_or(Map::is_empty) {
        problems.push("compose.yaml: `services` is missing or empty".to_owned());
    }
    let mut needed = Vec::new();
    let mut forbidden = Vec::new();
    for (service, value) in services.into_iter().flatten() {
        let place = format!("compose.yaml: services.{service}");
        if value["image"].as_str().is_none_or(str::is_empty) {
            if value["build"].is_null() {
                problems.push(format!("{place} has no `image`"));
            } else {
                warnings.push(format!("{place} is built from source; devices need an `image`"));
            }
        }
        for (path, required) in env_files(&value["env_file"]) {
            needed.push((format!("{place}.env_file"), path, required));
        }
        for source in binds(&value["volumes"]) {
            forbidden.push((format!("{place}.volumes"), source));
        }
    }
    for (name, value) in document["configs"].as_object().into_iter().flatten() {
        if let Some(path) = value["file"].as_str() {
            needed.push((format!("compose.yaml: configs.{name}.file"), path.to_owned(), true));
        }
    }
    for (name, value) in document["secrets"].as_object().into_iter().flatten() {
        if let Some(path) = value["file"].as_str() {
            forbidden.push((format!("compose.yaml: secrets.{name}.file"), path.to_owned()));
        }
    }
    let mut inside = Vec::new();
    for (place, path, required) in needed {
        match inner(&path) {
            None => problems.push(format!("{place}: `{path}` is not a path inside the folder")),
            Some(path) if required && find(files, &path).is_none() => {
                problems.push(format!("{place}: `{path}` is not in the folder"));
            }
            Some(path) => inside.push(path),
        }
    }
    let mut left_out = Vec::new();
    for (place, path) in forbidden {
        // Files outside of the folder cannot get into the archive.
        let Some(path) = inner(&path) else { continue };
        let below = format!("{path}/");
        for file in files.iter().filter(|file| file.path == path || file.path.starts_with(&below)) {
            if inside.contains(&file.path) || matches!(file.path.as_str(), "compose.yaml" | "compose.yml") {
                problems.push(format!(
                    "{place}: `{}` is required in the archive, but the standard forbids it there",
                    file.path
                ));
            } else {
                warnings.push(format!("{place}: `{}` is skipped; the standard forbids it in an archive", file.path));
                left_out.push(file.path.clone());
            }
        }
    }
    left_out
}

/// A text, a list of texts, or a list of `{path, required}`.
fn env_files(value: &Value) -> Vec<(String, bool)> {
    let one = |value: &Value| match value {
        Value::String(path) => Some((path.clone(), true)),
        Value::Object(fields) => {
            let required = fields.get("required").and_then(Value::as_bool).unwrap_or(true);
            Some((fields.get("path")?.as_str()?.to_owned(), required))
        }
        _ => None,
    };
    match value {
        Value::Array(list) => list.iter().filter_map(one).collect(),
        other => one(other).into_iter().collect(),
    }
}

/// Sources of bind mounts that are relative paths: `./data:/data`, or `{type: bind, source: ./data}`.
fn binds(value: &Value) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::String(text) => {
            let (source, _) = text.split_once(':')?;
            source.starts_with('.').then(|| source.to_owned())
        }
        Value::Object(fields) if fields.get("type").and_then(Value::as_str) == Some("bind") => {
            Some(fields.get("source")?.as_str()?.to_owned())
        }
        _ => None,
    };
    value.as_array().into_iter().flatten().filter_map(one).collect()
}

/// A relative path without `.`; `None` if it leaves the folder or depends on a variable.
fn inner(path: &str) -> Option<String> {
    if path.starts_with(['/', '~']) || path.contains(['\\', '$']) {
        return None;
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return None,
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

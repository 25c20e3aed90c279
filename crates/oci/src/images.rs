//! The container images that a component names, as far as they can be determined without running it.
//!
//! **Compose**: `services.*.image`, with variables replaced by the parameters' defaults, `.env`, or the default written
//! in the file. **Charts**: the annotations `artifacthub.io/images` and `helm.sh/images`; in `values.yaml` every
//! `image: name:tag`, and every mapping with `repository` and `tag` or `digest`, or with `repository` alone under a key
//! called `image` (then the tag is `appVersion`); in templates every `image:` without an expression. Charts in
//! `charts/` likewise. **Manifests**: the containers of every object with pods. Anything else is reported as unknown,
//! not guessed.

mod interpolate;

use crate::build::{chart_metadata, has_extension};
use interpolate::interpolate;
use margo::archive::{self, Entry, Limits};
use margo::package::PackageFile;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Limits for the archive of a component: the same as for building one.
pub const LIMITS: Limits = Limits {
    entries_max: crate::build::FILES_MAX,
    entry_bytes_max: crate::build::BYTES_MAX,
    total_bytes_max: crate::build::BYTES_MAX,
};
/// Maximum depth of nested charts.
const DEPTH_MAX: usize = 3;
/// How deep values may be nested.
const NESTING_MAX: usize = 64;

/// The images found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub images: BTreeSet<String>,
    /// Images that depend on unknown values, in words.
    pub unknown: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, image: &str) {
        let image = image.trim();
        if !image.is_empty() {
            self.images.insert(image.to_owned());
        }
    }
}

/// The images of a compose archive; `variables` are those that the application sets.
pub fn of_compose(archive: &[u8], variables: &BTreeMap<String, String>) -> Result<Found, String> {
    let files = archive::unpack_with_links(archive, LIMITS).map_err(|error| error.to_string())?;
    let file = |name: &str| {
        let inside = |entry: &&Entry| entry.path.split_once('/').is_some_and(|(_, rest)| rest == name);
        files.iter().find(inside).map(|entry| entry.bytes.as_slice())
    };
    let main = file("compose.yaml").or_else(|| file("compose.yml")).ok_or("the archive has no compose.yaml")?;
    let document: Value = serde_saphyr::from_slice(main).map_err(|error| {
        let text = error.to_string();
        format!("compose.yaml: {}", text.lines().next().unwrap_or("cannot be read"))
    })?;
    let mut known = environment(file(".env").unwrap_or_default());
    known.extend(variables.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut found = Found::default();
    for (service, value) in document["services"].as_object().into_iter().flatten() {
        let Some(image) = value["image"].as_str() else { continue };
        match interpolate(image, &known) {
            Ok(image) => found.add(&image),
            Err(variable) => {
                found.unknown.insert(format!("services.{service}: `{image}` depends on `{variable}`"));
            }
        }
    }
    Ok(found)
}

fn environment(bytes: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.trim_start_matches("export ").split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().trim_matches(['"', '\'']).to_owned())).collect()
}

/// The images of plain manifests, wherever an object has containers.
pub fn of_manifests(archive: &[u8]) -> Result<Found, String> {
    let entries = archive::unpack(archive, LIMITS).map_err(|error| error.to_string())?;
    let inside = |entry: Entry| {
        let (_, path) = entry.path.split_once('/')?;
        Some(PackageFile { path: path.to_owned(), bytes: entry.bytes })
    };
    let files: Vec<PackageFile> = entries.into_iter().filter_map(inside).collect();
    let objects = crate::build::manifest_objects(&files).map_err(|problems| problems.join("; "))?;
    let mut found = Found::default();
    for object in &objects {
        in_object(object, &mut found, 0);
    }
    Ok(found)
}

fn in_object(value: &Value, found: &mut Found, depth: usize) {
    if depth > NESTING_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if matches!(key.as_str(), "containers" | "initContainers") {
                    let images = value.as_array().into_iter().flatten().filter_map(|one| one["image"].as_str());
                    images.for_each(|image| found.add(image));
                } else {
                    in_object(value, found, depth + 1);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|item| in_object(item, found, depth + 1)),
        _ => {}
    }
}

/// The images of a chart.
pub fn of_chart(archive: &[u8]) -> Result<Found, String> {
    let mut found = Found::default();
    packed_chart(archive, &mut found, 0)?;
    Ok(found)
}

fn packed_chart(archive: &[u8], found: &mut Found, depth: usize) -> Result<(), String> {
    let files = archive::unpack(archive, LIMITS).map_err(|error| error.to_string())?;
    let folder = files.iter().find_map(|entry| entry.path.split_once('/')).map(|(folder, _)| format!("{folder}/"));
    let folder = folder.unwrap_or_default();
    chart(&below(&files, &folder), found, depth);
    Ok(())
}

fn below(files: &[Entry], folder: &str) -> Vec<Entry> {
    let inside = |entry: &Entry| {
        let path = entry.path.strip_prefix(folder)?.to_owned();
        Some(Entry { path, bytes: entry.bytes.clone() })
    };
    files.iter().filter_map(inside).collect()
}

fn chart(files: &[Entry], found: &mut Found, depth: usize) {
    let file = |name: &str| files.iter().find(|entry| entry.path == name);
    let as_files: Vec<PackageFile> = file("Chart.yaml")
        .map(|entry| PackageFile { path: entry.path.clone(), bytes: entry.bytes.clone() })
        .into_iter()
        .collect();
    let metadata = chart_metadata(&as_files).unwrap_or_default();
    for key in ["artifacthub.io/images", "helm.sh/images"] {
        let list = metadata.annotations.get(key).and_then(|text| serde_saphyr::from_str::<Value>(text).ok());
        for image in list.as_ref().and_then(Value::as_array).into_iter().flatten() {
            found.add(image["image"].as_str().or(image.as_str()).unwrap_or_default());
        }
    }
    if let Some(values) = file("values.yaml").and_then(|entry| serde_saphyr::from_slice::<Value>(&entry.bytes).ok()) {
        let registry = values["global"]["imageRegistry"].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let version = metadata.app_version.as_deref();
        in_values(&values, "", &Context { version, registry: registry.as_deref() }, found, 0);
    }
    for entry in files.iter().filter(|entry| entry.path.starts_with("templates/")) {
        in_template(&String::from_utf8_lossy(&entry.bytes), &entry.path, found);
    }
    if depth < DEPTH_MAX {
        in_subcharts(files, found, depth);
    }
}

fn in_subcharts(files: &[Entry], found: &mut Found, depth: usize) {
    let mut folders = BTreeSet::new();
    for entry in files {
        let Some(rest) = entry.path.strip_prefix("charts/") else { continue };
        match rest.split_once('/') {
            Some((folder, _)) => {
                folders.insert(folder.to_owned());
            }
            None if has_extension(rest, "tgz") => {
                if let Err(problem) = packed_chart(&entry.bytes, found, depth + 1) {
                    found.unknown.insert(format!("{}: {problem}", entry.path));
                }
            }
            None => {}
        }
    }
    for folder in folders {
        chart(&below(files, &format!("charts/{folder}/")), found, depth + 1);
    }
}

struct Context<'a> {
    version: Option<&'a str>,
    registry: Option<&'a str>,
}

fn in_values(value: &Value, key: &str, context: &Context<'_>, found: &mut Found, depth: usize) {
    if depth > NESTING_MAX {
        return;
    }
    match value {
        Value::String(text) if key == "image" && !text.contains("{{") => found.add(text),
        Value::Array(list) => list.iter().for_each(|item| in_values(item, key, context, found, depth + 1)),
        Value::Object(fields) => {
            if let Some(image) = image_of(fields, key, context) {
                found.add(&image);
            }
            for (key, value) in fields {
                in_values(value, key, context, found, depth + 1);
            }
        }
        _ => {}
    }
}

/// `{registry, repository, tag, digest}` as most charts write an image.
fn image_of(fields: &serde_json::Map<String, Value>, key: &str, context: &Context<'_>) -> Option<String> {
    let text = |name: &str| match fields.get(name) {
        Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let repository = text("repository").filter(|text| !text.contains("{{") && !text.contains("://"))?;
    let has_version = fields.contains_key("tag") || fields.contains_key("digest");
    if !has_version && !key.to_ascii_lowercase().ends_with("image") {
        return None;
    }
    let registry = text("registry").or_else(|| context.registry.map(str::to_owned));
    let name = registry.map_or_else(|| repository.clone(), |registry| format!("{registry}/{repository}"));
    match (text("digest"), text("tag").or_else(|| context.version.map(str::to_owned))) {
        (Some(digest), _) => Some(format!("{name}@{digest}")),
        (None, Some(tag)) => Some(format!("{name}:{tag}")),
        (None, None) => Some(name),
    }
}

fn in_template(text: &str, path: &str, found: &mut Found) {
    for line in text.lines() {
        let line = line.trim().trim_start_matches("- ").trim();
        let Some(image) = line.strip_prefix("image:") else { continue };
        let image = image.trim();
        if !image.contains("{{") {
            found.add(image.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']));
        } else if !image.contains(".Values") && !image.contains("include") && !image.contains("template") {
            found.unknown.insert(format!("{path}: `{image}`"));
        }
    }
}

#[cfg(test)]
mod tests;

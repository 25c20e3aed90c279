//! A Helm chart as `helm push` would build it, but without timestamps.

use super::{
    Artifact, ArtifactKind, DESCRIPTION, HELM_CHART_TYPE, HELM_CONFIG_TYPE, MANIFEST_MEDIA_TYPE, Problems, TITLE,
    VERSION, check_size, descriptor, has_extension,
};
use margo::Digest;
use margo::archive;
use margo::package::PackageFile;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Chart.yaml as Helm reads it; unknown fields are dropped, as Helm does.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    home: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keywords: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    maintainers: Vec<Maintainer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kube_version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<Dependency>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
struct Maintainer {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", default)]
struct Dependency {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    repository: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(rename = "import-values", skip_serializing_if = "Vec::is_empty")]
    import_values: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
}

/// Builds a chart from the files of its folder.
pub fn chart(files: &[PackageFile]) -> Result<Artifact, Problems> {
    let mut problems = Problems::new();
    let mut warnings = Vec::new();
    check_size(files, &mut problems);
    let metadata = metadata(files, &mut problems);
    let ignored = Ignore::of(files);
    let files: Vec<&PackageFile> = files.iter().filter(|file| !ignored.takes(&file.path)).collect();
    if let Some(metadata) = &metadata {
        check(metadata, &files, &mut problems);
        warn(&files, &mut warnings);
    }
    let (Some(metadata), true) = (metadata, problems.is_empty()) else { return Err(problems) };
    let name = metadata.name.clone().unwrap_or_default();
    let version = metadata.version.clone().unwrap_or_default();
    let entries: Vec<(String, &[u8])> =
        files.iter().map(|file| (format!("{name}/{}", file.path), file.bytes.as_slice())).collect();
    let layer = archive::pack(&entries);
    let config = serde_json::to_vec(&metadata).expect("text and lists can be written as JSON");
    let mut annotations = Map::new();
    annotations.insert(TITLE.to_owned(), json!(name));
    annotations.insert(VERSION.to_owned(), json!(version));
    if let Some(description) = &metadata.description {
        annotations.insert(DESCRIPTION.to_owned(), json!(description));
    }
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_MEDIA_TYPE,
        "config": descriptor(HELM_CONFIG_TYPE, &config, Map::new()),
        "layers": [descriptor(HELM_CHART_TYPE, &layer, Map::new())],
        "annotations": annotations,
    });
    Ok(Artifact {
        kind: ArtifactKind::Chart,
        name,
        tag: version.replace('+', "_"),
        manifest: manifest.to_string().into(),
        blobs: [config, layer].into_iter().map(|bytes| (Digest::of(&bytes), bytes.into())).collect(),
        warnings,
    })
}

/// The version of a chart, if it can be read.
pub fn chart_version(files: &[PackageFile]) -> Option<String> {
    metadata(files, &mut Problems::new())?.version
}

pub(crate) fn metadata(files: &[PackageFile], problems: &mut Problems) -> Option<Metadata> {
    let Some(file) = files.iter().find(|file| file.path == "Chart.yaml") else {
        problems.push("Chart.yaml is missing".to_owned());
        return None;
    };
    match serde_saphyr::from_slice::<Metadata>(&file.bytes) {
        Ok(metadata) => Some(metadata),
        Err(error) => {
            let text = error.to_string();
            problems.push(format!("Chart.yaml: {}", text.lines().next().unwrap_or("cannot be read")));
            None
        }
    }
}

fn check(metadata: &Metadata, files: &[&PackageFile], problems: &mut Problems) {
    // AD-05
    if metadata.api_version.as_deref() != Some("v2") {
        problems.push("Chart.yaml: `apiVersion` must be `v2`".to_owned());
    }
    let is_name = |name: &&String| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'_'))
    };
    if !metadata.name.as_ref().is_some_and(|name| is_name(&name)) {
        problems.push("Chart.yaml: `name` must be lower-case letters, digits and dashes".to_owned());
    }
    if metadata.version.as_ref().is_none_or(|version| semver::Version::parse(version).is_err()) {
        problems.push("Chart.yaml: `version` must be a version such as `1.0.0`".to_owned());
    }
    for dependency in &metadata.dependencies {
        let folder = format!("charts/{}/", dependency.name);
        let archive = format!("charts/{}-", dependency.name);
        let there = |file: &&&PackageFile| {
            file.path.starts_with(&folder) || (file.path.starts_with(&archive) && has_extension(&file.path, "tgz"))
        };
        if files.iter().find(there).is_none() {
            let name = &dependency.name;
            problems.push(format!("Chart.yaml: dependency `{name}` is not in charts/; run `helm dependency build`"));
        }
    }
}

/// AD-05: features that charts must not rely on. A warning, not an error: text alone does not prove it.
fn warn(files: &[&PackageFile], warnings: &mut Vec<String>) {
    for file in files {
        let is_template = file.path.starts_with("templates/");
        let contains = |text: &str| file.bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if is_template && contains("helm.sh/hook") {
            warnings.push(format!("{}: charts must not rely on hooks", file.path));
        }
        if is_template && (contains("(lookup ") || contains("{{ lookup ") || contains("{{- lookup ")) {
            warnings.push(format!("{}: charts must not rely on `lookup`", file.path));
        }
    }
    if files.iter().any(|file| file.path.starts_with("crds/")) {
        warnings.push("crds/: charts must not rely on Helm's management of CRDs".to_owned());
    }
}

/// `.helmignore`: names and paths with `*` and `?`, folders with a slash at the end, `!` for exceptions.
struct Ignore {
    rules: Vec<(bool, String)>,
}

impl Ignore {
    fn of(files: &[PackageFile]) -> Self {
        let file = files.iter().find(|file| file.path == ".helmignore");
        let text = file.map(|file| String::from_utf8_lossy(&file.bytes).into_owned()).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rules = lines.map(|line| match line.strip_prefix('!') {
            Some(rest) => (false, rest.to_owned()),
            None => (true, line.to_owned()),
        });
        Self { rules: rules.collect() }
    }

    fn takes(&self, path: &str) -> bool {
        // A repository's history is never shipped.
        let mut taken = path.split('/').any(|part| part == ".git");
        for (ignores, rule) in &self.rules {
            if matches_rule(rule, path) {
                taken = *ignores;
            }
        }
        taken && path != "Chart.yaml"
    }
}

fn matches_rule(rule: &str, path: &str) -> bool {
    let folder_only = rule.ends_with('/');
    let rule = rule.trim_end_matches('/');
    let anchored = rule.contains('/');
    let rule = rule.trim_start_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    // A rule that matches a folder matches everything below it.
    (1..=parts.len()).any(|length| {
        let is_folder = length < parts.len();
        let candidate = parts[..length].join("/");
        (is_folder || !folder_only) && if anchored { glob(rule, &candidate) } else { glob(rule, parts[length - 1]) }
    })
}

/// `*` matches any characters except a slash, `?` one character.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Row by row, so that a hostile pattern costs at most its length times the text's.
    let mut row: Vec<bool> = vec![false; text.len() + 1];
    row[0] = true;
    for symbol in pattern {
        let mut next = vec![false; text.len() + 1];
        next[0] = symbol == '*' && row[0];
        for (index, character) in text.iter().enumerate() {
            next[index + 1] = match symbol {
                '*' => row[index + 1] || (next[index] && *character != '/'),
                '?' => row[index] && *character != '/',
                other => row[index] && other == *character,
            };
        }
        row = next;
    }
    row[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_helmignore() {
        for (rule, path, expected) in [
            ("*.swp", "templates/a.swp", true),
            ("*.swp", "templates/a.yaml", false),
            (".git/", ".git/config", true),
            ("notes/", "notes", false),
            ("/ci", "ci/x.yaml", true),
            ("/ci", "templates/ci", false),
            ("templates/*.md", "templates/a.md", true),
            ("templates/*.md", "templates/b/a.md", false),
            ("a?c", "abc", true),
        ] {
            assert_eq!(matches_rule(rule, path), expected, "{rule} {path}");
        }
    }
}

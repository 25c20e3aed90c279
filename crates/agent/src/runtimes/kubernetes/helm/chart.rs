//! Requirements for charts (AD-05): chart version 2, no `lookup`, no hooks except tests, no CRDs.

use super::super::apply::{CLAIM, POLICY};
use super::super::decorate::with;
use super::super::object::annotation;
use margo::archive::{self, Limits};
use margo::package::PackageFile;
use serde_json::{Value, json};

const LIMITS: Limits = margrave_oci::images::LIMITS;
/// Depth limit for subcharts.
const DEPTH_MAX: usize = 3;
const HOOK: &str = "helm.sh/hook";

/// The relevant properties of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chart {
    pub(super) name: String,
    pub(super) version: String,
    app_version: Option<String>,
    description: Option<String>,
}

impl Chart {
    pub(super) fn read(archive: &[u8]) -> Result<Self, String> {
        let entries = archive::unpack(archive, LIMITS).map_err(|error| error.to_string())?;
        let inside = |entry: archive::Entry| {
            let (_, path) = entry.path.split_once('/')?;
            Some(PackageFile { path: path.to_owned(), bytes: entry.bytes })
        };
        let files: Vec<PackageFile> = entries.into_iter().filter_map(inside).collect();
        let file = files.iter().find(|file| file.path == "Chart.yaml").ok_or("it has no Chart.yaml")?;
        let metadata = margrave_oci::objects::parse(&file.bytes).map_err(|error| format!("Chart.yaml: {error}"))?;
        let metadata = metadata.first().ok_or("Chart.yaml is empty")?;
        if metadata["apiVersion"] != "v2" {
            return Err("`apiVersion` in Chart.yaml is not `v2`".to_owned());
        }
        let text = |name: &str| match &metadata[name] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let chart = Self {
            name: text("name").ok_or("Chart.yaml has no `name`")?,
            version: text("version").ok_or("Chart.yaml has no `version`")?,
            app_version: text("appVersion"),
            description: text("description"),
        };
        match find_lookup(&files, 0) {
            Some(path) => Err(format!("{path} uses `lookup`, which charts must not rely on")),
            None => Ok(chart),
        }
    }

    /// AD-04: `_` in a revision stands for `+`.
    pub(super) fn other_version(&self, revision: &str) -> Option<String> {
        let is_digest = revision.contains(':');
        let desired = revision.replace('_', "+");
        (!is_digest && desired != self.version)
            .then(|| format!("the chart says it is version `{}`, its revision is `{desired}`", self.version))
    }

    /// Chart.yaml of the chart with the rendered objects. JSON is YAML.
    pub(super) fn metadata(&self) -> Value {
        let mut metadata = json!({ "apiVersion": "v2", "name": self.name, "version": self.version });
        for (key, value) in [("appVersion", &self.app_version), ("description", &self.description)] {
            if let Some(value) = value {
                metadata[key] = json!(value);
            }
        }
        metadata
    }
}

/// The first template that uses `lookup`.
fn find_lookup(files: &[PackageFile], depth: usize) -> Option<String> {
    for file in files {
        let path = &file.path;
        if path.split('/').any(|part| part == "templates") && uses_lookup(&String::from_utf8_lossy(&file.bytes)) {
            return Some(path.clone());
        }
        let packed =
            path.starts_with("charts/") && std::path::Path::new(path).extension().is_some_and(|end| end == "tgz");
        if packed && depth < DEPTH_MAX {
            let entries = archive::unpack(&file.bytes, LIMITS).unwrap_or_default();
            let inner: Vec<PackageFile> =
                entries.into_iter().map(|entry| PackageFile { path: entry.path, bytes: entry.bytes }).collect();
            if let Some(found) = find_lookup(&inner, depth + 1) {
                return Some(format!("{path}: {found}"));
            }
        }
    }
    None
}

/// Whether a template action calls the function; comments and texts do not count.
fn uses_lookup(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{{") {
        if after.trim_start_matches('-').trim_start().starts_with("/*") {
            rest = after.split_once("*/").map_or("", |(_, after)| after);
            continue;
        }
        let (calls, end) = scan(after);
        if calls {
            return true;
        }
        rest = &after[end..];
    }
    false
}

/// Scans one action; returns whether it calls `lookup`, and where it ends.
fn scan(action: &str) -> (bool, usize) {
    let mut word = String::new();
    // A name after a dot or a dollar is a field or a variable.
    let mut named = false;
    let mut quote: Option<char> = None;
    let mut escaped = false;
    let mut previous = ' ';
    for (at, character) in action.char_indices() {
        if let Some(open) = quote {
            match character {
                _ if escaped => escaped = false,
                '\\' if open == '"' => escaped = true,
                _ if character == open => quote = None,
                _ => {}
            }
            previous = character;
            continue;
        }
        if character.is_alphanumeric() || character == '_' {
            if word.is_empty() {
                named = matches!(previous, '.' | '$');
            }
            word.push(character);
        } else {
            if word == "lookup" && !named {
                return (true, at);
            }
            word.clear();
            if matches!(character, '"' | '`' | '\'') {
                quote = Some(character);
            }
            if character == '}' && previous == '}' {
                return (false, at + 1);
            }
        }
        previous = character;
    }
    (word == "lookup" && !named, action.len())
}

/// Removes tests, with a warning, and rejects unsupported objects. Claims outlive the release.
pub(super) fn check_objects(objects: Vec<Value>) -> Result<(Vec<Value>, Vec<String>), String> {
    let mut kept = Vec::new();
    let mut warnings = Vec::new();
    for mut object in objects {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if let Some(hook) = annotation(&object, HOOK) {
            let is_test = |hook: &str| matches!(hook.trim(), "test" | "test-success" | "test-failure");
            if hook.split(',').all(is_test) {
                warnings.push(format!("the chart's test {kind} `{name}` is not run"));
                continue;
            }
            return Err(format!("{kind} `{name}` is a hook (`{hook}`), which charts must not rely on"));
        }
        if kind == "CustomResourceDefinition" {
            return Err(format!("it brings the CustomResourceDefinition `{name}`, which charts must not manage"));
        }
        if kind == CLAIM
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            let annotations = metadata.remove("annotations").unwrap_or_default();
            metadata.insert("annotations".to_owned(), with(annotations, POLICY, "keep"));
        }
        kept.push(object);
    }
    Ok((kept, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: &str = "apiVersion: v2\nname: press\nversion: 1.2.3+7\nappVersion: 1.10\n";

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let files: Vec<_> = files.iter().map(|(path, bytes)| ((*path).to_owned(), *bytes)).collect();
        archive::pack(&files)
    }

    #[test]
    fn a_chart_is_read_with_its_version() {
        // AD-04
        let chart = Chart::read(&packed(&[("press/Chart.yaml", CHART.as_bytes())])).unwrap();
        assert_eq!((chart.name.as_str(), chart.version.as_str()), ("press", "1.2.3+7"));
        assert_eq!(chart.other_version("1.2.3_7"), None);
        assert_eq!(chart.other_version("1.2.3+7"), None);
        assert!(chart.other_version("1.2.4").is_some());
        assert_eq!(chart.other_version("sha256:00"), None);
        let old = CHART.replace("v2", "v1");
        assert!(Chart::read(&packed(&[("press/Chart.yaml", old.as_bytes())])).unwrap_err().contains("not `v2`"));
    }

    #[test]
    fn rejects_charts_with_lookup() {
        // AD-05
        for template in [
            "{{ lookup \"v1\" \"Secret\" \"\" \"x\" }}",
            "{{- $x := (lookup \"v1\" \"Secret\" .Release.Namespace \"x\") -}}",
            "{{ if }}\n{{- with lookup \"v1\" \"A\" \"\" \"\" }}",
        ] {
            assert!(uses_lookup(template), "{template}");
        }
        for template in [
            "lookup",
            "{{ .Values.lookup }}",
            "{{ $lookup }}",
            "{{ include \"lookup\" . }}",
            "{{/* lookup \"v1\" }} */}} text lookup",
            "{{ default \"}} lookup\" .x }} lookup",
            "{{ lookups }}",
        ] {
            assert!(!uses_lookup(template), "{template}");
        }
        let inner = packed(&[("base/templates/_helpers.tpl", b"{{ (lookup \"v1\" \"A\" \"\" \"\") }}")]);
        let chart = packed(&[("press/Chart.yaml", CHART.as_bytes()), ("press/charts/base-1.tgz", &inner)]);
        assert!(
            Chart::read(&chart).unwrap_err().contains("charts/base-1.tgz: base/templates/_helpers.tpl uses `lookup`")
        );
    }

    #[test]
    fn rejects_hooks_and_crds_and_skips_tests() {
        // AD-05
        let object = |kind: &str, hook: Option<&str>| {
            let mut object = json!({ "kind": kind, "metadata": { "name": "x" } });
            if let Some(hook) = hook {
                object["metadata"]["annotations"] = json!({ HOOK: hook });
            }
            object
        };
        let (kept, warnings) = check_objects(vec![object("Pod", Some("test")), object("Service", None)]).unwrap();
        assert_eq!((kept.len(), warnings.as_slice()), (1, &["the chart's test Pod `x` is not run".to_owned()][..]));
        let refused = check_objects(vec![object("Job", Some("test, pre-install"))]).unwrap_err();
        assert!(refused.contains("Job `x` is a hook"), "{refused}");
        let refused = check_objects(vec![object("CustomResourceDefinition", None)]).unwrap_err();
        assert!(refused.contains("must not manage"), "{refused}");
        let (kept, _) = check_objects(vec![object("PersistentVolumeClaim", None)]).unwrap();
        assert_eq!(kept[0]["metadata"]["annotations"][POLICY], "keep");
    }
}
